"""The poller role: how many polls at once, and that none is left (spec 3.2)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from headwater.app.polling import PollerRole
from headwater.app.roles import run_roles
from headwater.core.poll import PollResult
from headwater.core.settings import Settings
from headwater.db.sources import PollClaim
from tests.database_state import count, held_leases, make_polls_due
from tests.harness import AppHarness, open_harness
from tests.server import Site, rss
from tests.waiting import until

ROBOTS = "/robots.txt"


async def add_feeds(harness: AppHarness, site: Site, count: int) -> list[str]:
    """Add feeds on hosts of their own; all are due."""
    urls = [f"http://paper-{number}.test/feed" for number in range(count)]
    for number, url in enumerate(urls):
        site.answers[url] = rss(f"http://paper-{number}.test/a")
        await harness.operations.sources.create(f"paper-{number}", "site", {"feed_url": url})
    await make_polls_due(harness)
    return urls


@contextlib.asynccontextmanager
async def polling(harness: AppHarness) -> AsyncIterator[None]:
    stop = asyncio.Event()
    working = asyncio.create_task(run_roles([PollerRole(harness.runtime)], stop))
    try:
        yield
    finally:
        stop.set()
        await working


def most_at_once(site: Site) -> int:
    moments = sorted([(seen.arrived, 1) for seen in site.seen] + [(seen.ended, -1) for seen in site.seen])
    at_once = most = 0
    for _, change in moments:
        at_once += change
        most = max(most, at_once)
    return most


async def test_one_look_is_enough_for_all_that_is_due(site: Site, make_settings: Callable[..., Settings]) -> None:
    """Whenever polls end: while others are claimed, too."""
    settings = make_settings(connect_to=site.connect_to, poll_concurrency=3, poll_check_seconds=3600)
    async with open_harness(settings) as harness:
        await add_feeds(harness, site, 40)

        async def all_are_polled() -> bool:
            return await count(harness, "poll_state", "last_success_at IS NOT NULL") == 40

        async with polling(harness):
            await until(all_are_polled)
        assert most_at_once(site) <= 3
        assert await held_leases(harness) == {}


async def test_a_poll_whose_host_pauses_keeps_no_place_from_others(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Spec 2.3, 3.2: with one place, all robots.txt are read before the first host may be asked for its feed."""
    settings = make_settings(
        connect_to=site.connect_to, poll_concurrency=1, poll_check_seconds=3600, host_delay_ms=1500
    )
    async with open_harness(settings) as harness:
        urls = await add_feeds(harness, site, 5)

        async def all_have_come() -> bool:
            return all(site.visits(url) for url in urls)

        async with polling(harness):
            await until(all_have_come)
        assert [seen.url.endswith(ROBOTS) for seen in site.seen] == [True] * 5 + [False] * 5
        assert most_at_once(site) == 1


async def test_a_stop_releases_claims_that_are_not_started(site: Site, make_settings: Callable[..., Settings]) -> None:
    """Spec 2.4, 9.3: at no cost to the feeds."""
    settings = make_settings(connect_to=site.connect_to, poll_concurrency=2, lease_seconds=120)
    async with open_harness(settings) as harness:
        urls = await add_feeds(harness, site, 20)
        site.hanging.update(urls)

        async def both_hang() -> bool:
            return len(site.waiting) == 2

        stop = asyncio.Event()
        working = asyncio.create_task(PollerRole(harness.runtime).run(stop, grace_seconds=0.1))
        await until(both_hang)
        leases = await held_leases(harness)
        stop.set()
        await working
        assert 2 < leases["poll_state"] <= 8
        assert leases["host_state"] <= 6, "hosts are not kept from others for long"
        assert await held_leases(harness) == {}
        assert await count(harness, "poll_state", "attempts > 0 OR consecutive_errors > 0") == 0


async def test_a_claim_that_waited_for_half_its_lease_is_released(
    site: Site, make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 2.4: a lease is long enough for what it is for, however long a place was wanting."""
    settings = make_settings(
        connect_to=site.connect_to, poll_concurrency=2, lease_seconds=120, poll_check_seconds=3600, host_delay_ms=0
    )
    async with open_harness(settings) as harness:
        site.hanging.update(await add_feeds(harness, site, 20))
        now, late = harness.runtime.context.clock.now, timedelta()
        monkeypatch.setattr(harness.runtime.context.clock, "now", lambda: now() + late)
        left: list[float] = []
        poll = harness.runtime.poller.poll

        async def noted(claim: PollClaim, **options: Any) -> PollResult:
            left.append((claim.lease.until - harness.runtime.context.clock.now()).total_seconds())
            return await poll(claim, **options)

        monkeypatch.setattr(harness.runtime.poller, "poll", noted)

        async def both_hang() -> bool:
            return len(site.waiting) == 2

        stop = asyncio.Event()
        role = PollerRole(harness.runtime)
        working = asyncio.create_task(role.run(stop, grace_seconds=0.1))
        await until(both_hang)
        late, begun = timedelta(seconds=90), len(left)
        for under_way in role._polls:
            under_way.cancel()

        async def the_next_is_begun() -> bool:
            return len(left) > begun

        await until(the_next_is_begun)
        stop.set()
        await working
        assert min(left) > 60


@pytest.mark.parametrize("loop_turns", [0, 1, 2, 3, 5, 8, 13, 40])
async def test_a_host_that_was_taken_for_one_who_left_is_given_back(harness: AppHarness, loop_turns: int) -> None:
    """Spec 2.4: whenever he leaves."""

    async def hold(host: str) -> None:
        async with harness.runtime.gate.lease_host(host):
            await asyncio.Event().wait()

    for _ in range(2):  # at first the hosts are new
        tasks = [asyncio.create_task(hold(f"h{number}.test")) for number in range(5)]
        for _ in range(loop_turns):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await held_leases(harness) == {}


async def test_of_many_who_want_a_host_at_once_each_has_it_for_himself(harness: AppHarness) -> None:
    """Spec 2.3, whatever of it is asked of the database together."""
    inside = most = 0

    async def hold() -> None:
        nonlocal inside, most
        async with harness.runtime.gate.lease_host("busy.test"):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(hold() for _ in range(6)))
    assert most == 1
    assert await held_leases(harness) == {}
