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
from headwater.config import Settings
from headwater.discover.runs import next_due_slot
from headwater.model.lease import Lease
from headwater.model.run import Trigger
from headwater.policy import cron
from headwater.service.maintenance import RESCUERS, rescue_expired
from headwater.service.parts import open_parts, open_records
from headwater.service.polling import PollerRole
from headwater.service.running import Role, RoleName, at_work, make_crew, run_roles, serve
from headwater.service.scheduling import SchedulerRole
from headwater.store import runs, sources
from tests.house import House, open_house
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
EVERY_MINUTE = "* * * * *"


async def eventually(condition: Callable[[], object], seconds: float = 10.0) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not come true"
        await asyncio.sleep(0.01)


async def held_leases(house: House) -> dict[str, int]:
    counts = {}
    for table in RESCUERS:
        ((count,),) = await house.rows(f"SELECT count(*) FROM {table} WHERE lease_token IS NOT NULL")
        counts[table] = count
    return {table: count for table, count in counts.items() if count}


async def make_scheduled(house: House, site: Site) -> None:
    """A source that has missed its slots since long ago."""
    site.answers[FEED] = rss("http://news.test/a")
    await house.desk.sources.add(FEED, "news", {"schedule": EVERY_MINUTE})
    await house.rows("UPDATE sources SET created_at = created_at - interval '1 hour'")


async def test_two_schedulers_run_a_missed_slot_once(
    site: Site, house: House, make_settings: Callable[..., Settings]
) -> None:
    """Spec 1.2: a slot is a unique row with a lease; missed slots coalesce into the newest."""
    await make_scheduled(house, site)
    before = site.visits(FEED)
    async with (
        open_records(make_settings(connect_to=site.connect_to)) as records,
        open_parts(records) as parts,
    ):
        stop = asyncio.Event()
        both: list[Role] = [SchedulerRole(house.parts), SchedulerRole(parts)]
        working = asyncio.create_task(run_roles(both, stop))
        while not await house.rows("SELECT 1 FROM runs WHERE status = 'succeeded'"):
            await asyncio.sleep(0.02)
        stop.set()
        await working
    found = await house.rows("SELECT slot, status, reason FROM runs ORDER BY slot")
    assert len(found) <= 2  # a minute may have turned meanwhile
    assert {row[1:] for row in found} == {("succeeded", "polled")}
    assert site.visits(FEED) - before == len(found)


async def test_a_slot_fires_when_its_time_comes(site: Site, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spec 1.2: APScheduler keeps the time. The next slot is brought near, so that nobody has to wait for a minute."""
    await make_scheduled(house, site)
    await house.rows("UPDATE sources SET created_at = now()")  # nothing was missed
    soon = house.parts.records.clock.now() + timedelta(seconds=1)
    real = cron.last_slot
    monkeypatch.setattr(
        cron, "next_slot", lambda schedule, zone, after: soon if after < soon else soon.replace(year=2100)
    )
    monkeypatch.setattr(
        cron, "last_slot", lambda schedule, zone, until: soon if until >= soon else real(schedule, zone, until)
    )
    stop = asyncio.Event()
    working = asyncio.create_task(run_roles([SchedulerRole(house.parts)], stop))
    give_up = time.monotonic() + 10
    while not (found := await house.rows("SELECT slot, reason FROM runs WHERE status = 'succeeded'")):
        assert time.monotonic() < give_up, "the slot never fired"
        await asyncio.sleep(0.05)
    stop.set()
    await working
    assert found == [(soon, "polled")]


async def test_when_one_role_fails_the_others_give_back_what_they_hold(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Spec 9.3."""

    class Failing:
        async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
            await eventually(lambda: "http://slow.test/page" in site.waiting)
            raise RuntimeError("planted")

    site.answers[FEED] = rss("http://slow.test/page")
    site.hanging.add("http://slow.test/page")
    async with open_house(make_settings(connect_to=site.connect_to, page_seconds=60, lease_seconds=120)) as house:
        await house.desk.sources.add(FEED)
        with pytest.raises(RuntimeError, match="planted"):
            await run_roles([make_crew(house.parts, house.desk.metrics), Failing()], asyncio.Event())
        assert await held_leases(house) == {}


@pytest.mark.parametrize("when", ["at once", "while stopping"])
async def test_what_fails_at_the_side_of_a_block_that_ends_well_fails_the_block(when: str) -> None:
    """Or a program would be told that all is well whose roles could not give back what they hold."""
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
        async with at_work([Failing(), Slow()]):
            if when == "at once":
                await failed.wait()
            ended.set()

    ended = asyncio.Event()
    with pytest.raises(RuntimeError, match=f"failed {when}"):
        await work()


async def test_a_stop_does_not_wait_for_a_full_poller(site: Site, make_settings: Callable[..., Settings]) -> None:
    """Spec 9.3: every slot is taken by a feed that never answers."""
    settings = make_settings(
        connect_to=site.connect_to, poll_concurrency=1, poll_look_seconds=60, lease_seconds=120, page_seconds=60
    )
    site.answers[FEED] = rss("http://news.test/a")
    async with open_house(settings) as house:
        await house.desk.sources.add(FEED)
        site.hanging.add(FEED)
        await house.rows("UPDATE feed_state SET next_poll_at = 'yesterday' WHERE pass = 'main'")
        stop = asyncio.Event()
        working = asyncio.create_task(run_roles([PollerRole(house.parts)], stop))
        await eventually(lambda: FEED in site.waiting)
        begun = time.monotonic()
        stop.set()
        await working
        assert time.monotonic() - begun < 9
        assert await held_leases(house) == {}
        assert await house.rows("SELECT consecutive_errors FROM feed_state WHERE pass = 'main'") == [(0,)]


async def test_an_add_that_is_stopped_leaves_no_source_behind(site: Site, house: House) -> None:
    site.hanging.add(FEED)
    adding = asyncio.create_task(house.desk.sources.add(FEED))
    await eventually(lambda: FEED in site.waiting)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert await house.desk.sources.listed() == []


async def test_a_slot_whose_holder_died_is_run_again_and_given_up_after_three(site: Site, house: House) -> None:
    """Spec 1.2, 2.4."""
    await make_scheduled(house, site)
    records = house.parts.records
    now = records.clock.now()
    slot = cron.last_slot(EVERY_MINUTE, "UTC", now)
    assert slot
    async with records.database.connection() as connection:
        source = await sources.get_source(connection, "news")
        assert source
        for attempt in (1, 2, 3):
            dead = Lease("dead", uuid4(), now - timedelta(seconds=1), attempt)
            assert await runs.take_run(connection, source, Trigger.SCHEDULE, slot=slot, lease=dead, now=now)
            assert not await runs.take_run(connection, source, Trigger.SCHEDULE, slot=slot, lease=dead, now=now)
            await rescue_expired(records)
            due = await next_due_slot(connection, source, EVERY_MINUTE, "UTC", now, catches_up=False)
            assert due == (slot if attempt < 3 else None)
    assert await house.rows("SELECT status, reason, attempts FROM runs ORDER BY id") == [
        ("failed", "worker_lost", attempt) for attempt in (1, 2, 3)
    ]


async def test_sigterm_gives_every_lease_back_within_ten_seconds(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Issue 2, spec 9.3: pages that never come must not hold up a stop, nor cost a retry."""
    settings = make_settings(connect_to=site.connect_to, page_seconds=60, lease_seconds=120, poll_look_seconds=0.1)
    slow = [f"http://slow{number}.test/page" for number in range(5)]
    site.answers[FEED] = rss(*slow, "http://quick.test/page")
    site.answers["http://quick.test/page"] = Answer(page("quick"), headers={"Content-Type": "text/html"})
    for url in slow:
        site.hanging.add(url)
    async with open_house(settings) as house:
        await house.desk.sources.add(FEED)
        await house.rows("UPDATE feed_state SET next_poll_at = 'yesterday' WHERE pass = 'main'")
        site.hanging.add(FEED)
        serving = asyncio.create_task(serve(settings, list(RoleName), make_app))
        await eventually(lambda: {*slow, FEED} <= site.waiting)
        while (await house.fates())["http://quick.test/page"] is None:
            await asyncio.sleep(0.02)
        assert (await held_leases(house))["frontier_queue"] == 5
        begun = time.monotonic()
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
        assert time.monotonic() - begun < 10
        assert await held_leases(house) == {}
        assert await house.rows("SELECT max(attempts) FROM frontier_queue") == [(0,)]
        assert set(await house.rows("SELECT reason FROM fetch_log")) == {("stored",), ("shutdown",)}


async def test_whatever_a_dead_process_held_comes_back(site: Site, house: House) -> None:
    """Spec 2.4: one rescuer for all leases."""
    site.answers[FEED] = rss("http://news.test/a")
    site.answers["http://news.test/a"] = Answer(page("rescued"), headers={"Content-Type": "text/html"})
    await house.desk.sources.add(FEED)
    past = "lease_holder = 'dead', lease_token = gen_random_uuid(), lease_until = now() - interval '1 second'"
    await house.rows(f"UPDATE frontier_queue SET {past}, attempts = 1")
    await house.rows(f"UPDATE host_state SET {past}")
    await house.rows(f"UPDATE feed_state SET {past}, attempts = 1 WHERE pass = 'main'")
    assert await rescue_expired(house.parts.records) == 3
    assert await held_leases(house) == {}
    await house.work()
    assert await house.fates() == {"http://news.test/a": "stored"}
    assert (await house.desk.sources.sync("news.test")).error is None
