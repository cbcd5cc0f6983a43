"""Runs: how they start and end, and how missed days are read (spec 1.2, 6.3, 6.5, 6.7)."""

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from structlog.testing import capture_logs

from headwater.app.maintenance import rescue_expired
from headwater.app.scheduler import SchedulerRole
from headwater.core.errors import OperatorError, RunUnderWay
from headwater.core.run import Trigger
from headwater.core.settings import Settings
from headwater.core.source import Source
from headwater.db import sources
from headwater.demo.answers import always, hang, status
from headwater.demo.api import ApiRequest
from headwater.discovery.operations import RunFilter
from tests import kinds
from tests.govuk import DAY, NIGHT, NOON, DayHarness, open_day_harness, page
from tests.waiting import until

MakeSettings = Callable[..., Settings]
ONE_DAY = timedelta(days=1)
LEASE = timedelta(seconds=10)  # of the settings of tests


class Scheduler:
    """A scheduler that refreshes its jobs when a test says so."""

    def __init__(self, harness: DayHarness) -> None:
        self.role = SchedulerRole(harness.runtime)
        self.keeper = AsyncIOScheduler(timezone=UTC)

    async def look(self) -> None:
        """Take up what is due, and wait until that is done."""
        await self.role._refresh_jobs(self.keeper)
        await asyncio.gather(*self.role.runs)


async def runs(harness: DayHarness, *columns: str) -> list[tuple[Any, ...]]:
    """The runs, oldest first."""
    return [
        tuple(getattr(run, name) for name in columns)
        for run in reversed(await harness.operations.runs.list_runs(RunFilter()))
    ]


async def test_the_slot_at_two_in_london_reads_the_day_before(make_settings: MakeSettings) -> None:
    """Spec 6.3."""
    async with open_day_harness(make_settings(), [page("/a")], at=NOON) as harness:
        scheduler = Scheduler(harness)
        harness.clock.set(NIGHT - timedelta(minutes=1))
        await scheduler.look()
        assert await runs(harness, "id") == []
        harness.clock.set(NIGHT)
        await scheduler.look()
        await scheduler.look()
        expected = [("schedule", NIGHT, DAY, "succeeded", 1, 0)]
        assert await runs(harness, "trigger", "slot", "day", "status", "new", "latest") == expected
        assert await harness.buckets() == {"/a": "NEW"}


@pytest.mark.parametrize(
    ("before", "slot", "day"),
    [
        (datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 3, 29, 1, tzinfo=UTC), date(2026, 3, 28)),
        (datetime(2026, 3, 29, 12, tzinfo=UTC), datetime(2026, 3, 30, 1, tzinfo=UTC), date(2026, 3, 29)),
        (datetime(2026, 10, 25, 12, tzinfo=UTC), datetime(2026, 10, 26, 2, tzinfo=UTC), date(2026, 10, 25)),
    ],
)
async def test_the_slots_around_a_change_of_clocks_read_their_days(
    make_settings: MakeSettings, before: datetime, slot: datetime, day: date
) -> None:
    """Spec 1.2, 6.3."""
    async with open_day_harness(make_settings(), [], at=before) as harness:
        harness.clock.set(slot + timedelta(hours=1))
        await Scheduler(harness).look()
        assert await runs(harness, "slot", "day", "status") == [(slot, day, "succeeded")]


async def test_days_that_were_missed_are_caught_up_with_the_newest_first_and_each_once(
    make_settings: MakeSettings,
) -> None:
    """Spec 1.2; issue 7: also under two schedulers; a day that fails does not keep the others from theirs."""
    async with open_day_harness(make_settings(), [page("/a")], at=NOON) as harness:
        harness.clock.set(NIGHT + 4 * ONE_DAY + timedelta(hours=3))
        second_day = DAY + ONE_DAY
        harness.api.faults.plan(
            always(status(404)),
            when=lambda asked: (asked.first("filter_public_timestamp") or "").startswith(f"from:{DAY}T23"),
            times=None,
        )
        both = Scheduler(harness), Scheduler(harness)
        for _ in range(6):
            await asyncio.gather(*(one.look() for one in both))
        days = [DAY + number * ONE_DAY for number in range(5)]
        assert await runs(harness, "day", "slot") == [(day, NIGHT + (day - DAY)) for day in reversed(days)]
        statuses = dict(await runs(harness, "day", "status"))
        assert statuses == dict.fromkeys(days, "succeeded") | {second_day: "failed"}
        started = [at for (at,) in await runs(harness, "started_at")]
        finished = [at for (at,) in await runs(harness, "finished_at")]
        assert all(ended <= begun for ended, begun in zip(finished, started[1:], strict=False))
        assert [await harness.state(day) for day in days] == [
            "reconstructed",
            "failed",
            *["reconstructed"] * 2,
            "complete",
        ]


async def test_a_source_that_is_down_does_not_cost_the_days_that_were_missed(make_settings: MakeSettings) -> None:
    """Spec 6.5; issue 7: the newest day is tried a few times, and the others once it can be read."""
    async with open_day_harness(make_settings(), [page("/a")], at=NOON) as harness:
        harness.clock.set(NIGHT + 2 * ONE_DAY)
        harness.api.faults.plan(always(status(503)), times=None)
        scheduler = Scheduler(harness)
        for _ in range(3):
            await scheduler.look()
        newest = DAY + 2 * ONE_DAY
        assert await runs(harness, "day", "reason") == [(newest, "http_5xx")]
        harness.api.faults.clear()
        harness.clock.set(NIGHT + 2 * ONE_DAY + timedelta(minutes=11))
        await scheduler.look()
        statuses = await runs(harness, "day", "status")
        assert statuses[1:] == [(newest - number * ONE_DAY, "succeeded") for number in range(3)]


async def test_missed_slots_of_other_sources_become_one(
    make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 1.2."""
    kinds.install(monkeypatch, "plain", kinds.PlainKind)
    async with open_day_harness(make_settings(), [], at=NOON) as harness:
        await harness.operations.sources.set_enabled("govuk", enabled=False)
        await harness.operations.sources.create(
            "plain", "plain", {"schedule": "0 2 * * *", "timezone": "Europe/London"}
        )
        harness.clock.set(NIGHT + 4 * ONE_DAY)
        scheduler = Scheduler(harness)
        await scheduler.look()
        await scheduler.look()
        assert await runs(harness, "source", "slot", "day") == [("plain", NIGHT + 4 * ONE_DAY, None)]


async def source_of(harness: DayHarness) -> Source:
    async with harness.runtime.context.database.connection() as connection:
        source = await sources.get_source(connection, "govuk")
    assert source
    return source


async def test_a_run_whose_holder_died_has_failed_and_its_slot_is_run_again(make_settings: MakeSettings) -> None:
    """Spec 6.5: FAILED(worker_lost)."""
    async with open_day_harness(make_settings(), [page("/a")], at=NOON) as harness:
        harness.clock.set(NIGHT)
        assert await harness.runtime.runner.begin(await source_of(harness), Trigger.SCHEDULE, slot=NIGHT, day=DAY)
        await Scheduler(harness).look()  # during the lease, no other process may
        assert await runs(harness, "status") == [("running",)]
        harness.clock.set(NIGHT + 2 * LEASE)  # it began a little after the slot
        assert await rescue_expired(harness.runtime.context) == 2
        assert await runs(harness, "status", "reason", "attempts") == [("failed", "worker_lost", 1)]
        assert await harness.state() == "failed"
        await Scheduler(harness).look()
        assert (await runs(harness, "slot", "day", "status", "attempts"))[1:] == [(NIGHT, DAY, "succeeded", 2)]
        assert await harness.buckets() == {"/a": "NEW"}


async def test_a_slot_that_loses_its_holder_three_times_is_given_up(make_settings: MakeSettings) -> None:
    """Spec 1.2: a day that ends every process that reads it does not keep the others from theirs."""
    async with open_day_harness(make_settings(), [page("/a")], at=NOON) as harness:
        source = await source_of(harness)
        harness.clock.set(NIGHT + ONE_DAY)
        for _ in range(3):
            assert await harness.runtime.runner.begin(source, Trigger.SCHEDULE, slot=NIGHT, day=DAY)
            harness.clock.set(harness.clock.now() + LEASE)
            await rescue_expired(harness.runtime.context)
        await Scheduler(harness).look()
        ended = await runs(harness, "day", "status")
        assert ended == [*[(DAY, "failed")] * 3, (DAY + ONE_DAY, "succeeded")]


async def test_a_stop_in_the_middle_fails_the_run_and_its_slot_is_run_again(make_settings: MakeSettings) -> None:
    """Spec 6.5, 9.3: FAILED(shutdown)."""
    async with open_day_harness(make_settings(), [page("/a")], at=NOON) as harness:
        harness.clock.set(NIGHT)
        harness.api.faults.plan(always(hang), times=None)
        stop = asyncio.Event()
        running = asyncio.create_task(SchedulerRole(harness.runtime).run(stop, 0))
        await until(lambda: harness.api.requests)
        stop.set()
        await running
        assert await runs(harness, "status", "reason") == [("failed", "shutdown")]
        harness.api.faults.clear()
        await Scheduler(harness).look()
        assert (await runs(harness, "slot", "status"))[1:] == [(NIGHT, "succeeded")]


async def test_a_stop_ends_what_was_begun_by_hand(make_settings: MakeSettings) -> None:
    """Spec 6.3, 6.5."""
    async with open_day_harness(make_settings(), [page("/a")]) as harness:
        harness.api.faults.plan(always(hang), times=None)
        stop = asyncio.Event()
        role = asyncio.create_task(harness.operations.runs.run(stop, 0))
        run = await harness.operations.runs.begin_ingest("govuk", DAY)
        assert (run.status, run.finished_at, run.seconds) == ("running", None, None)
        assert await harness.state() == "running"
        await until(lambda: harness.api.requests)
        stop.set()
        await role
        ended = await harness.operations.runs.get(run.id)
        assert (ended.status, ended.reason) == ("failed", "shutdown")
        harness.api.faults.clear()
        assert (await harness.ingest()).status == "succeeded"


async def test_a_run_that_takes_longer_than_its_deadline_has_failed_and_keeps_its_items(
    make_settings: MakeSettings,
) -> None:
    """Spec 6.3, 6.5: FAILED(timeout)."""
    pages = [page(f"/{number}", NOON - 90 * ONE_DAY, public_timestamp=NOON) for number in range(6)]
    async with open_day_harness(make_settings(), pages) as harness:
        await harness.ingest(DAY - ONE_DAY)  # so that what reads answers has started
        await harness.settings(deadline=2)
        harness.api.faults.plan(always(hang), when=ApiRequest.is_content, nth=3, times=None)
        run = await harness.ingest()
        assert (run.status, run.reason, run.items) == ("failed", "timeout", 6)
        assert run.error == "Reading govuk took longer than its deadline of 2 seconds."
        assert 2 <= run.seconds < 10
        assert await harness.buckets() == {}
        harness.api.faults.clear()
        assert (await harness.ingest()).latest == 6


async def test_a_source_has_only_one_run_at_a_time(make_settings: MakeSettings) -> None:
    """Spec 6.3: scheduled, manual and sync runs are under one lease."""
    async with open_day_harness(make_settings(), [page("/a")], at=NOON) as harness:
        harness.clock.set(NIGHT)
        harness.api.faults.plan(always(hang), times=None)
        running = asyncio.create_task(harness.ingest())
        await until(lambda: harness.api.requests)
        for ask in (harness.ingest(DAY - ONE_DAY), harness.operations.runs.begin_ingest("govuk", None)):
            with pytest.raises(OperatorError, match=r"run 1 of it is under way \(.*\); only one runs at a time"):
                await ask
        with pytest.raises(RunUnderWay) as refused:
            await harness.operations.sources.sync("govuk")
        assert (refused.value.reason, refused.value.run_id) == ("run_under_way", 1)
        await Scheduler(harness).look()
        assert await runs(harness, "trigger", "status") == [("manual", "running")]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        harness.api.faults.clear()
        await Scheduler(harness).look()
        assert (await runs(harness, "trigger", "status"))[-1] == ("schedule", "succeeded")


async def test_a_run_logs_what_it_was_and_how_it_went(make_settings: MakeSettings) -> None:
    """Spec 6.7."""
    pages = [page("/a"), page("/b"), page("/c", NOON - 90 * ONE_DAY, public_timestamp=NOON)]
    async with open_day_harness(make_settings(), pages) as harness:
        with capture_logs() as logs:
            begun = harness.clock.now()
            run = await harness.ingest()
            took = (harness.clock.now() - begun).total_seconds()
            harness.api.faults.plan(always(status(404)))
            await harness.ingest()
        good, bad = (line for line in logs if line["event"] == "run.done")
        expected: dict[str, Any] = {
            "date": "2026-07-13",
            "pages": 4,
            "fetched": 5,
            "total": 5,
            "items": 3,
            "new": 2,
            "latest": 1,
        }
        expected |= {"status": "succeeded", "source": "govuk", "run": run.id, "log_level": "info"}
        assert {name: good[name] for name in expected} == expected
        assert run.seconds - 0.001 <= good["duration"] <= took + 0.001  # it is rounded
        assert (bad["status"], bad["reason"], bad["log_level"]) == ("failed", "not_found", "warning")
        assert "answered 404" in bad["error"]
