"""Hand-offs under kills: no duplicate job, no stuck hand-off, no change by a late holder (spec 7, 9.3)."""

import asyncio
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.faults.conftest import Crawl
from tests.faults.database import own_server
from tests.faults.harness import Harness
from tests.faults.invariants import violations
from tests.faults.victim import SYNC_POINTS
from tests.fork_server import Program

KILLS = int(os.environ.get("HEADWATER_TEST_KILLS", "20"))
BRISK = "brisk rescuer"


async def start_sync(harness: Harness, source: str, **harm: str) -> Program:
    """Start a sync that may end by itself."""
    program = await harness.start("source", "sync", source, **harm)
    del harness.programs[program]
    return program


async def sync_well(harness: Harness, source: str) -> None:
    """Sync a source, as soon as no other process reads it."""
    give_up = time.monotonic() + 60
    while await harness.run("source", "sync", source) != 0:
        assert time.monotonic() < give_up, f"{source} cannot be synced"


async def finish_and_check(harness: Harness) -> None:
    """Wait until every page, hand-off and job has ended, and check the invariants."""
    await harness.until_done(90)
    await harness.until_handed_off()
    await harness.stop()
    assert await violations(harness) == {}
    ((items, jobs),) = await harness.rows(
        "SELECT (SELECT count(*) FROM items), (SELECT count(DISTINCT reference_id) FROM ingestion_jobs)"
    )
    assert items == jobs > 0


@pytest.mark.timeout(300)
async def test_random_kills_of_syncs_and_workers_leave_one_job_for_each_item(crawl: Crawl) -> None:
    """Issue 9: concurrent syncs and six fetchers, with kill -9 of any."""
    chance = random.Random(9)
    fetchers = ["up", *["worker"] * 5]
    async with crawl(hosts=30, pages=6, feeds=2, programs=fetchers, fetch_workers=2) as harness:
        while harness.kills < KILLS:
            syncs = [await start_sync(harness, "s1"), await start_sync(harness, "s1"), await start_sync(harness, "s2")]
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            if chance.random() < 0.5:
                words = await harness.kill(chance.choice(list(harness.programs)))
                await harness.start(*words)
            else:
                chance.choice(syncs).send_signal(signal.SIGKILL)
                harness.kills += 1
            await asyncio.gather(*(asyncio.wait_for(one.wait(), 60) for one in syncs))
        for source in ("s1", "s2"):
            await sync_well(harness, source)
        await finish_and_check(harness)


@pytest.mark.timeout(180)
async def test_the_items_of_a_sync_killed_at_any_point_are_handed_off(crawl: Crawl) -> None:
    """Issue 9: a running program hands them off; a second sync has nothing left to do."""
    async with crawl(hosts=10, pages=4, feeds=len(SYNC_POINTS), plain=True, poll_check_seconds=3600) as harness:
        for number, point in enumerate(SYNC_POINTS, 1):
            victim = await start_sync(harness, f"s{number}", point=point)
            assert await asyncio.wait_for(victim.wait(), 30) == -9, f"the point {point!r} was not reached"
        await harness.start("up", plant=BRISK)
        for number in (1, 2):  # killed before they saved items
            await sync_well(harness, f"s{number}")
        await finish_and_check(harness)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
async def test_a_database_restart_during_a_hand_off_costs_an_attempt(
    tmp_path: Path, crawl: Crawl, how: signal.Signals
) -> None:
    """Issue 9: a restarted PostgreSQL."""
    with own_server(tmp_path / "database") as server:
        async with crawl(database_url=server.url, hosts=10, pages=4, feeds=1, plain=True) as harness:
            sync = await start_sync(harness, "s1", plant="held hand-off")
            await harness.until_held_back()
            await server.end(how)
            harness.let_go()
            await server.start_again()
            assert await asyncio.wait_for(sync.wait(), 60) == 0
            ended = await harness.rows("SELECT DISTINCT status, attempts FROM ingestion_handoffs")
            assert [tuple(row) for row in ended] == [("completed", 2)], "no other program runs"
            await harness.start("up")
            await finish_and_check(harness)
