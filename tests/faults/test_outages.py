"""Outages around the program: of the database, the disk, the network and the clock (spec 9.3)."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.core.settings import Settings
from tests.database_clock import step_clock
from tests.faults.conftest import Crawl
from tests.faults.database import own_server
from tests.faults.disk import small_disk
from tests.faults.harness import Harness
from tests.faults.invariants import no_host_is_asked_too_soon, violations
from tests.faults.network import own_network
from tests.harness import open_harness


async def finish_and_check(harness: Harness) -> None:
    await harness.until_done(90)
    await harness.stop()
    assert await violations(harness) == {}


async def test_a_restart_of_the_database_loses_nothing(tmp_path: Path, crawl: Crawl) -> None:
    with own_server(tmp_path / "database") as server:
        async with crawl(database_url=server.url, hosts=30, pages=8, feeds=4, programs=["up", "worker"]) as harness:
            for part, how in ((0.1, signal.SIGKILL), (0.4, signal.SIGINT), (0.7, signal.SIGKILL)):
                await harness.until_under_way(part)
                await server.restart(how)
            await finish_and_check(harness)
            assert harness.kills == 0


async def test_a_host_keeps_its_pause_if_the_database_dies_after_the_request(
    tmp_path: Path, make_settings: Callable[..., Settings]
) -> None:
    """Spec 2.3, 9.3: the release of the host may be lost, but not its lease."""
    with own_server(tmp_path / "database") as server:
        settings = make_settings(database_url=server.url, host_delay_ms=60_000)
        async with open_harness(settings) as harness:
            async with harness.runtime.gate.lease_host("news.test") as lease:
                lease.last_sent_at = sent_at = harness.runtime.context.clock.now()
            await server.restart(signal.SIGKILL)
        async with open_harness(settings) as harness:
            assert await harness.rows("SELECT not_before >= $1 FROM host_state", sent_at + lease.delay) == [(True,)]


async def test_a_program_frozen_past_its_leases_changes_nothing_that_it_lost(crawl: Crawl) -> None:
    """Spec 2.3, 2.4: another program has its claims and hosts by then."""
    async with crawl(hosts=30, pages=10, feeds=2, programs=["up"]) as harness:
        await harness.until_under_way(0.1)
        (frozen,) = harness.programs
        await harness.freeze(frozen)
        await harness.start("up", plant="brisk rescuer")
        await harness.until_logged("worker_lost")
        frozen.send_signal(signal.SIGCONT)
        await finish_and_check(harness)


async def test_a_commit_long_after_its_leases_changes_nothing(crawl: Crawl) -> None:
    """Spec 2.4: this is the fence. test_planted_bugs.py shows the effect of its absence."""
    async with crawl(hosts=20, pages=10, feeds=2) as harness:
        await harness.start("up", plant="late commit")
        await harness.until_held_back()
        await harness.start("up", plant="brisk rescuer")
        await harness.until_done(60)
        await harness.let_commit()
        await finish_and_check(harness)


@pytest.mark.parametrize("seconds", [60, -5])
async def test_a_step_of_the_database_clock_loses_nothing(seconds: int, crawl: Crawl) -> None:
    """A leased or pausing host is not taken as free, and a lease not as expired."""
    async with crawl(hosts=30, pages=10, feeds=2, programs=["up", "worker"], crawl_delay_cap_seconds=0.5) as harness:
        await harness.until_under_way(0.2)
        await step_clock(harness.database_url, seconds)
        await finish_and_check(harness)


async def test_a_full_disk_loses_nothing(tmp_path: Path, crawl: Crawl) -> None:
    with small_disk(tmp_path / "data") as disk:
        async with crawl(hosts=30, pages=8, feeds=2, programs=["up"]) as harness:
            await harness.until_logged("storage")
            disk.make_room()
            await finish_and_check(harness)


async def test_a_web_that_refuses_connections_loses_nothing(crawl: Crawl) -> None:
    """All connections are closed and refused for a while. No URL is given up."""
    async with crawl(hosts=30, pages=6, feeds=2, programs=["up"]) as harness:
        await harness.until_under_way(0.2)
        await harness.swarm.stop()
        await harness.until_logged("network", times=30)
        await harness.swarm.start()
        await finish_and_check(harness)


async def test_a_network_that_is_cut_loses_nothing(crawl: Crawl) -> None:
    """Packets are lost: no connection is refused and none is answered. No URL loses a retry."""
    with own_network() as network:
        async with crawl(
            hosts=30, pages=8, feeds=2, programs=["up"], network=network, page_timeout_seconds=2, lease_seconds=10
        ) as harness:
            await harness.until_under_way(0.2)
            network.cut()
            assert await no_host_is_asked_too_soon(harness) == []
            await harness.until_logged("offline", times=20)
            network.restore()
            await harness.until_done(90)
            # Packets of the outage arrive now, also of requests that were given up, so their times mean nothing.
            harness.swarm.requests.clear()
            await finish_and_check(harness)
            assert await harness.rows("SELECT detail, finished_at FROM fetch_log WHERE reason = 'timeout'") == []
            assert await harness.rows("SELECT FROM poll_state WHERE consecutive_errors > 0") == []
