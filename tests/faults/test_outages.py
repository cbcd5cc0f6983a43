"""Outages around the program: of the database, the disk, the network and the clock (spec 9.3)."""

import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.core.settings import Settings
from headwater.demo.visits import TOLERANCE_SECONDS
from tests.database_clock import step_clock, stop_clock
from tests.faults.conftest import Crawl
from tests.faults.database import own_server
from tests.faults.disk import small_disk
from tests.faults.harness import Harness
from tests.faults.invariants import no_host_is_asked_too_soon, violations
from tests.faults.network import own_network
from tests.faults.swarm import HOSTILE
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


@pytest.mark.parametrize("place", ["data", "data/corpus"])
async def test_a_disk_that_becomes_read_only_loses_nothing(place: str, tmp_path: Path, crawl: Crawl) -> None:
    """Issue 21: of all data, or of the raw files alone."""
    with small_disk(tmp_path / place, "64m") as disk:
        async with crawl(hosts=30, pages=8, feeds=2, programs=["up"]) as harness:
            await harness.until_under_way(0.1)
            disk.make_read_only()
            await harness.until_logged("storage", times=5)
            disk.make_read_only(read_only=False)
            await finish_and_check(harness)


async def test_a_program_without_free_descriptors_loses_nothing(crawl: Crawl) -> None:
    """Issue 21: it blames no host, and continues when there are descriptors again."""
    async with crawl(hosts=40, pages=8, feeds=2, programs=["up"]) as harness:
        await harness.until_under_way(0.1)
        (program,) = harness.programs
        soft, hard = resource.prlimit(program.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (12, hard))
        await harness.until_logged("offline", times=5)
        resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (soft, hard))
        await finish_and_check(harness)
        assert await harness.rows("SELECT FROM poll_state WHERE consecutive_errors > 0") == []


async def test_a_database_clock_that_stops_loses_nothing(crawl: Crawl) -> None:
    """Issue 21: no program believes that a pause is over, or that a lease has ended, because time seems to stand."""
    async with crawl(hosts=30, pages=10, feeds=2, programs=["up", "worker"], crawl_delay_cap_seconds=0.5) as harness:
        await harness.until_under_way(0.2)
        await stop_clock(harness.database_url)
        await harness.until_under_way(0.3)
        await stop_clock(harness.database_url, stopped=False)
        await finish_and_check(harness)


@pytest.mark.timeout(180)
async def test_three_machines_share_one_database_and_lose_nothing_with_one_of_them(crawl: Crawl) -> None:
    """Issue 21, spec 4.1: one machine loses its network for a while, and another one dies."""
    with own_network(machines=3) as network:
        async with crawl(hosts=40, pages=10, feeds=4, network=network, lease_seconds=10) as harness:
            machines = [await harness.start("up", namespace=name, plant="brisk rescuer") for name in network.machines]
            await harness.until_under_way(0.2)
            network.cut(1)
            await harness.freeze(machines[2])  # so it dies with a lease
            await harness.kill(machines[2])
            await harness.until_logged("offline")
            await harness.until_logged("worker_lost")
            assert await no_host_is_asked_too_soon(harness) == []
            network.restore(1)
            await harness.start("up", namespace=network.machines[2])
            await harness.until_done(90)
            harness.swarm.requests.clear()  # packets of the outage arrive late, so their times mean nothing
            await finish_and_check(harness)


@pytest.mark.timeout(180)
async def test_a_hostile_web_costs_no_page(crawl: Crawl) -> None:
    """Issue 21: slow-loris, endless headers, wrong lengths, codings that we did not offer, mazes and storms of 429."""
    async with crawl(hosts=2 * len(HOSTILE), pages=8, feeds=2, troubles=HOSTILE, programs=["up", "worker"]) as harness:
        await harness.until_done(120)
        await harness.stop()
        reasons = {reason for (reason,) in await harness.rows("SELECT DISTINCT reason FROM fetch_log")}
        assert reasons > {"timeout", "network", "rate_limited", "bad_encoding", "bad_html", "redirect_limit"}
        broken = await violations(harness)
        # The web may notice late that the client has left, so that the next request seems to come at the same time.
        broken.pop(no_host_is_asked_too_soon.__name__, None)
        assert broken == {}
        found = harness.swarm.politeness(harness.delay_ms / 1000, tolerance_seconds=TOLERANCE_SECONDS)
        assert [str(violation) for violation in found if not violation.overlapped] == []


async def test_a_web_that_refuses_connections_loses_nothing(crawl: Crawl) -> None:
    """All connections are closed and refused for a while. No URL is given up."""
    async with crawl(hosts=30, pages=6, feeds=2, programs=["up"]) as harness:
        await harness.until_under_way(0.2)
        await harness.swarm.stop()
        await harness.until_logged("robots_unreachable", times=10)
        await harness.swarm.start()
        assert await no_host_is_asked_too_soon(harness) == []
        await harness.release_hosts()
        harness.swarm.requests.clear()  # the release ended the longer delays that these requests led to
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
