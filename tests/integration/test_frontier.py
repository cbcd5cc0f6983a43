"""The frontier on a real database: once each, one at a time a host, fenced, nothing lost (spec 2.1-2.4)."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest

from headwater.core.frontier import FetchOutcome, Origin, UrlStatus
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import sql
from headwater.db.pool import open_database
from headwater.frontier import rescue
from tests.database_state import count, until_blocked
from tests.frontier import DELAY_MS, LEASE, NOW, STORED, Frontier

pytestmark = pytest.mark.both_servers


async def test_one_url_has_one_identity_for_all_sources(frontier: Frontier) -> None:
    """Spec 2.1."""
    first = await frontier.put("http://a.test/x?b=2&a=1&utm_source=mail", "HTTP://A.test:80/./x?a=1&b=2#top")
    again = await frontier.put("http://a.test/x?a=1&b=2", origin=Origin.MANUAL)
    assert first.new == 1
    assert again.new == 0
    assert len({known.id for known in (*first.known.values(), *again.known.values())}) == 1


async def test_an_unusable_url_is_refused_and_the_others_are_accepted(frontier: Frontier) -> None:
    put = await frontier.put("javascript:alert(1)", "http://a.test/", "http://user:pw@a.test/", "")
    assert put.new == 1
    assert set(put.refused) == {"javascript:alert(1)", "http://user:pw@a.test/", ""}
    assert all(put.refused.values())


async def test_the_best_url_of_each_ready_host_is_claimed_and_its_host_held(frontier: Frontier) -> None:
    """Spec 2.2, 2.3, 2.4."""
    await frontier.put("http://a.test/low", "http://b.test/only", origin=Origin.SPIDER, priority=3)
    await frontier.put("http://a.test/high", origin=Origin.FEED, priority=8)
    claims = await frontier.take()
    assert sorted(claimed.url for claimed in claims) == ["http://a.test/high", "http://b.test/only"]
    assert all(claimed.lease.attempts == 1 for claimed in claims)
    assert await frontier.take() == []


async def test_a_second_sighting_raises_a_pending_priority_and_revives_nothing(frontier: Frontier) -> None:
    """Spec 2.2."""
    await frontier.put("http://a.test/1", "http://a.test/2", origin=Origin.SPIDER, priority=2)
    await frontier.put("http://a.test/2", priority=9)
    (claimed,) = await frontier.take()
    assert claimed.url == "http://a.test/2"
    await frontier.end(claimed, STORED)
    assert (await frontier.put("http://a.test/2", priority=10)).new == 0
    (left,) = await frontier.take()
    assert left.url == "http://a.test/1"


async def test_a_host_is_left_alone_until_its_delay_has_passed(frontier: Frontier) -> None:
    """Spec 2.3."""
    await frontier.put("http://a.test/1", "http://a.test/2")
    (claimed,) = await frontier.take()
    await frontier.end(claimed, STORED, not_before=NOW + timedelta(seconds=5))
    frontier.now = NOW + timedelta(seconds=4.9)
    assert await frontier.take() == []
    frontier.now = NOW + timedelta(seconds=5)
    assert len(await frontier.take()) == 1


async def test_a_stale_finish_changes_nothing(frontier: Frontier) -> None:
    """Spec 2.4: the fence."""
    await frontier.put("http://a.test/1")
    (stale,) = await frontier.take(holder="slow")
    frontier.now = NOW + LEASE + timedelta(seconds=1)
    await rescue.rescue_hosts(frontier.database, frontier.now)
    assert await rescue.rescue_claims(frontier.database, frontier.now, 6) == 1
    (fresh,) = await frontier.take(holder="quick")
    assert fresh.lease.attempts == 2
    assert not await frontier.end(stale, FetchOutcome(Reason.NOT_FOUND, UrlStatus.DEAD))
    assert await frontier.end(fresh, STORED)
    (url,) = (await frontier.urls()).values()
    assert (url.status, url.reason) == ("fetched", "stored")


async def test_a_released_attempt_is_not_counted_and_a_failed_one_is(frontier: Frontier) -> None:
    """Spec 4.2."""
    await frontier.put("http://a.test/1")
    for ending, attempts in (
        (FetchOutcome(Reason.RATE_LIMITED, UrlStatus.PENDING, is_counted=False), 1),
        (FetchOutcome(Reason.HTTP_5XX, UrlStatus.PENDING), 1),
        (STORED, 2),
    ):
        (claimed,) = await frontier.take()
        assert claimed.lease.attempts == attempts
        await frontier.end(claimed, ending)


async def test_a_url_that_loses_its_worker_every_time_ends_dead(frontier: Frontier) -> None:
    """Spec 2.4: attempts count at claim."""
    await frontier.put("http://a.test/killer")
    for _ in range(3):
        assert len(await frontier.take()) == 1
        frontier.now += LEASE + timedelta(seconds=1)
        await rescue.rescue_claims(frontier.database, frontier.now, 3)
        await rescue.rescue_hosts(frontier.database, frontier.now)
    assert await frontier.take() == []
    (url,) = (await frontier.urls()).values()
    assert (url.status, url.reason) == ("dead", "worker_lost")
    assert await count(frontier, "fetch_log", "reason = 'worker_lost'") == 3


async def test_a_host_whose_holder_died_still_has_its_pause(frontier: Frontier) -> None:
    """Spec 9.3: something may have been sent just before the lease ended."""
    await frontier.put("http://a.test/1")
    await frontier.execute("UPDATE host_state SET crawl_delay_ms = 30000, backoff_ms = 5000")
    assert len(await frontier.take()) == 1
    frontier.now = NOW + LEASE + timedelta(seconds=1)
    await rescue.rescue_claims(frontier.database, frontier.now, 6)
    await rescue.rescue_hosts(frontier.database, frontier.now)
    assert await frontier.take() == []
    frontier.now = NOW + LEASE + timedelta(seconds=30)
    assert len(await frontier.take()) == 1


async def test_a_url_due_later_wakes_its_host_then(frontier: Frontier) -> None:
    await frontier.put("http://a.test/1")
    (claimed,) = await frontier.take()
    later = NOW + timedelta(minutes=10)
    await frontier.end(claimed, FetchOutcome(Reason.TIMEOUT, UrlStatus.PENDING, due_at=later))
    frontier.now = later - timedelta(seconds=1)
    assert await frontier.take() == []
    await frontier.put("http://a.test/2")
    (other,) = await frontier.take()
    assert other.url == "http://a.test/2"
    await frontier.end(other, STORED)
    frontier.now = later
    (again,) = await frontier.take()
    assert again.url == "http://a.test/1"


async def test_a_url_that_goes_back_after_its_host_was_rescued_is_not_forgotten(frontier: Frontier) -> None:
    """Spec 2.4: the lease has ended, but the rescuer has not returned the URL yet."""
    await frontier.put("http://a.test/1")
    (late,) = await frontier.take()
    frontier.now = NOW + LEASE + timedelta(seconds=30)
    assert await rescue.rescue_hosts(frontier.database, frontier.now) == 1
    assert await frontier.end(late, FetchOutcome(Reason.TIMEOUT, UrlStatus.PENDING))
    assert [claimed.lease.attempts for claimed in await frontier.take()] == [2]


async def test_a_submit_does_not_wake_a_held_host(frontier: Frontier) -> None:
    """Spec 2.3: one request at a time."""
    await frontier.put("http://a.test/1")
    (claimed,) = await frontier.take()
    await frontier.put("http://a.test/2")
    assert await frontier.take() == []
    await frontier.end(claimed, STORED)
    assert len(await frontier.take()) == 1


async def test_a_forgotten_host_is_woken_by_the_sweeper(frontier: Frontier) -> None:
    await frontier.put("http://a.test/1")
    async with frontier.database.connection() as connection:
        await connection.execute("UPDATE host_state SET ready_at = NULL")
    assert await frontier.take() == []
    assert await rescue.Sweeper(frontier.database).sweep() == 1
    assert len(await frontier.take()) == 1


async def test_many_claimers_share_the_work_without_taking_anything_twice(
    frontier: Frontier, make_settings: Callable[..., Settings]
) -> None:
    """Spec 2.4: six claimers on six pools of connections, every URL ends exactly once."""
    urls = [f"http://host{number % 5}.test/{number}" for number in range(600)]
    await frontier.put(*urls)
    claimed_urls: list[str] = []
    ended: list[str] = []

    async def work(holder: str) -> None:
        async with open_database(make_settings(database_connections=2)) as database:
            mine = Frontier(database, frontier.source_id)
            while claims := await mine.take(limit=7, holder=holder):
                claimed_urls.extend(claimed.url for claimed in claims)
                for claimed in claims:
                    if await mine.end(claimed, STORED):
                        ended.append(claimed.url)

    while len(ended) < len(urls):
        before = len(ended)
        await asyncio.gather(*(work(uuid4().hex) for _ in range(6)))
        assert len(ended) > before, "the rest is out of reach"
    assert sorted(claimed_urls) == sorted(urls), "a URL was handed out twice"
    assert sorted(ended) == sorted(urls)
    assert await count(frontier, "frontier_queue") == 0
    assert await count(frontier, "host_state", "lease_token IS NOT NULL") == 0


GATE = 1  # the number of a lock of this test's own

# The conditions that a claim checks again under the lock, each with its value before the check.
BY_LOCK = ("            FOR UPDATE SKIP LOCKED\n        ) first", "        ) first")
BY_PLACE = (
    "q.ctid = ANY (ARRAY (SELECT row_place FROM picked))",
    "q.url_id = ANY (ARRAY (SELECT url_id FROM picked))",
)


@pytest.mark.parametrize(
    "taken_out", [[], [BY_LOCK], [BY_PLACE], [BY_LOCK, BY_PLACE]], ids=["as it is", "lock", "place", "both"]
)
async def test_a_claim_that_was_slow_takes_nothing_that_was_put_off_meanwhile(
    taken_out: list[tuple[str, str]], frontier: Frontier
) -> None:
    """Spec 2.4: the re-check. Between its look at the queue and its lock another worker has had the URL.

    There are two, of which one is enough; without both of them it would take the URL.
    """
    await frontier.put("http://a.test/first", priority=9)
    await frontier.put("http://a.test/second", priority=1)
    held_up = ("ORDER BY ready_at LIMIT", f"AND pg_advisory_xact_lock({GATE}) IS NOT NULL ORDER BY ready_at LIMIT")
    slow = sql.query("claim_urls")
    for there, instead in (held_up, *taken_out):
        assert slow.count(there) == 1
        slow = slow.replace(there, instead)
    (claimed,) = await frontier.take()
    await frontier.end(claimed, FetchOutcome(Reason.SHUTDOWN, UrlStatus.PENDING, is_counted=False))
    async with frontier.database.connection() as connection:
        async with frontier.database.connection() as keeper, keeper.transaction():
            await keeper.execute("SELECT pg_advisory_xact_lock($1)", GATE)
            looking = asyncio.create_task(
                connection.fetch(slow, frontier.now, 10, "slow", frontier.now + LEASE, DELAY_MS, uuid4())
            )
            await until_blocked(frontier)
            (claimed,) = await frontier.take()
            later = NOW + timedelta(minutes=10)
            await frontier.end(claimed, FetchOutcome(Reason.TIMEOUT, UrlStatus.PENDING, due_at=later))
        takes_it = claimed.url_id in [row["url_id"] for row in await looking]
    assert takes_it is (len(taken_out) == 2)
    ((due_at, token),) = await frontier.rows("SELECT due_at, lease_token FROM frontier_queue WHERE priority = 10")
    assert (due_at, token is not None) == (later, takes_it)


async def test_a_claim_does_not_wait_for_a_locked_url(frontier: Frontier) -> None:
    """Spec 2.5: a long poll that has raised a URL's priority delays no other host."""
    await frontier.put("http://a.test/first")
    await frontier.put("http://b.test/first")
    async with frontier.database.connection() as connection, connection.transaction():
        await connection.execute("UPDATE frontier_queue SET priority = 9 WHERE politeness_key = 'a.test'")
        claimed = await asyncio.wait_for(frontier.take(), 10)
        assert [claim.host.host for claim in claimed] == ["b.test"]
    assert [claim.host.host for claim in await frontier.take()] == ["a.test"]


async def test_submits_and_finishes_of_one_host_at_once_lose_no_wake_up(frontier: Frontier) -> None:
    """A submit that meets a finish on the same host leaves the host ready."""
    await frontier.put("http://a.test/start")
    for round_number in range(60):
        claims = await frontier.take()
        assert claims, f"nothing was claimable in round {round_number}"
        await asyncio.gather(frontier.end(claims[0], STORED), frontier.put(f"http://a.test/{round_number}"))
    assert await rescue.Sweeper(frontier.database).sweep() == 0
