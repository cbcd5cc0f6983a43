"""A source has a past of limited size: polls, changed settings, and how fresh its documents are (issue 22)."""

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from headwater.app.maintenance import rescue_expired
from headwater.core.history import HistoryWindow
from headwater.core.reasons import Reason
from headwater.history.sources import SourceHistory, measure_sources
from tests.api import open_api
from tests.database_state import backdate, count, end_leases
from tests.frontier import NOW, Frontier
from tests.harness import AppHarness
from tests.integration.test_plans import MODES, explain
from tests.program import headwater, program_settings
from tests.refusals import refused
from tests.server import Answer, Site, page, rss

FEED, PAGE = "http://news.test/feed", "http://news.test/a"
DAY = timedelta(days=1)


async def history_of(harness: AppHarness, name: str = "news.test") -> SourceHistory:
    return await harness.operations.history.sources.show(name)


@pytest.fixture
async def fed(site: Site, harness: AppHarness) -> AppHarness:
    """A source that was polled once."""
    site.answers[FEED] = rss(PAGE, "http://news.test/b")
    for url in (PAGE, "http://news.test/b"):
        site.answers[url] = Answer(page("floods"), headers={"Content-Type": "text/html"})
    await harness.operations.sources.add(FEED)
    return harness


async def test_polls_that_find_nothing_are_one_event_and_a_failure_is_its_own(site: Site, fed: AppHarness) -> None:
    for _ in range(3):
        await fed.poll("news.test")
    site.answers[FEED] = Answer("", status=500)
    await fed.poll("news.test")
    polls = [event for event in (await history_of(fed)).events if event.kind != "setting" and event.method == "main"]
    assert [(event.polls, event.new_items, event.reason) for event in polls] == [
        (1, 0, Reason.HTTP_5XX),
        (3, 0, Reason.POLLED),
        (1, 2, Reason.POLLED),
    ]
    assert polls[1].since < polls[1].at < polls[0].at
    assert polls[0].text


async def test_a_poll_whose_worker_is_lost_is_an_event(fed: AppHarness) -> None:
    await fed.execute(
        "UPDATE poll_state SET lease_holder = 'x', lease_token = gen_random_uuid(), lease_until = now() "
        "WHERE method = 'main'"
    )
    await end_leases(fed, "poll_state")
    await rescue_expired(fed.runtime.context)
    reasons = {event.reason for event in (await history_of(fed)).events}
    assert Reason.WORKER_LOST in reasons


async def test_a_changed_setting_is_an_event_of_its_source_and_a_mark_on_all_charts(fed: AppHarness) -> None:
    await fed.operations.sources.edit("news.test", {"rate_per_second": 0.5})
    await fed.operations.sources.set_enabled("news.test", enabled=False)
    await fed.operations.sources.set_enabled("news.test", enabled=False)
    changed = [event.text for event in (await history_of(fed)).events if event.kind == "setting"]
    assert changed[:2] == ["disabled", "rate_per_second was 2.0, is 0.5"]
    marks = (await fed.operations.history.measure(HistoryWindow.HOUR)).marks
    assert [(mark.kind, mark.source) for mark in marks[:2]] == [("setting", "news.test")] * 2


async def test_a_run_is_an_event_with_its_id(fed: AppHarness) -> None:
    run = await fed.operations.begin_sync("news.test")
    while (await fed.operations.runs.get(run.id)).status == "running":
        await asyncio.sleep(0.01)
    assert run.id in [event.run_id for event in (await history_of(fed)).events if event.kind == "run"]


async def test_an_unknown_source_has_no_history(harness: AppHarness) -> None:
    with refused(Reason.UNKNOWN_SOURCE):
        await history_of(harness, "nothing")


async def add_items(frontier: Frontier, rows: list[tuple[datetime, float, float, float]]) -> None:
    """Add items, each with its publication, and the seconds until it is seen, fetched and searchable."""
    for number, (published, seen, fetched, searchable) in enumerate(rows):
        await frontier.put(f"http://a.test/{number}")
        first_seen = published + timedelta(seconds=seen)
        ended = first_seen + timedelta(seconds=fetched)
        await frontier.execute(
            "INSERT INTO items (id, source_id, url, url_id, title, published_at, published_is_sighting, first_seen_at, "
            "last_seen_at) SELECT encode(url_hash, 'hex'), source_id, url, id, url, $1, false, $2, $2 "
            "FROM url_frontier WHERE url = $3",
            published,
            first_seen,
            f"http://a.test/{number}",
        )
        await frontier.execute(
            "INSERT INTO fetch_log (url_id, holder, attempt, finished_at, sent_at, elapsed_ms, reason) "
            "SELECT id, 'x', 1, $1, $2, 500, 'stored' FROM url_frontier WHERE url = $3",
            ended + timedelta(seconds=searchable),
            ended - timedelta(milliseconds=500),
            f"http://a.test/{number}",
        )


async def lags(frontier: Frontier) -> dict[str, list[float]]:
    names = ("seen", "fetched", "searchable", "total")
    columns = ", ".join(f"{name}_lags" for name in names)
    row = (await frontier.rows(f"SELECT {columns} FROM source_days ORDER BY day DESC LIMIT 1"))[0]
    return dict(zip(names, row, strict=True))


@pytest.mark.both_servers
async def test_the_lags_of_a_source_are_measured_from_publication_to_search(frontier: Frontier) -> None:
    ages = range(1, 102)
    await add_items(frontier, [(NOW + timedelta(minutes=age), age, 10 * age, 2) for age in ages])
    later = NOW + timedelta(hours=6)
    assert await measure_sources(frontier.database, later) == 1
    found = await lags(frontier)
    assert found["seen"] == [51, 96]
    assert found["fetched"] == [510, 960]
    assert found["searchable"] == [2, 2]
    assert found["total"] == [563, 1058]


@pytest.mark.both_servers
async def test_items_older_than_their_source_have_no_lag_from_their_publication(frontier: Frontier) -> None:
    await add_items(frontier, [(NOW - timedelta(hours=1), 7200, 5, 1), (NOW + timedelta(hours=1), 60, 7, 1)])
    await measure_sources(frontier.database, NOW + timedelta(hours=3))
    found = await lags(frontier)
    assert found["seen"] == [60, 60]
    assert found["fetched"] == [6, pytest.approx(6.9)]


@pytest.mark.both_servers
async def test_a_source_is_measured_each_hour_and_soon_after_something_new(frontier: Frontier) -> None:
    at = NOW + timedelta(hours=1)
    assert [await measure_sources(frontier.database, at + wait * timedelta(minutes=1)) for wait in (0, 1, 59, 60)] == [
        1,
        0,
        0,
        1,
    ]
    await frontier.execute("INSERT INTO poll_state (source_id, last_new_at) VALUES ($1, $2)", frontier.source_id, at)
    await frontier.execute("UPDATE source_days SET measured_at = $1", at)
    assert await measure_sources(frontier.database, at + timedelta(minutes=2)) == 1


@pytest.mark.both_servers
async def test_days_and_polls_of_a_month_are_bounded(frontier: Frontier) -> None:
    """Polls are kept for 7 days and days for 60, however long a source is polled."""
    await frontier.execute(
        "INSERT INTO poll_log (source_id, method, polled_at, reason, new_items, new_urls) "
        "SELECT $1, 'main', $2::timestamptz + n * interval '1 hour', 'polled', 0, 0 FROM generate_series(1, 2400) n",
        frontier.source_id,
        NOW,
    )
    for day in range(101):
        await measure_sources(frontier.database, NOW + day * DAY)
    assert await count(frontier, "source_days") <= 62
    assert await count(frontier, "poll_log") == 7 * 24 + 1
    ((polls,),) = await frontier.rows("SELECT polls FROM source_days WHERE day = $1", (NOW + 99 * DAY).date())
    assert polls == 24


@pytest.mark.both_servers
async def test_the_sources_to_measure_are_found_without_the_older_days(frontier: Frontier) -> None:
    await frontier.execute(
        "INSERT INTO source_days (source_id, day, items, polls, failed_polls, measured_at) "
        "SELECT $1, $2::date - n, 0, 0, 0, $3 FROM generate_series(0, 9999) n",
        frontier.source_id,
        NOW.date(),
        NOW,
    )
    await frontier.execute("ANALYZE source_days")
    for mode in MODES:
        explained = await explain(frontier.database, "find_unmeasured_sources", NOW, 20, mode=mode)
        assert not explained.reads_whole("source_days")


@pytest.mark.both_servers
async def test_a_measure_reads_only_the_newest_items(frontier: Frontier) -> None:
    async with frontier.database.connection() as connection:
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(
            "INSERT INTO items (id, source_id, url, title, published_at, published_is_sighting, first_seen_at, "
            "last_seen_at) SELECT encode(sha256(n::text::bytea), 'hex'), $1, n::text, 'x', "
            "$2::timestamptz - n * interval '1 hour', false, $2, $2 FROM generate_series(1, 30000) n",
            frontier.source_id,
            NOW,
        )
        await connection.execute(
            "INSERT INTO source_days (source_id, day, items, polls, failed_polls, measured_at) "
            "VALUES ($1, $2, 0, 0, 0, $3)",
            frontier.source_id,
            NOW.date(),
            NOW,
        )
        await connection.execute("RESET session_replication_role")
        await connection.execute("ANALYZE items, source_days, poll_log, sources")
    for mode in MODES:
        ids = [frontier.source_id]
        explained = await explain(frontier.database, "measure_sources", ids, NOW, ["stored"], 200, mode=mode)
        assert not explained.reads_whole("items")
        assert explained.rows_handled < 3000


LOAD = """
SET session_replication_role = replica;
INSERT INTO sources (name, kind, created_at) SELECT 's' || n, 'manual', now() FROM generate_series(1, 200) n;
INSERT INTO poll_log (source_id, method, polled_at, reason, new_items, new_urls)
SELECT n % 200 + 1, 'main', timestamptz '2026-03-12' - n * interval '1 minute', 'polled', 0, 0
FROM generate_series(1, 20000) n;
INSERT INTO source_days (source_id, day, items, polls, failed_polls, measured_at)
SELECT s, date '2026-03-12' - n, 0, 0, 0, now() FROM generate_series(1, 200) s, generate_series(0, 60) n;
INSERT INTO history_marks (at, kind, source_id, label)
SELECT timestamptz '2026-03-12' - n * interval '1 hour', 'setting', n % 200 + 1, 'x' FROM generate_series(1, 5000) n;
INSERT INTO history (step, at, metric, value)
SELECT 'minute', timestamptz '2026-03-12' - n * interval '1 minute', m, n
FROM generate_series(1, 2880) n, generate_series(1, 12) m;
ANALYZE sources, poll_log, source_days, history_marks, history;
"""
TABLES = ("poll_log", "source_days", "history_marks", "history")


@pytest.mark.both_servers
async def test_pages_of_history_read_no_table_in_whole(frontier: Frontier) -> None:
    """Issue 22: the pages take as long after years as after a day."""
    await frontier.execute(LOAD)
    names, hour = ["s7", "s8"], timedelta(hours=1)
    reads = {
        "list_polls": (7, 300),
        "list_source_marks": (7, 30),
        "list_marks": (NOW - 2 * DAY, 30, "s7"),
        "list_source_days": (names, NOW.date() - 30 * DAY),
        "get_source_state": ("s7", NOW),
        "get_last_minute": (),
        "get_first_activity": (),
        "read_history": ("minute", NOW - hour, NOW, timedelta(minutes=1), ["pending"]),
        "prune_polls": (NOW - 30 * DAY, 5000),
        "prune_source_days": ([7, 8], NOW.date() - 60 * DAY),
    }
    for mode in MODES:
        for name, arguments in reads.items():
            explained = await explain(frontier.database, name, *arguments, mode=mode)
            assert not [table for table in TABLES if explained.reads_whole(table)], (name, mode)
            assert explained.rows_handled < 3000, (name, mode)


async def test_the_api_and_the_command_show_the_past_of_a_source(fed: AppHarness, tmp_path: Path) -> None:
    await fed.work()
    await fed.execute("UPDATE items SET published_at = now()")
    context = fed.runtime.context
    await backdate(fed, "source_days.measured_at", DAY)
    await measure_sources(context.database, context.clock.now())
    async with open_api(context.settings) as api:
        status, answered = await api.get("/sources/news.test/history")
    settings = program_settings(context.settings)
    printed = await asyncio.to_thread(headwater, "source", "history", "news.test", "--json", cwd=tmp_path, **settings)
    assert status == 200
    assert json.loads(printed.stdout)["freshness"]["fetched"] == answered["freshness"]["fetched"]
    assert 0 <= answered["freshness"]["searchable"]["p50_seconds"] < 60
    assert answered["days"][-1]["polls"] >= 1
    text = (await asyncio.to_thread(headwater, "source", "history", "news.test", cwd=tmp_path, **settings)).stdout
    assert "2 new of 2 items" in text
