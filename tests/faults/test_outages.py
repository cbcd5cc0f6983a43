"""What goes wrong around the program: the database, the disk, the network, the clock, time itself (spec 9.3)."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.faults.disk import small_disk
from tests.faults.harness import LEASE_SECONDS, Harness, open_harness
from tests.faults.invariants import violations
from tests.faults.network import own_network
from tests.faults.victim import STALE_SECONDS


async def finish_and_check(harness: Harness) -> None:
    await harness.until_done(90)
    await harness.stop()
    assert await violations(harness) == {}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
async def test_a_database_that_dies_and_comes_back_costs_nothing(how: signal.Signals, tmp_path: Path) -> None:
    async with open_harness(tmp_path, hosts=40, pages=10, feeds=4, programs=["up", "worker"]) as harness:
        for part in (0.1, 0.4, 0.7):
            await harness.until_under_way(part)
            await harness.restart_database(how=how)
        await finish_and_check(harness)
        assert harness.kills == 0


async def test_a_program_that_was_frozen_past_its_leases_changes_nothing_it_has_lost(tmp_path: Path) -> None:
    """Spec 2.4: the fence, with real processes."""
    async with open_harness(tmp_path, hosts=30, pages=10, feeds=2, programs=["up"]) as harness:
        await harness.until_under_way(0.1)
        (frozen,) = harness.programs
        thawing = asyncio.create_task(harness.freeze(frozen, LEASE_SECONDS + 3))
        await harness.start("up")
        await thawing
        await finish_and_check(harness)


async def test_a_commit_long_after_its_leases_changes_nothing(tmp_path: Path) -> None:
    """Spec 2.4: the fence; test_planted_bugs.py shows what happens without it."""
    async with open_harness(tmp_path, hosts=20, pages=10, feeds=2) as harness:
        await harness.start("up", plant="slow commit")
        await harness.until_claimed()
        await harness.start("up")
        await harness.until_done(60)
        await asyncio.sleep(STALE_SECONDS)
        await finish_and_check(harness)


async def test_a_clock_that_jumps_back_and_forth_loses_nothing(tmp_path: Path) -> None:
    """Leases seem to end early and hosts to have waited, so one may be asked too soon; nothing is lost or doubled."""
    async with open_harness(tmp_path, hosts=30, pages=10, feeds=2, programs=["up", "worker"]) as harness:
        await harness.until_under_way(0.2)
        await harness.kill(next(iter(harness.programs)))
        await harness.start("up", plant="stepped clock")
        await finish_and_check(harness)


async def test_a_full_disk_loses_nothing_once_there_is_room_again(tmp_path: Path) -> None:
    with small_disk(tmp_path / "data") as disk:
        async with open_harness(tmp_path, hosts=30, pages=8, feeds=2, programs=["up"]) as harness:
            await failures_logged(harness, "storage")
            disk.make_room()
            await finish_and_check(harness)


async def test_a_web_that_hangs_up_loses_nothing(tmp_path: Path) -> None:
    """Every connection is closed and refused for a while, then all is well; no URL is given up for it."""
    async with open_harness(tmp_path, hosts=30, pages=6, feeds=2, programs=["up"]) as harness:
        await harness.until_under_way(0.2)
        await harness.swarm.go_away()
        await failures_logged(harness, "network")
        await harness.swarm.come_back()
        await finish_and_check(harness)


async def test_a_network_that_is_cut_loses_nothing(tmp_path: Path) -> None:
    """Packets vanish in a network of our own: nothing is refused, nothing answers."""
    with own_network() as network:
        async with open_harness(
            tmp_path, hosts=30, pages=8, feeds=2, programs=["up"], network=network, page_seconds=1
        ) as harness:
            await harness.until_under_way(0.2)
            network.cut()
            await failures_logged(harness, "timeout")
            network.mend()
            await finish_and_check(harness)


async def failures_logged(harness: Harness, reason: str) -> None:
    while not await harness.rows("SELECT 1 FROM fetch_log WHERE reason = $1", reason):
        await asyncio.sleep(0.05)
