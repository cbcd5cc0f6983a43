"""Roles at work: slots, stops and rescues (spec 1.2, 2.4, 9.3)."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest

from headwater.api import make_app
from headwater.app import roles
from headwater.app.maintenance import rescue_expired
from headwater.app.polling import PollerRole
from headwater.app.roles import Role, RoleName, make_fetch_pool, run_in_background, run_roles, serve
from headwater.app.runtime import open_runtime
from headwater.app.scheduler import SchedulerRole
from headwater.core import cron
from headwater.core.lease import Lease
from headwater.core.run import RunStatus, Trigger
from headwater.core.settings import Settings
from headwater.db import runs, sources
from headwater.db.context import open_database_context
from headwater.db.runs import RunFilter
from headwater.discovery.runs import next_due_slot
from tests.database_state import backdate, held_leases, make_polls_due
from tests.harness import AppHarness, open_harness
from tests.server import Answer, Site, page, rss
from tests.waiting import until

FEED = "http://news.test/feed"
EVERY_MINUTE = "* * * * *"
SUCCEEDED = RunFilter(status=RunStatus.SUCCEEDED)


async def make_scheduled(harness: AppHarness, site: Site) -> None:
    """A source that has missed its slots since long ago."""
    site.answers[FEED] = rss("http://news.test/a")
    await harness.operations.sources.add(FEED, "news", {"schedule": EVERY_MINUTE})
    await backdate(harness, "sources.created_at", timedelta(hours=1))


async def test_two_schedulers_run_a_missed_slot_once(
    site: Site, harness: AppHarness, make_settings: Callable[..., Settings]
) -> None:
    """Spec 1.2: a slot is a unique row with a lease; missed slots coalesce into the newest."""
    await make_scheduled(harness, site)
    before = site.visits(FEED)
    async with (
        open_database_context(make_settings(connect_to=site.connect_to)) as context,
        open_runtime(context) as runtime,
    ):
        stop = asyncio.Event()
        both: list[Role] = [SchedulerRole(harness.runtime), SchedulerRole(runtime)]
        working = asyncio.create_task(run_roles(both, stop))
        await until(lambda: harness.operations.runs.list_runs(SUCCEEDED))
        stop.set()
        await working
    found = await harness.operations.runs.list_runs(RunFilter())
    assert len(found) <= 2  # a minute may have turned meanwhile
    assert {(run.status, run.reason) for run in found} == {("succeeded", "polled")}
    assert site.visits(FEED) - before == len(found)


async def test_a_slot_fires_when_its_time_comes(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 1.2: APScheduler keeps the time. The test moves the next slot, so that it need not wait for a minute."""
    await make_scheduled(harness, site)
    await harness.execute("UPDATE sources SET created_at = now()")  # so no slot was missed
    soon = harness.runtime.context.clock.now() + timedelta(seconds=0.3)
    real = cron.last_slot
    monkeypatch.setattr(
        cron, "next_slot", lambda schedule, zone, after: soon if after < soon else soon.replace(year=2100)
    )
    monkeypatch.setattr(
        cron, "last_slot", lambda schedule, zone, until: soon if until >= soon else real(schedule, zone, until)
    )
    stop = asyncio.Event()
    working = asyncio.create_task(run_roles([SchedulerRole(harness.runtime)], stop))
    found = await until(lambda: harness.operations.runs.list_runs(SUCCEEDED))
    stop.set()
    await working
    assert [(run.slot, run.reason) for run in found] == [(soon, "polled")]


async def test_when_one_role_fails_the_others_release_their_leases(
    site: Site, make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 9.3."""
    monkeypatch.setattr(roles, "GRACE_SECONDS", 0.2)

    class Failing:
        async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
            await until(lambda: "http://slow.test/page" in site.waiting)
            raise RuntimeError("planted")

    site.answers[FEED] = rss("http://slow.test/page")
    site.hanging.add("http://slow.test/page")
    async with open_harness(
        make_settings(connect_to=site.connect_to, page_timeout_seconds=60, lease_seconds=120)
    ) as harness:
        await harness.operations.sources.add(FEED)
        with pytest.raises(RuntimeError, match="planted"):
            await run_roles([make_fetch_pool(harness.runtime, harness.operations.metrics), Failing()], asyncio.Event())
        assert await held_leases(harness) == {}


@pytest.mark.parametrize("when", ["at once", "while stopping"])
async def test_a_role_that_fails_in_the_background_fails_the_block(when: str) -> None:
    """The program must not succeed if its roles could not release their leases."""
    failed = asyncio.Event()

    class Failing:
        async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
            if when == "while stopping":
                await stop.wait()
            failed.set()
            raise RuntimeError(f"failed {when} of {grace_seconds}")

    class Slow:
        async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
            del grace_seconds
            await stop.wait()
            await ended.wait()

    async def work() -> None:
        async with run_in_background([Failing(), Slow()]):
            if when == "at once":
                await failed.wait()
            ended.set()

    ended = asyncio.Event()
    with pytest.raises(RuntimeError, match=f"failed {when}"):
        await work()


async def test_a_stop_does_not_wait_for_a_full_poller(
    site: Site, make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 9.3: every slot is taken by a feed that never answers."""
    monkeypatch.setattr(roles, "GRACE_SECONDS", 0.2)
    settings = make_settings(
        connect_to=site.connect_to,
        poll_concurrency=1,
        poll_check_seconds=60,
        lease_seconds=120,
        page_timeout_seconds=60,
    )
    site.answers[FEED] = rss("http://news.test/a")
    async with open_harness(settings) as harness:
        await harness.operations.sources.add(FEED)
        site.hanging.add(FEED)
        await make_polls_due(harness, "main")
        stop = asyncio.Event()
        working = asyncio.create_task(run_roles([PollerRole(harness.runtime)], stop))
        await until(lambda: FEED in site.waiting)
        begun = time.monotonic()
        stop.set()
        await working
        assert time.monotonic() - begun < 6
        assert await held_leases(harness) == {}
        assert (await harness.method()).consecutive_errors == 0


async def test_an_add_that_is_stopped_leaves_no_source_behind(site: Site, harness: AppHarness) -> None:
    site.hanging.add(FEED)
    adding = asyncio.create_task(harness.operations.sources.add(FEED))
    await until(lambda: FEED in site.waiting)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert await harness.operations.sources.list_sources() == []


async def test_a_slot_of_a_dead_process_runs_again_at_most_three_times(site: Site, harness: AppHarness) -> None:
    """Spec 1.2, 2.4."""
    await make_scheduled(harness, site)
    context = harness.runtime.context
    now = context.clock.now()
    slot = cron.last_slot(EVERY_MINUTE, "UTC", now)
    assert slot
    async with context.database.connection() as connection:
        source = await sources.get_source(connection, "news")
        assert source
        for attempt in (1, 2, 3):
            dead = Lease("dead", uuid4(), now - timedelta(seconds=1), attempt)
            assert await runs.start_run(connection, source, Trigger.SCHEDULE, slot=slot, lease=dead, now=now)
            assert not await runs.start_run(connection, source, Trigger.SCHEDULE, slot=slot, lease=dead, now=now)
            await rescue_expired(context)
            due = await next_due_slot(connection, source, EVERY_MINUTE, "UTC", now, catches_up=False)
            assert due == (slot if attempt < 3 else None)
    ended = [(run.status, run.reason, run.attempts) for run in await harness.operations.runs.list_runs(RunFilter())]
    assert sorted(ended) == [("failed", "worker_lost", attempt) for attempt in (1, 2, 3)]


async def test_sigterm_releases_every_lease_within_ten_seconds(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Issue 2, spec 9.3: pages that never come must not hold up a stop, nor cost a retry."""
    settings = make_settings(
        connect_to=site.connect_to, page_timeout_seconds=60, lease_seconds=120, poll_check_seconds=0.1
    )
    slow = [f"http://slow{number}.test/page" for number in range(5)]
    site.answers[FEED] = rss(*slow, "http://quick.test/page")
    site.answers["http://quick.test/page"] = Answer(page("quick"), headers={"Content-Type": "text/html"})
    for url in slow:
        site.hanging.add(url)
    async with open_harness(settings) as harness:
        await harness.operations.sources.add(FEED, overrides={"concurrency": 10})
        await make_polls_due(harness, "main")
        site.hanging.add(FEED)
        serving = asyncio.create_task(serve(settings, list(RoleName), make_app))
        await until(lambda: {*slow, FEED} <= site.waiting)
        while (await harness.outcomes())["http://quick.test/page"] is None:
            await asyncio.sleep(0.02)
        assert (await held_leases(harness))["frontier_queue"] == 5
        begun = time.monotonic()
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
        assert time.monotonic() - begun < 10
        assert await held_leases(harness) == {}
        assert {one.attempts for one in (await harness.queued()).values()} == {0}
        assert {reason for reason, *_ in await harness.attempts()} == {"stored", "shutdown"}


async def test_all_leases_of_a_dead_process_are_released(site: Site, harness: AppHarness) -> None:
    """Spec 2.4: one rescuer for all leases."""
    site.answers[FEED] = rss("http://news.test/a")
    site.answers["http://news.test/a"] = Answer(page("rescued"), headers={"Content-Type": "text/html"})
    await harness.operations.sources.add(FEED)
    past = "lease_holder = 'dead', lease_token = gen_random_uuid(), lease_until = now() - interval '1 second'"
    await harness.execute(f"UPDATE frontier_queue SET {past}, attempts = 1")
    await harness.execute(f"UPDATE host_state SET {past}")
    await harness.execute(f"UPDATE poll_state SET {past}, attempts = 1 WHERE method = 'main'")
    assert await rescue_expired(harness.runtime.context) == 3
    assert await held_leases(harness) == {}
    await harness.work()
    assert await harness.outcomes() == {"http://news.test/a": "stored"}
    assert (await harness.operations.sources.sync("news.test")).error is None
