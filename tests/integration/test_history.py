"""The work of Headwater is kept in tables of limited size, a row a minute, then an hour, then a day (issue 22)."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from headwater.app.roles import RoleName
from headwater.core.frontier import FetchOutcome, UrlStatus
from headwater.core.history import HistoryWindow, Metric
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import history
from headwater.db.context import open_database_context
from headwater.history.operations import HistoryOperations
from headwater.history.recorder import KEEP, mark_start, record_history
from tests.database_state import count
from tests.frontier import NOW, STORED, Frontier

pytestmark = pytest.mark.both_servers

MINUTE = timedelta(minutes=1)
FAILED = FetchOutcome(Reason.HTTP_5XX, UrlStatus.DEAD)


async def value(frontier: Frontier, step: str, at: datetime, metric: Metric) -> float | None:
    rows = await frontier.rows("SELECT value FROM history WHERE (step, at, metric) = ($1, $2, $3)", step, at, metric)
    return rows[0][0] if rows else None


async def fetch(frontier: Frontier, *ends: FetchOutcome) -> None:
    """End one attempt with each outcome."""
    serial = await count(frontier, "url_frontier")
    for number, end in enumerate(ends, serial):
        await frontier.put(f"http://h{number}.test/x")
        for claimed in await frontier.take():
            await frontier.end(claimed, end)


async def test_a_minute_is_recorded_once_it_has_ended(frontier: Frontier) -> None:
    frontier.now = NOW + timedelta(seconds=30)
    await fetch(frontier, STORED, STORED, FAILED)
    assert await record_history(frontier.database, NOW + timedelta(seconds=59)) == 0
    assert await value(frontier, "minute", NOW, Metric.FETCHED) is None
    ended = NOW + MINUTE + timedelta(seconds=20)
    assert await record_history(frontier.database, ended) == 1
    assert await record_history(frontier.database, ended + timedelta(seconds=30)) == 0
    found = {metric: await value(frontier, "minute", NOW, metric) for metric in Metric}
    assert found[Metric.FETCHED] == 2
    assert found[Metric.TRANSIENT] == 1
    assert found[Metric.PERMANENT] == found[Metric.HANDOFFS] == 0
    assert None not in found.values()


async def test_only_one_process_records_a_minute(frontier: Frontier) -> None:
    await fetch(frontier, STORED)
    recorded = await asyncio.gather(*(record_history(frontier.database, NOW + 3 * MINUTE) for _ in range(8)))
    assert sum(recorded) == 2
    assert await count(frontier, "history", "step = 'minute'") == 2 * (len(Metric) - 2) + 2
    assert await value(frontier, "hour", NOW, Metric.FETCHED) == 1


async def test_the_lag_of_the_queue_is_the_age_of_its_oldest_due_url(frontier: Frontier) -> None:
    await frontier.put("http://a.test/1", "http://a.test/2")
    await record_history(frontier.database, NOW + 10 * MINUTE)
    last = NOW + 8 * MINUTE
    assert await value(frontier, "minute", last, Metric.LAG_SECONDS) == 600
    assert await value(frontier, "minute", last, Metric.PENDING) == 2
    assert await value(frontier, "minute", last - MINUTE, Metric.LAG_SECONDS) is None


async def test_a_simulated_month_is_rolled_up_and_its_rows_are_bounded(frontier: Frontier) -> None:
    """The largest number of rows follows from KEEP, however long Headwater runs."""
    begin = NOW.replace(hour=0)
    most = dict.fromkeys(KEEP, 0)
    for number in range(31 * 24):
        frontier.now = begin + number * timedelta(hours=1) + timedelta(seconds=1)
        if number % 12 == 0:
            await fetch(frontier, STORED, FAILED)
        await record_history(frontier.database, frontier.now + timedelta(hours=1))
        if number % 100 == 99:
            for step in KEEP:
                most[step] = max(most[step], await count(frontier, "history", f"step = '{step}'"))
    assert most["minute"] <= (KEEP["minute"] / MINUTE + 1) * len(Metric)
    assert most["hour"] <= 31 * 24 * len(Metric)
    for day in range(1, 30):
        at = begin + timedelta(days=day)
        assert await value(frontier, "day", at, Metric.FETCHED) == 2
        assert await value(frontier, "day", at, Metric.TRANSIENT) == 2
        assert await value(frontier, "hour", at, Metric.FETCHED) == 1
        assert await value(frontier, "hour", at + timedelta(hours=1), Metric.FETCHED) == 0
    oldest = await frontier.rows("SELECT min(at) FROM history WHERE step = 'minute'")
    assert oldest[0][0] >= frontier.now - KEEP["minute"]


async def test_old_hours_and_days_are_deleted(frontier: Frontier) -> None:
    await record_history(frontier.database, NOW)
    for later in (timedelta(days=3), timedelta(days=100)):
        await record_history(frontier.database, NOW + later)
    assert await count(frontier, "history", f"step = 'minute' AND at < '{NOW + timedelta(days=98)}'") == 0
    assert await count(frontier, "history", f"step = 'hour' AND at < '{NOW}'") == 0
    assert await count(frontier, "history", f"step = 'day' AND at < '{NOW}'") > 0
    await record_history(frontier.database, NOW + timedelta(days=1300))
    assert await count(frontier, "history", f"at < '{NOW + timedelta(days=99)}'") == 0


async def test_only_the_newest_marks_are_kept(frontier: Frontier) -> None:
    async with frontier.database.connection() as connection:
        await history.add_marks(connection, "restart", ["first", "second"], NOW)
    await frontier.execute(
        "INSERT INTO history_marks (at, kind, label) SELECT $1, 'restart', n::text FROM generate_series(1, 4999) n", NOW
    )
    await record_history(frontier.database, NOW)
    kept = [label for (label,) in await frontier.rows("SELECT label FROM history_marks ORDER BY id LIMIT 1")]
    assert kept == ["second"]
    assert await count(frontier, "history_marks") == 5000


async def test_a_start_marks_the_settings_that_differ_from_the_last_start_of_its_roles(
    make_settings: Callable[..., Settings],
) -> None:
    """Only administrators may read values of settings, so a mark names the setting alone."""
    for settings, roles in (
        (make_settings(fetch_workers=4), [RoleName.API, RoleName.FETCHER]),
        (make_settings(fetch_workers=4), [RoleName.POLLER]),
        (make_settings(fetch_workers=7, retry_base_seconds=2.0), [RoleName.FETCHER, RoleName.API]),
    ):
        async with open_database_context(settings) as context:
            await mark_start(context, roles)
            found = await HistoryOperations(context).measure(HistoryWindow.HOUR)
    assert sorted(one.label for one in found.marks if one.kind == "setting") == [
        "fetch_workers",
        "retry_base_seconds",
    ]
    assert sum(mark.kind == "restart" for mark in found.marks) == 3


async def test_a_window_ends_with_its_last_complete_part(
    frontier: Frontier, make_settings: Callable[..., Settings]
) -> None:
    async with open_database_context(make_settings()) as context:
        now = context.clock.now()
        frontier.now = now - timedelta(minutes=25)
        await fetch(frontier, STORED, STORED)
        await record_history(context.database, now)
        for window in HistoryWindow:
            found = await HistoryOperations(context).measure(window)
            ends = found.times[-1] + timedelta(seconds=found.part_seconds)
            assert now - timedelta(seconds=found.part_seconds + 75) <= ends <= now
            assert {len(values) for values in found.values.values()} == {len(found.times)}
            if window in (HistoryWindow.HOUR, HistoryWindow.DAY):
                assert sum(filter(None, found.values[Metric.FETCHED])) == 2
