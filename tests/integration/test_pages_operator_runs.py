"""The pages of runs, completeness, hand-offs, jobs and webhooks, without JavaScript (spec 8.4, 11.13)."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.changes.operations import NewWebhook
from headwater.core.settings import Settings
from tests.api import TOKEN
from tests.harness import AppHarness, open_harness
from tests.integration.test_pages import check_page
from tests.pages import Reader, open_reader
from tests.program import headwater
from tests.server import Answer, Site, page, rss

FEED, GOOD, GONE, LATER = (f"http://news.test/{name}" for name in ("feed", "good", "gone", "later"))
DAY = "2026-03-12"  # of the entries
HTML = {"Content-Type": "text/html"}
HOSTILE = '<script>alert(1)</script> \u202e"it\'s" \x1b[31mred'


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    """A source that was synced: one page is stored, one does not exist, and one waits."""
    site.answers[FEED] = rss(GOOD, GONE)
    site.answers[GOOD] = Answer(page("good"), headers=HTML)
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as opened:
        await opened.operations.sources.add(FEED)
        await opened.operations.sources.sync("news.test")
        await opened.work()
        site.answers[FEED] = rss(GOOD, GONE, LATER)
        await opened.operations.sources.sync("news.test")
        yield opened


async def test_runs_are_listed_newest_first_and_each_has_a_page(reader: Reader) -> None:
    shown = await reader.get("/ui/runs")
    check_page(shown)
    assert shown.texts("tr[data-line] td:first-child") == ["2", "1"]
    assert (await reader.get("/ui/runs?status=failed")).texts("tr[data-line]") == []
    assert (await reader.get("/ui/runs?source=nothing")).status == 404
    run = await reader.get("/ui/runs/1")
    check_page(run)
    assert run.texts("main .badge")[0] == "succeeded"
    assert (await reader.get("/ui/runs/99")).status == 404
    assert (await reader.submit_form("/ui/runs", source="news.test", day=DAY)).status == 422  # it has no dated days


async def test_a_day_shows_expected_got_and_each_missing_item_with_its_reason(
    reader: Reader, harness: AppHarness
) -> None:
    await harness.execute("UPDATE items SET title = $1 WHERE url = $2", HOSTILE, GONE)
    shown = await reader.get(f"/ui/completeness/{DAY}")
    check_page(shown)
    assert shown.texts(".tiles dd") == ["3", "1", "1", "1", "0"]
    assert sorted(shown.texts("tr[data-line] .badge")) == ["failed", "waiting"]
    missing = await harness.operations.days.list_missing((await harness.operations.days.day(None)).day)
    assert {(item.url, item.status.value, item.reason) for item in missing.items} == {
        (GONE, "failed", "not_found"),
        (LATER, "waiting", None),
    }
    assert (await reader.get(f"/ui/completeness/{DAY}?source=nothing")).status == 404
    assert (await reader.get("/ui/completeness/0001-01-01")).status == 422
    assert (await reader.get(f"/ui/completeness/{DAY}?after=x")).status == 422


async def test_missing_items_have_pages(harness: AppHarness) -> None:
    day = (await harness.operations.days.day(None)).day
    first = await harness.operations.days.list_missing(day, limit=1)
    second = await harness.operations.days.list_missing(day, limit=1, after=first.next)
    assert {item.url for item in (*first.items, *second.items)} == {GONE, LATER}


async def test_the_command_line_counts_a_day_and_lists_what_is_missing(harness: AppHarness, tmp_path: Path) -> None:
    settings = harness.operations.settings
    day = str((await harness.operations.days.day(None)).day)

    async def run(*words: str) -> str:
        place = {"database_url": settings.database_url, "data_dir": settings.data_dir}
        done = await asyncio.to_thread(headwater, *words, cwd=tmp_path, **place)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def ask(*words: str) -> Any:
        return json.loads(await run(*words, "--json"))

    counted = await ask("completeness", day)
    names = ("expected", "stored", "waiting", "failed", "unfetched")
    assert [counted[name] for name in names] == [3, 1, 1, 1, 0]
    first = await ask("missing", day, "--limit", "1")
    second = await ask("missing", day, "--limit", "1", "--after", first["next"])
    assert {item["url"] for item in (*first["items"], *second["items"])} == {GONE, LATER}
    shown = await run("missing", day)
    assert GONE in shown
    assert "not_found" in shown
    assert "1 of 3 items" in await run("completeness", day)


async def test_handoffs_and_jobs_are_filtered_and_retried(reader: Reader, harness: AppHarness) -> None:
    shown = await reader.get("/ui/handoffs")
    check_page(shown)
    assert len(shown.texts("tr[data-line]")) == 3
    assert not (await reader.get("/ui/handoffs?run=1")).texts("tr[data-line]")  # run 2 brought all of them again
    assert len((await reader.get("/ui/handoffs?run=2")).texts("tr[data-line]")) == 3
    jobs = await reader.get("/ui/jobs?status=failed")
    check_page(jobs)
    assert jobs.texts("td .badge") == ["failed"]
    assert "Retry all failed that match" not in jobs.texts("button")
    assert "Retry all failed that match" in (await reader.get("/ui/jobs?reason=not_found")).texts("button")
    assert (await reader.submit_form("/ui/jobs/retry")).status == 422
    await reader.submit_form("/ui/jobs/retry", reason="not_found")
    assert not (await reader.get("/ui/jobs?status=failed")).texts("tr[data-line]")
    assert (await harness.urls())[GONE].status == "pending"
    assert (await reader.submit_form("/ui/jobs/1/retry")).status == 409


async def test_a_webhook_is_added_tested_disabled_and_removed(reader: Reader, harness: AppHarness) -> None:
    shown = await reader.submit_form("/ui/webhooks", name="desk", url="http://hook.test/x")
    check_page(shown)
    (secret,) = shown.texts(".secret")
    assert secret not in (await reader.get("/ui/webhooks")).text
    again = await reader.submit_form("/ui/webhooks", name="desk", url="http://hook.test/x")
    assert (again.status, len(again.texts("[role=alert]"))) == (409, 1)
    tested = await reader.submit_form("/ui/webhooks/desk/test")
    check_page(tested)
    assert tested.texts(".notice[role=status]")
    await reader.submit_form("/ui/webhooks/desk/disable")
    assert not (await harness.operations.webhooks.get("desk")).enabled
    await reader.submit_form("/ui/webhooks/desk/enable")
    assert (await harness.operations.webhooks.get("desk")).enabled
    await reader.submit_form("/ui/webhooks/desk/remove")
    assert not await harness.operations.webhooks.list_webhooks()


async def test_parked_deliveries_are_shown_retried_and_dismissed(reader: Reader, harness: AppHarness) -> None:
    await harness.operations.webhooks.add(NewWebhook("desk", "http://hook.test/x", since="2026-01-01"))
    await harness.execute(
        "INSERT INTO deliveries (webhook_id, position, url_id, event, status, reason, attempts, due_at, ended_at) "
        "SELECT w.id, c.position, c.url_id, 'document.ready', 'parked', 'http_4xx', 1, now(), now() "
        "FROM webhooks w, changes c WHERE c.document_id IS NOT NULL"
    )
    shown = await reader.get("/ui/webhooks/desk?status=parked")
    check_page(shown)
    parked = len(shown.texts("tr[data-line]"))
    assert parked
    (first, *_) = [node.attributes["data-line"] or "" for node in shown.tree.css("tr[data-line]")]
    await reader.submit_form("/ui/webhooks/desk/dismiss", delivery=first)
    assert (await harness.operations.webhooks.get("desk")).parked == parked - 1
    await reader.submit_form("/ui/webhooks/desk/retry")
    assert (await harness.operations.webhooks.get("desk")).parked == 0
    assert (await reader.submit_form("/ui/webhooks/desk/retry", delivery=first)).status == 404


async def test_a_reader_without_the_scope_sees_no_buttons(harness: AppHarness) -> None:
    await harness.operations.webhooks.add(NewWebhook("desk", "http://hook.test/x"))
    async with open_reader(harness.operations.settings) as reader:
        for path in ("runs", "runs/1", f"completeness/{DAY}", "handoffs", "jobs?source=news.test", "webhooks/desk"):
            shown = await reader.get(f"/ui/{path}")
            assert shown.status == 200
            assert not shown.tree.css("form[method=post]")
