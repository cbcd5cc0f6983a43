"""The canonical run without Redis: each link is tried once in 30 days (spec 5.1, 5.3, 5.5)."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.app import roles
from headwater.app.roles import run_fetch_pool
from headwater.app.runtime import open_runtime
from headwater.canonical.operations import CanonicalTotals
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.core.urls import uid_of
from headwater.db import canonical
from headwater.db.context import open_database_context
from tests.database_state import backdate, canonical_attempts, count, end_leases, make_due
from tests.harness import AppHarness, open_harness
from tests.program import forked, program_settings
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
HTML = {"Content-Type": "text/html; charset=utf-8"}


def pages(site: Site, *names: str) -> None:
    site.answers[FEED] = rss(*(f"http://news.test/{name}" for name in names))
    for name in names:
        site.answers[f"http://news.test/{name}"] = Answer(page(f"story {name}"), headers=HTML)


async def canonical_run(harness: AppHarness) -> CanonicalTotals:
    totals = CanonicalTotals()
    runner = harness.runtime.canonical_runner
    await runner.run_or_refuse(totals, lambda: run_fetch_pool(harness.runtime, harness.operations.metrics))
    return totals


def counts(totals: CanonicalTotals) -> tuple[int, int, int, dict[str, int], int]:
    return totals.new, totals.stored, totals.skipped, totals.failed, totals.deferred


async def add_feed(harness: AppHarness, category: str = "jobs_report") -> None:
    await harness.operations.sources.add(FEED, "news", {"category": category})


async def test_a_run_without_a_lease_row_is_refused(harness: AppHarness) -> None:
    """Spec 5.5: somebody has emptied the table."""
    await harness.execute("DELETE FROM canonical_state")
    with pytest.raises(OperatorError) as refused:
        await canonical_run(harness)
    assert refused.value.reason is Reason.SCHEMA_MISMATCH


async def test_each_link_is_fetched_once_and_a_second_run_sends_no_request(site: Site, harness: AppHarness) -> None:
    """Spec 5.5."""
    pages(site, "a", "b")
    await add_feed(harness)
    assert counts(await canonical_run(harness)) == (2, 2, 0, {}, 0)
    seen = len(site.seen)
    assert counts(await canonical_run(harness)) == (0, 0, 0, {}, 0)
    assert len(site.seen) == seen
    attempts = await canonical_attempts(harness)
    assert [(one.uid, one.url, one.categories, one.code) for one in attempts] == [
        (uid_of(f"http://news.test/{name}"), f"http://news.test/{name}", ["jobs_report"], None) for name in ("a", "b")
    ]


async def test_the_uid_of_a_link_is_that_of_its_url_as_given(site: Site, harness: AppHarness) -> None:
    """Spec 5.1: the normalized URL of the frontier does not matter."""
    given = "http://NEWS.test/a/?utm_source=feed#top"
    pages(site, "a")
    site.answers[FEED] = rss(given)
    await add_feed(harness)
    assert (await canonical_run(harness)).stored == 1
    (attempt,) = await canonical_attempts(harness)
    assert attempt.url is not None
    assert attempt.uid == uid_of(attempt.url)
    assert "utm_source" in attempt.url


async def test_a_link_with_a_document_is_skipped_and_marked(site: Site, harness: AppHarness) -> None:
    """Spec 5.5."""
    pages(site, "a")
    await add_feed(harness)
    await harness.work()
    seen = len(site.seen)
    assert counts(await canonical_run(harness)) == (1, 0, 1, {}, 0)
    assert len(site.seen) == seen
    assert (await canonical_run(harness)).new == 0


@pytest.mark.parametrize(("days", "tried"), [(29, False), (31, True)])
async def test_an_attempt_counts_for_30_days(site: Site, harness: AppHarness, days: int, tried: bool) -> None:
    """Spec 5.5: attempted 29 days ago is skipped, 31 days ago is tried."""
    pages(site, "a")
    await add_feed(harness)
    await canonical_run(harness)
    await backdate(harness, "canonical_attempts.attempted_at", timedelta(days=days))
    before = site.visits("http://news.test/a")
    assert counts(await canonical_run(harness)) == ((1, 1, 0, {}, 0) if tried else (0, 0, 0, {}, 0))
    assert site.visits("http://news.test/a") - before == tried
    assert (await canonical_run(harness)).new == 0


async def test_each_failure_has_its_code_and_is_not_tried_again(site: Site, harness: AppHarness) -> None:
    """Spec 5.3."""
    nothing = "<html><body><script>" + "x = 1;" * 60 + "</script></body></html>"
    pages(site, "missing", "short", "empty", "failing", "image")
    site.answers |= {
        "http://news.test/missing": Answer(status=404),
        "http://news.test/short": Answer("<p>hi</p>", headers=HTML),
        "http://news.test/empty": Answer(nothing, headers=HTML),
        "http://news.test/failing": Answer(status=500),
        "http://news.test/image": Answer(b"\xff\xd8\xff" + b"x" * 500),
    }
    await add_feed(harness)
    totals = await canonical_run(harness)
    assert totals.failed == {"FAIL_HTTP": 2, "FAIL_BAD_HTML": 2, "FAIL_EMPTY": 1}
    assert {type(code) for code in totals.failed} == {str}  # logs show them as plain strings
    failures = [(one.url, one.code, one.reason) for one in await canonical_attempts(harness)]
    assert failures == [
        ("http://news.test/empty", "FAIL_EMPTY", "empty_text"),
        ("http://news.test/failing", "FAIL_HTTP", "max_retries"),
        ("http://news.test/image", "FAIL_BAD_HTML", "unsupported_type"),
        ("http://news.test/missing", "FAIL_HTTP", "not_found"),
        ("http://news.test/short", "FAIL_BAD_HTML", "bad_html"),
    ]
    assert sorted((one.url, one.code, one.reason) for one in totals.failed_urls) == failures
    seen = len(site.seen)
    assert (await canonical_run(harness)).new == 0
    assert len(site.seen) == seen


async def test_a_server_that_never_answers_is_a_timeout(site: Site, make_settings: Callable[..., Settings]) -> None:
    """Spec 5.3: the last retry decides the code."""
    pages(site, "slow")
    site.hanging.add("http://news.test/slow")
    quick = make_settings(connect_to=site.connect_to, page_timeout_seconds=0.2, max_retries=1)
    async with open_harness(quick) as harness:
        await add_feed(harness)
        assert (await canonical_run(harness)).failed == {"FAIL_TIMEOUT": 1}


async def test_a_link_that_waits_long_is_deferred_and_not_marked(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Spec 5.5: a later run marks its result."""
    pages(site, "a", "b")
    site.answers["http://news.test/b"] = [Answer(status=503), Answer(page("story b"), headers=HTML)]
    patient = make_settings(connect_to=site.connect_to, retry_base_seconds=600)
    async with open_harness(patient) as harness:
        await add_feed(harness)
        totals = await canonical_run(harness)
        assert counts(totals) == (2, 1, 0, {}, 1)
        (late,) = totals.deferred_urls
        assert (late.url, late.reason) == ("http://news.test/b", "http_5xx")
        assert late.until is not None
        assert [one.url for one in await canonical_attempts(harness)] == ["http://news.test/a"]
        await make_due(harness)
        assert counts(await canonical_run(harness)) == (1, 1, 0, {}, 0)


async def test_a_moved_link_has_the_article_of_its_final_page(site: Site, harness: AppHarness) -> None:
    """Spec 4.2, 5.5: on another host, and on a page that was known before."""
    pages(site, "a", "b")
    moved = Answer(status=301, headers={"Location": "http://other.test/a"})
    site.answers |= {"http://news.test/a": moved, "http://news.test/b": moved}
    site.answers["http://other.test/a"] = Answer(page("story a"), headers=HTML)
    await add_feed(harness)
    assert counts(await canonical_run(harness)) == (2, 2, 0, {}, 0)
    assert site.visits("http://other.test/a") == 1
    assert {one.final_url for one in await canonical_attempts(harness)} == {"http://other.test/a"}


async def test_a_source_without_a_category_or_without_pages_links_nothing(site: Site, harness: AppHarness) -> None:
    pages(site, "a")
    await harness.operations.sources.add(FEED, "news")
    await harness.work()
    assert (await canonical_run(harness)).new == 0


async def test_a_link_whose_source_was_removed_is_fetched(site: Site, harness: AppHarness) -> None:
    """Spec 2.2: its category still links it."""
    pages(site, "a")
    await add_feed(harness)
    await harness.operations.sources.remove("news")
    assert await harness.outcomes() == {"http://news.test/a": "source_removed"}
    assert counts(await canonical_run(harness)) == (1, 1, 0, {}, 0)
    assert (await harness.document()).source == "canonical"


async def test_links_expire_after_48_hours(site: Site, harness: AppHarness) -> None:
    """Spec 5.4, without Redis."""
    pages(site, "a")
    await add_feed(harness)
    await backdate(harness, "category_links.seen_at", timedelta(hours=49))
    assert (await canonical_run(harness)).new == 0
    assert await count(harness, "category_links") == 0


async def test_only_one_run_works_at_a_time_and_the_next_continues_a_killed_one(
    site: Site, harness: AppHarness, make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 2.4, 5.5, 9.3."""
    monkeypatch.setattr(roles, "GRACE_SECONDS", 0.2)
    pages(site, "a", "b")
    site.hanging.add("http://news.test/a")
    await add_feed(harness)
    first = asyncio.create_task(canonical_run(harness))
    while "http://news.test/a" not in site.waiting:
        await asyncio.sleep(0.01)
    async with (
        open_database_context(make_settings(connect_to=site.connect_to)) as context,
        open_runtime(context) as runtime,
    ):
        other = await runtime.canonical_runner.run(CanonicalTotals(), nullcontext)
        assert other is not None
        assert other.holder == harness.runtime.context.holder
        with pytest.raises(OperatorError):
            await runtime.canonical_runner.run_or_refuse(CanonicalTotals(), nullcontext)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    site.hanging.clear()
    totals = await canonical_run(harness)
    assert totals.stored + totals.skipped == totals.new > 0
    assert all(one.attempted_at for one in await canonical_attempts(harness))
    assert len(await canonical_attempts(harness)) == 2


async def test_a_run_continues_after_a_killed_program_when_its_leases_have_expired(
    site: Site, harness: AppHarness, tmp_path: Path
) -> None:
    """Spec 2.4, 9.3."""
    pages(site, "a", "b")
    site.hanging.add("http://news.test/a")
    await add_feed(harness)
    given = program_settings(harness.runtime.context.settings)
    with forked("canonical", "run", cwd=tmp_path, **given) as program:  # it is killed at the end
        async with asyncio.timeout(30):
            while "http://news.test/a" not in site.waiting:
                await asyncio.sleep(0.01)
    site.hanging.clear()
    now = harness.runtime.context.clock.now()
    ((until,),) = await harness.rows("SELECT lease_until FROM canonical_state")
    assert until - now < timedelta(seconds=31)
    held = f"process {program.pid} on .* until {until:%H:%M:%S} UTC"
    with pytest.raises(OperatorError, match=held):
        await canonical_run(harness)
    await end_leases(harness)
    await make_due(harness)
    totals = await canonical_run(harness)
    assert totals.stored + totals.skipped == totals.new > 0
    assert [(one.code, one.requested_at) for one in await canonical_attempts(harness)] == [(None, None)] * 2


async def test_many_links_are_processed_in_batches(site: Site, harness: AppHarness) -> None:
    """Spec 5.5: 1,200 links that end at once, among them invalid ones."""
    urls = [
        f"http://h{number % 24}.test/{number}" if number % 100 else f"no address {number}" for number in range(1200)
    ]
    for host in range(24):
        site.answers[f"http://h{host}.test/robots.txt"] = Answer("User-agent: *\nDisallow: /")
    async with harness.runtime.context.database.connection() as connection:
        now = harness.runtime.context.clock.now()
        await canonical.note_links(connection, "many", {uid_of(url): url for url in urls}, now)
    totals = await canonical_run(harness)
    assert counts(totals) == (1200, 0, 0, {"FAIL_HTTP": 1200}, 0)
    assert len(totals.failed_urls) == 20
    reasons = Counter(one.reason for one in await canonical_attempts(harness))
    assert reasons == {"invalid_url": 12, "robots_blocked": 1188}
    assert len(site.seen) == 24


async def test_many_articles_get_new_categories_in_batches(site: Site, harness: AppHarness) -> None:
    """Spec 5.4, 5.5: attempts of other programs and failed links do not change."""
    pages(site, "a")
    await add_feed(harness)
    await canonical_run(harness)
    seen = len(site.seen)
    urls = {uid_of(url): url for url in (f"http://news.test/{number}" for number in range(1200))}
    foreign, failed, *articles = urls
    await harness.execute(
        "INSERT INTO canonical_attempts (uid, categories, url_id, attempted_at) SELECT g.uid, categories, url_id, "
        "attempted_at FROM canonical_attempts, unnest($1::text[]) AS g (uid)",
        list(urls),
    )
    await harness.execute("UPDATE canonical_attempts SET categories = '{}', url_id = NULL WHERE uid = $1", foreign)
    await harness.execute("UPDATE canonical_attempts SET code = 'FAIL_HTTP' WHERE uid = $1", failed)
    async with harness.runtime.context.database.connection() as connection:
        for category in ("another", "one more"):
            await canonical.note_links(connection, category, urls, harness.runtime.context.clock.now())
    for _ in range(2):
        assert (await canonical_run(harness)).new == 0
    assert len(site.seen) == seen
    found = {one.uid: one.categories for one in await canonical_attempts(harness) if one.uid in urls}
    everywhere = ["jobs_report", "another", "one more"]
    assert found == dict.fromkeys(articles, everywhere) | {foreign: [], failed: ["jobs_report"]}


async def test_a_link_of_a_killed_run_gets_the_categories_that_link_it_since(site: Site, harness: AppHarness) -> None:
    """Spec 5.4, 9.3."""
    pages(site, "a")
    await add_feed(harness)
    await canonical_run(harness)
    await harness.execute("UPDATE canonical_attempts SET requested_at = attempted_at, attempted_at = NULL")
    url = "http://news.test/a"
    async with harness.runtime.context.database.connection() as connection:
        await canonical.note_links(connection, "another", {uid_of(url): url}, harness.runtime.context.clock.now())
    await canonical_run(harness)
    assert [one.categories for one in await canonical_attempts(harness)] == [["jobs_report", "another"]]
