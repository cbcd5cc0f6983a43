"""Changes of hosts by an operator: shared turns, closed hosts, slashes (spec 2.1, 2.3, 2.5)."""

import asyncio
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from headwater.app.operations import LocalOperations
from headwater.core.errors import OperatorError
from headwater.core.frontier import FetchOutcome, UrlFilter, UrlStatus
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import hosts
from headwater.db.context import open_database_context
from headwater.db.hosts import FOREVER
from headwater.db.pool import Connection, Database
from headwater.frontier import hosts as operator_hosts
from headwater.frontier import rescue
from headwater.frontier.retry import retry_all
from tests.database_state import count, until_blocked
from tests.frontier import LEASE, NOW, STORED, Frontier
from tests.harness import AppHarness, open_harness
from tests.refusals import refused
from tests.server import Answer, Site, page, rss

both_servers = pytest.mark.both_servers
SECOND = timedelta(seconds=1)


async def claimed_urls(frontier: Frontier) -> list[str]:
    return sorted(claim.url for claim in await frontier.take())


@both_servers
async def test_grouped_hosts_share_one_turn(frontier: Frontier) -> None:
    """Spec 2.3: the next request to any of them starts no sooner than the delay after the last to any of them."""
    await frontier.put("http://a.test/1", "http://b.test/1", "http://c.test/1")
    await operator_hosts.group_hosts(frontier.database, "news", ["a.test", "b.test"])
    first, second = await frontier.take()
    assert {first.host.politeness_key, second.host.politeness_key} == {"group:news", "c.test"}
    grouped = first if first.host.politeness_key == "group:news" else second
    await frontier.put("http://b.test/2")  # known by now to share the turn
    assert await frontier.take() == []
    await frontier.end(grouped, STORED, not_before=NOW + 5 * SECOND)
    frontier.now = NOW + 4.9 * SECOND
    assert await frontier.take() == []
    frontier.now = NOW + 5 * SECOND
    (other,) = await frontier.take()
    assert other.host.politeness_key == "group:news"
    assert other.url != grouped.url


@both_servers
async def test_a_group_is_as_slow_as_the_slowest_and_forgets_one_that_leaves(frontier: Frontier) -> None:
    """Spec 2.3."""
    await frontier.put("http://slow.test/1", "http://quick.test/1")
    await frontier.execute("UPDATE host_state SET crawl_delay_ms = 30000 WHERE host = 'slow.test'")
    await operator_hosts.group_hosts(frontier.database, "news", ["slow.test", "quick.test"])
    assert (await get_host(frontier, "quick.test")).crawl_delay_ms == 30000
    await operator_hosts.ungroup_hosts(frontier.database, ["slow.test"])
    assert (await get_host(frontier, "quick.test")).crawl_delay_ms is None
    assert (await get_host(frontier, "slow.test")).crawl_delay_ms == 30000


async def get_host(frontier: Frontier, host: str) -> hosts.HostFacts:
    async with frontier.database.connection() as connection:
        found = await hosts.get_host(connection, host)
    assert found
    return found


@both_servers
async def test_no_pause_is_lost_on_the_way_from_one_turn_to_another(frontier: Frontier) -> None:
    """Spec 2.3, 9.3: from its own turn to a group, to another group, and back, each time as late as before."""
    await frontier.put("http://a.test/1", "http://a.test/2")
    (claim,) = await frontier.take()
    late = NOW + timedelta(minutes=10)
    await frontier.end(claim, STORED, not_before=late)
    await frontier.execute("UPDATE host_state SET backoff_ms = 7000, last_throttled_at = now() WHERE host = 'a.test'")
    for move in (
        lambda: operator_hosts.group_hosts(frontier.database, "one", ["a.test"]),
        lambda: operator_hosts.group_hosts(frontier.database, "two", ["a.test", "new.test"]),
        lambda: operator_hosts.ungroup_hosts(frontier.database, ["a.test"]),
    ):
        await move()
        key = (await get_host(frontier, "a.test")).politeness_key
        turn = await frontier.rows(f"SELECT not_before, ready_at, backoff_ms FROM host_state WHERE host = '{key}'")
        assert turn == [(late, late, 7000)]
        frontier.now = late - SECOND
        assert await frontier.take() == []
    assert key == "a.test"
    frontier.now = late
    assert len(await frontier.take()) == 1


@both_servers
async def test_a_closed_host_stays_closed_in_a_group_and_out_of_it(frontier: Frontier) -> None:
    """Spec 2.3: no other change opens a host that an operator closed."""
    await frontier.put("http://a.test/1", "http://b.test/1")
    await frontier.database.transact(operator_hosts.close_host, "a.test", FOREVER)
    await operator_hosts.group_hosts(frontier.database, "news", ["a.test", "b.test"])
    assert await frontier.take() == []
    await operator_hosts.ungroup_hosts(frontier.database, ["a.test"])
    assert await frontier.take() == []
    await frontier.database.transact(operator_hosts.open_host, "group:news", NOW, 0)
    assert await claimed_urls(frontier) == ["http://b.test/1"]
    await frontier.database.transact(operator_hosts.open_host, "a.test", NOW, 0)
    assert await claimed_urls(frontier) == ["http://a.test/1"]


async def test_a_host_in_use_joins_a_group_as_soon_as_it_is_released(frontier: Frontier) -> None:
    """Spec 2.3: else two of the group could be asked at once."""
    await frontier.put("http://a.test/1", "http://a.test/2", "http://b.test/1")
    claims = {claim.host.host: claim for claim in await frontier.take()}
    joining = asyncio.create_task(operator_hosts.group_hosts(frontier.database, "news", ["a.test", "b.test"]))
    await frontier.end(claims["b.test"], STORED)
    await asyncio.wait([joining], timeout=0.2)
    assert not joining.done()
    await frontier.end(claims["a.test"], STORED)
    await joining
    assert (await frontier.take())[0].host.politeness_key == "group:news"


async def test_a_host_that_stays_in_use_is_not_changed(frontier: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    """All or none of the hosts join, and the caller gets an error."""
    monkeypatch.setattr(operator_hosts, "_PATIENCE_SECONDS", 0)
    await frontier.put("http://a.test/1")
    (claim,) = await frontier.take()
    await frontier.put("http://b.test/1")
    with refused(Reason.HOST_IN_USE, "a.test"):
        await operator_hosts.group_hosts(frontier.database, "news", ["a.test", "b.test"])
    assert await count(frontier, "host_state", "politeness_key IS NOT NULL") == 0
    await frontier.end(claim, STORED)
    await operator_hosts.group_hosts(frontier.database, "news", ["a.test", "b.test"])
    (claim,) = await frontier.take()
    for change in (
        operator_hosts.ungroup_hosts(frontier.database, ["b.test"]),
        operator_hosts.group_hosts(frontier.database, "other", ["b.test"]),
        operator_hosts.group_hosts(frontier.database, "news", ["c.test"]),
    ):
        with pytest.raises(OperatorError) as caught:
            await change
        assert caught.value.reason is Reason.HOST_IN_USE


@both_servers
async def test_hosts_of_a_domain_share_its_turn_and_a_group_takes_them_out(
    make_settings: Callable[..., Settings],
) -> None:
    """Spec 2.3: politeness by registrable domain, for a host an operator names first too; groups give back to it."""
    async with open_database_context(make_settings(politeness_scope="domain")) as context:
        frontier = LocalOperations(context).frontier
        await frontier.group_hosts("apart", ["cdn.example.org"])
        await frontier.close_host("www.example.org")
        await frontier.submit([f"http://{name}.example.org/" for name in ("www", "cdn", "new")])
        listed = {line.host: (line.shares_turn_of, line.state) for line in (await frontier.list_hosts()).hosts}
        assert listed == {
            "cdn.example.org": ("group:apart", "waiting"),
            "domain:example.org": (None, "closed"),
            "group:apart": (None, "waiting"),
            "new.example.org": ("domain:example.org", "closed"),
            "www.example.org": ("domain:example.org", "closed"),
        }
        await frontier.ungroup_hosts(["cdn.example.org", "www.example.org"])
        queued = {line.host: (line.shares_turn_of, line.queued) for line in (await frontier.list_hosts()).hosts}
        assert queued["cdn.example.org"] == ("domain:example.org", None)
        assert (queued["domain:example.org"], queued["group:apart"]) == ((None, 3), (None, 0))


async def test_a_group_visits_one_host_after_the_other(site: Site, make_settings: Callable[..., Settings]) -> None:
    """Spec 2.3, through the whole house: requests to two grouped hosts keep the delay of one."""
    for host in ("a", "b"):
        for number in range(3):
            site.answers[f"http://{host}.test/{number}"] = Answer(page(f"{host} {number}"))
    async with open_harness(make_settings(connect_to=site.connect_to, host_delay_ms=200)) as harness:
        await harness.operations.frontier.group_hosts("both", ["a.test", "b.test"])
        await harness.operations.frontier.submit(
            [f"http://{host}.test/{number}" for host in "ab" for number in range(3)]
        )
        await harness.work()
        assert set((await harness.outcomes()).values()) == {"stored"}
    visits = sorted(site.seen, key=lambda seen: seen.arrived)
    assert len(visits) == 8  # with each host's robots.txt
    for before, after in itertools.pairwise(visits):
        assert after.arrived - before.arrived >= 0.19


@both_servers
async def test_no_claim_takes_a_closed_host(frontier: Frontier) -> None:
    """Spec 2.3: neither what was queued, nor what is handed in or asked for again meanwhile."""
    await frontier.put("http://a.test/dead")
    (claim,) = await frontier.take()
    await frontier.end(claim, FetchOutcome(Reason.GONE, UrlStatus.DEAD))
    await frontier.put("http://a.test/1")
    until = NOW + timedelta(hours=2)
    await frontier.database.transact(operator_hosts.close_host, "a.test", until)
    await frontier.put("http://a.test/2")
    assert [done.queued async for done in retry_all(frontier.database, frontier.now, UrlFilter(status="dead"))] == [1]
    assert await rescue.Sweeper(frontier.database).sweep() == 0
    assert await frontier.take() == []
    frontier.now = until - SECOND
    assert await frontier.take() == []
    frontier.now = until
    assert len(await frontier.take()) == 1


@both_servers
@pytest.mark.parametrize("ending", ["finished", "killed"])
async def test_a_host_closed_while_it_is_held_is_closed_afterwards(frontier: Frontier, ending: str) -> None:
    """Spec 2.3, 9.3: a running request may end, and no other begins; its holder's death changes nothing."""
    await frontier.put("http://a.test/1", "http://a.test/2")
    (claim,) = await frontier.take()
    await frontier.database.transact(operator_hosts.close_host, "a.test", FOREVER)
    if ending == "finished":
        assert await frontier.end(claim, STORED)
    frontier.now = NOW + LEASE + timedelta(hours=1)
    await rescue.rescue_claims(frontier.database, frontier.now, 6)
    assert await frontier.take() == []
    await rescue.rescue_hosts(frontier.database, frontier.now)
    assert await frontier.take() == []
    await frontier.database.transact(operator_hosts.open_host, "a.test", frontier.now, 0)
    assert len(await frontier.take()) == 1


@both_servers
async def test_a_shorter_closing_ends_sooner(frontier: Frontier) -> None:
    await frontier.put("http://a.test/1")
    await frontier.database.transact(operator_hosts.close_host, "a.test", FOREVER)
    await frontier.database.transact(operator_hosts.close_host, "a.test", NOW + 10 * SECOND)
    frontier.now = NOW + 10 * SECOND
    assert len(await frontier.take()) == 1


async def test_a_host_has_the_reason_of_its_block_only_while_it_is_blocked(
    make_settings: Callable[..., Settings],
) -> None:
    async with open_database_context(make_settings()) as context:
        frontier = LocalOperations(context).frontier
        await frontier.submit(["http://a.test/1", "http://b.test/1"])
        async with context.database.connection() as connection:
            for host, until in (("a.test", "1 hour"), ("b.test", "-1 hour")):
                await connection.execute(
                    "UPDATE host_state SET blocked_reason = 'dns', not_before = now() + $2::text::interval "
                    "WHERE host = $1",
                    host,
                    until,
                )
        listed = [(line.host, line.state, line.blocked_reason) for line in (await frontier.list_hosts()).hosts]
        assert listed == [("a.test", "blocked", "dns"), ("b.test", "waiting", None)]


async def test_releasing_takes_back_a_block_but_not_the_pause(frontier: Frontier) -> None:
    """Spec 2.3: an operator may forgive a host, and still no two requests are closer than its delay."""
    await frontier.put("http://a.test/1")
    await frontier.execute(
        "UPDATE host_state SET not_before = '2027-01-01', ready_at = '2027-01-01', blocked_reason = 'rate_limited', "
        "backoff_ms = 60000, crawl_delay_ms = 3000"
    )
    await frontier.database.transact(operator_hosts.open_host, "a.test", NOW, 1000)
    frontier.now = NOW + 2.9 * SECOND
    assert await frontier.take() == []
    frontier.now = NOW + 3 * SECOND
    (claim,) = await frontier.take()
    assert (claim.host.backoff_ms, claim.host.crawl_delay_ms) == (0, 3000)


async def test_workers_live_on_when_all_that_is_left_is_closed_for_good(site: Site, harness: AppHarness) -> None:
    """Spec 9.3: a turn that is far in the future is no error."""
    site.answers["http://open.test/1"] = Answer(page("open"))
    await harness.operations.frontier.close_host("closed.test")
    await harness.operations.frontier.submit(["http://closed.test/1", "http://open.test/1"])
    await harness.work(until_attempts=1)
    await harness.work(until_idle_seconds=0.2)
    assert await harness.outcomes() == {"http://closed.test/1": None, "http://open.test/1": "stored"}
    (waiting,) = (await harness.operations.frontier.list_urls(UrlFilter(status="pending"))).urls
    assert (waiting.waiting_reason, waiting.due_at) == ("host_closed", None)
    assert site.visits("http://closed.test/1") == 0
    site.answers["http://closed.test/1"] = Answer(page("closed no more"))
    await harness.operations.frontier.open_host("closed.test")
    await harness.work()
    assert (await harness.outcomes())["http://closed.test/1"] == "stored"


@pytest.mark.parametrize("lasting", [None, timedelta(hours=2)])
async def test_a_poll_of_a_closed_host_has_failed(lasting: timedelta | None, site: Site, harness: AppHarness) -> None:
    """Spec 2.3, 11.3: the source is failing, and its next poll is due when the host is released."""
    feed = "http://news.test/feed"
    site.answers[feed] = rss("http://else.test/a")
    await harness.operations.sources.add(feed)
    visits = len(site.seen)
    await harness.operations.frontier.close_host("news.test", lasting)
    polled = await harness.operations.sources.sync("news.test")
    assert (polled.reason, polled.deferred) == (Reason.HOST_CLOSED, True)
    assert len(site.seen) == visits
    main = await harness.method()
    assert (main.consecutive_errors, main.polling, main.health, main.last_reason) == (
        1,
        False,
        "failing",
        "host_closed",
    )
    assert main.failing_since is not None

    async def wait() -> timedelta:
        next_poll_at = (await harness.method()).next_poll_at
        assert next_poll_at is not None
        return next_poll_at - datetime.now(UTC)

    assert await wait() > timedelta(hours=1)
    await harness.operations.frontier.close_host("news.test", timedelta(minutes=1))
    assert timedelta(seconds=10) < await wait() < timedelta(hours=1)
    await harness.operations.frontier.open_host("news.test")
    assert await wait() <= timedelta(0)
    assert (await harness.operations.sources.sync("news.test")).error is None


@both_servers
async def test_a_host_may_keep_its_trailing_slashes(harness: AppHarness) -> None:
    """Spec 2.1: trailing slashes by host setting; known URLs stay as they are."""
    frontier = harness.operations.frontier
    both = ["http://a.test/x", "http://a.test/x/", "http://b.test/x", "http://b.test/x/"]
    await frontier.keep_slash("a.test", True)
    handed = await frontier.submit([*both, "http://a.test/"])
    assert [told.url for told in handed] == [*both[:3], "http://b.test/x", "http://a.test/"]
    assert [told.is_new for told in handed] == [True, True, True, False, True]
    assert (await frontier.retry(["http://a.test/x/"])).queued == ["http://a.test/x/"]
    await frontier.keep_slash("a.test", False)
    assert [told.url for told in await frontier.submit(["http://a.test/x/", "http://a.test/y/"])] == [
        "http://a.test/x",
        "http://a.test/y",
    ]


@both_servers
async def test_the_sweeper_moves_a_url_that_was_submitted_while_its_host_was_grouped(frontier: Frontier) -> None:
    """Spec 2.3, 2.4: the submit read the host before the group was made, and writes after it."""
    await frontier.put("http://a.test/1")
    (claim,) = await frontier.take()
    await frontier.end(claim, STORED)

    async def group(connection: Connection) -> asyncio.Task[object]:
        await hosts.add_hosts(connection, {"group:news": "group:news"})
        assert await hosts.join_key(connection, ["a.test"], "group:news") == {"a.test"}
        submitting = asyncio.create_task(frontier.put("http://a.test/2"))
        await until_blocked(frontier)
        return submitting

    submitting = await frontier.database.transact(group)
    await submitting
    assert await frontier.take() == []
    assert await rescue.Sweeper(frontier.database).sweep() == 1
    (claim,) = await frontier.take()
    assert (claim.url, claim.host.politeness_key) == ("http://a.test/2", "group:news")
    assert await rescue.Sweeper(frontier.database).sweep() == 0


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.ORG", "example.org"),
        ("https://example.org/a?b", "example.org"),
        ("example.org:8080", "example.org:8080"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("group:news", "group:news"),
        ("domain:example.org", "domain:example.org"),
        ("[::1]:80", "[::1]:80"),
    ],
)
def test_a_host_is_read_as_people_write_it(text: str, host: str) -> None:
    assert operator_hosts.read_host(text) == host


@pytest.mark.parametrize("text", ["", " ", "a b", "a\0b", "x" * 70_000, "user:secret@a.test", "group:Bad name", "a..b"])
def test_the_error_for_an_invalid_host_does_not_show_a_password(text: str) -> None:
    with pytest.raises(OperatorError) as caught:
        operator_hosts.read_host(text)
    assert caught.value.reason is Reason.UNKNOWN_HOST
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 500


async def test_a_turn_is_not_a_host(database: Database) -> None:
    """A group cannot join a group, and an unknown group cannot be closed."""
    for change in (
        operator_hosts.group_hosts(database, "news", ["group:other"]),
        operator_hosts.ungroup_hosts(database, ["group:other"]),
        database.transact(operator_hosts.keep_slash, "domain:example.org", True),
        operator_hosts.group_hosts(database, "No Name", ["a.test"]),
    ):
        with pytest.raises(OperatorError) as caught:
            await change
        assert caught.value.reason is Reason.BAD_REQUEST
    for change in (
        database.transact(operator_hosts.close_host, "group:typo", FOREVER),
        database.transact(operator_hosts.open_host, "never.test", NOW, 0),
        operator_hosts.ungroup_hosts(database, ["never.test"]),
    ):
        with pytest.raises(OperatorError) as caught:
            await change
        assert caught.value.reason is Reason.UNKNOWN_HOST
