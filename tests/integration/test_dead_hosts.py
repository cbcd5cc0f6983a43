"""A host that does not answer is asked less and less often, and its pages end after a week (spec 4.1, 11.3)."""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import ExchangeFailed, NotNow
from headwater.core.frontier import HostRecord, UrlFilter
from headwater.core.http import Response
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.http.client import HttpClient
from headwater.politeness.host_failures import is_gone, record_failure
from tests.harness import AppHarness, open_harness
from tests.refusals import refused
from tests.server import Answer, Site, page, rss
from tests.simulation import Simulation

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
WEEK = 7 * DAY
NOW = datetime(2026, 3, 12, 12, 0, tzinfo=UTC)
HTML = {"Content-Type": "text/html"}
DEAD = ["http://dead.test/a", "http://dead.test/b", "http://dead.test/c"]


@pytest.fixture
def closed_port() -> Iterator[socket.socket]:
    """A port at which nothing listens yet."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


@pytest.fixture
async def harness(
    site: Site, make_settings: Callable[..., Settings], closed_port: socket.socket
) -> AsyncIterator[AppHarness]:
    """An application in which dead.test refuses connections, and every other `.test` name leads to `site`."""
    to = (f"dead.test=127.0.0.1:{closed_port.getsockname()[1]}", *site.connect_to)
    async with open_harness(make_settings(connect_to=to, poll_check_seconds=0.05)) as opened:
        yield opened


@contextlib.asynccontextmanager
async def lead_to(site: Site, port: socket.socket) -> AsyncIterator[None]:
    """Make the site answer at another port, too."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, own = site.connect_to[0].partition("=")[2].rsplit(":", 1)
        answers, requests = await asyncio.open_connection(host, int(own))
        await asyncio.gather(_copy(reader, requests), _copy(answers, writer))

    async with await asyncio.start_server(pass_on, sock=port):
        yield


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while block := await source.read(65536):
            target.write(block)
            await target.drain()
    target.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of requests that leave, by host."""
    real, count = HttpClient.request, Counter[str]()

    async def request(self: HttpClient, method: str, url: str, **options: Any) -> Response:
        count[url.split("/")[2]] += 1
        return await real(self, method, url, **options)

    monkeypatch.setattr(HttpClient, "request", request)
    return count


@pytest.mark.parametrize(("host", "is_known"), [("dead.test", True), ("nowhere.invalid", False)])
async def test_a_dead_host_costs_at_most_20_requests_in_a_week(
    host: str,
    is_known: bool,
    site: Site,
    harness: AppHarness,
    sent: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Issue 20: two sources poll the host, and three of its pages wait. Its robots.txt may be known from before."""
    site.answers["http://news.test/feed"] = rss("http://news.test/a")
    site.answers["http://news.test/a"] = Answer(page("a"), headers=HTML)
    await harness.operations.sources.add("http://news.test/feed", overrides={"poll_interval_minutes": 720})
    for name in ("one", "two"):
        await harness.operations.sources.create(name, "site", {"feed_url": f"http://{host}/{name}"})
    pages = [f"http://{host}/{name}" for name in "abc"]
    await harness.operations.frontier.submit(pages)
    if is_known:
        await harness.execute("UPDATE host_state SET robots_fetched_at = clock_timestamp()")
    simulation = Simulation(harness, monkeypatch)
    await simulation.run(WEEK + HOUR, 10 * MINUTE)
    assert 10 <= sent[host] <= 20
    outcomes = await harness.outcomes()
    assert {url: outcomes[url] for url in pages} == dict.fromkeys(pages, "host_gone")
    assert outcomes["http://news.test/a"] == "stored"
    health = {source.name: source.health for source in await harness.operations.sources.list_sources()}
    assert health == {"manual": "on_time", "news.test": "on_time", "one": "failing", "two": "failing"}


async def fail_for_a_week(harness: AppHarness, simulation: Simulation) -> None:
    """Submit pages of the dead host, and give the host up."""
    await harness.operations.frontier.submit(DEAD)
    await simulation.run(WEEK + HOUR)
    assert set((await harness.outcomes()).values()) == {"host_gone"}


async def test_the_waits_of_a_dead_host_grow_from_10_minutes_to_24_hours(
    harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 11.3. After 7 days the host is asked once more, and is then given up."""
    simulation = Simulation(harness, monkeypatch)
    await fail_for_a_week(harness, simulation)
    moments = sorted(one.finished_at for one in await harness.log() if one.reason is Reason.ROBOTS_UNREACHABLE)
    waits = [round((after - before) / MINUTE) for before, after in pairwise(moments)]
    assert waits[:8] == [10, 20, 40, 80, 160, 320, 640, 1280]
    assert set(waits[8:-1]) == {24 * 60}
    assert {one.attempt for one in await harness.log()} == {1}, "waits cost no retry"


async def test_a_retry_gives_a_host_that_was_given_up_a_new_chance(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch, closed_port: socket.socket
) -> None:
    """Spec 11.3. `why` explains the end and names the command."""
    simulation = Simulation(harness, monkeypatch)
    await fail_for_a_week(harness, simulation)
    why = await harness.operations.why(DEAD[0])
    assert (why.status, why.reason, why.host.failure) == ("dead", Reason.HOST_GONE, Reason.NETWORK)
    assert why.host.silent_since is not None
    assert simulation.now - why.host.silent_since >= WEEK
    assert f"headwater frontier retry {DEAD[0]}" in why.lines[-1].text
    for url in DEAD[:2]:
        site.answers[url] = Answer(page(url), headers=HTML)
    async with lead_to(site, closed_port):
        await harness.operations.frontier.retry(DEAD[:1])
        await harness.work()
        assert await harness.outcomes() == {DEAD[0]: "stored", DEAD[1]: "host_gone", DEAD[2]: "host_gone"}
        async for _ in harness.operations.frontier.retry_all(UrlFilter(reason="host_gone")):
            pass
        await harness.work()
    assert await harness.outcomes() == {DEAD[0]: "stored", DEAD[1]: "stored", DEAD[2]: "not_found"}
    assert (await harness.operations.frontier.get_host("dead.test")).silent_since is None


async def test_a_new_page_of_a_host_that_was_given_up_ends_without_a_request(
    harness: AppHarness, monkeypatch: pytest.MonkeyPatch, sent: Counter[str]
) -> None:
    """Spec 11.3. A host that was given up is asked once a day at most."""
    simulation = Simulation(harness, monkeypatch)
    await fail_for_a_week(harness, simulation)
    before = sent["dead.test"]
    await harness.fetch("http://dead.test/new")
    assert (sent["dead.test"], (await harness.outcomes())["http://dead.test/new"]) == (before, "host_gone")
    simulation.step(DAY)
    await harness.fetch("http://dead.test/newer")
    assert (sent["dead.test"], (await harness.outcomes())["http://dead.test/newer"]) == (before + 1, "host_gone")


async def test_a_dead_host_does_not_stop_the_hosts_that_share_its_turn(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch, sent: Counter[str]
) -> None:
    """Spec 2.3, 11.3."""
    alive = [f"http://www.test/{name}" for name in "abc"]
    for url in alive:
        site.answers[url] = Answer(page(url), headers=HTML)
    await harness.operations.frontier.submit([DEAD[0], alive[0]])
    await harness.operations.frontier.group_hosts("both", ["dead.test", "www.test"])
    simulation = Simulation(harness, monkeypatch)
    await simulation.run(MINUTE)
    assert await harness.outcomes() == {DEAD[0]: None, alive[0]: "stored"}
    dead = await harness.operations.frontier.get_host("dead.test")
    assert (dead.state, dead.blocked_reason, dead.failure) == ("blocked", "robots_unreachable", "network")
    await harness.operations.frontier.submit(alive[1:])
    await simulation.run(5 * MINUTE)
    assert await harness.outcomes() == {DEAD[0]: None, **dict.fromkeys(alive, "stored")}
    assert sent["dead.test"] == 1
    await simulation.run(WEEK + HOUR, MINUTE)
    assert (await harness.outcomes())[DEAD[0]] == "host_gone"
    assert sent["dead.test"] <= 20


async def test_an_operator_releases_a_host_that_does_not_answer(
    site: Site, harness: AppHarness, closed_port: socket.socket
) -> None:
    """Issue 20: a wait is explained, with the command that ends it."""
    for url in DEAD:
        site.answers[url] = Answer(page(url), headers=HTML)
    await harness.operations.frontier.submit(DEAD)
    await harness.work(until_attempts=1)
    host = await harness.operations.frontier.get_host("dead.test")
    assert "`headwater frontier release dead.test`" in host.why
    with refused(Reason.ROBOTS_UNREACHABLE, "dead.test", "`headwater frontier release dead.test`"):
        await harness.operations.sources.add("http://dead.test/")
    async with lead_to(site, closed_port):
        assert (await harness.operations.frontier.open_all_hosts()).released == 1
        await harness.work()
    assert set((await harness.outcomes()).values()) == {"stored"}


async def test_a_page_without_an_answer_makes_the_gate_read_robots_txt_again(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Spec 4.1, 11.3: the page may be at fault, or the host. Only a host that answers gets the next request."""
    slow, robots = "http://news.test/slow", "http://news.test/robots.txt"
    site.hanging.add(slow)
    settings = make_settings(connect_to=site.connect_to, page_timeout_seconds=0.2, max_retries=2)
    async with open_harness(settings) as harness:
        assert await harness.fetch(slow) == {slow: "max_retries"}
        assert site.visits(robots) == 3
        host = await harness.operations.frontier.get_host("news.test")
        assert (host.state, host.failure, host.silent_since is None) == ("idle", "timeout", False)


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_process_that_is_late_charges_no_host(
    is_known: bool, site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 2.4: its lease has ended, and another process may have asked the host since."""
    site.answers["http://news.test/a"] = Answer(page("a"), headers=HTML)
    await harness.fetch("http://news.test/a")
    if not is_known:
        await harness.execute("UPDATE host_state SET robots_fetched_at = NULL")
    gate, clock = harness.runtime.gate, harness.runtime.context.clock
    async with gate.lease_host("news.test") as lease:

        async def wait_too_long(*_: object, **__: object) -> Response:
            lease.until = clock.now()
            raise ExchangeFailed("The time is over.", reason=Reason.TIMEOUT)

        monkeypatch.setattr(HttpClient, "request", wait_too_long)
        with pytest.raises((ExchangeFailed, NotNow)):
            await gate.send(lease, "http://news.test/a")
    host = await harness.operations.frontier.get_host("news.test")
    assert (host.state, host.failure, host.silent_since) == ("idle", None, None)


@given(st.lists(st.sampled_from([Reason.DNS, Reason.TIMEOUT, Reason.HTTP_5XX, Reason.RATE_LIMITED]), min_size=1))
def test_a_host_is_gone_only_after_a_week_without_any_answer(failures: list[Reason]) -> None:
    """Spec 11.3, for any failures, each at the moment when the host may be asked again."""
    host, now, silent_since = HostRecord("a.test", "a.test"), NOW, None
    last_wait = timedelta(0)
    for failure in failures:
        silent_since = (silent_since or now) if failure in (Reason.DNS, Reason.TIMEOUT) else None
        host = record_failure(host, failure, now)
        assert host.retry_at is not None
        wait = host.retry_at - now
        assert 10 * MINUTE <= wait <= DAY or wait == silent_since + WEEK - now  # type: ignore[operator]
        assert wait >= last_wait or silent_since
        assert is_gone(host) == (silent_since is not None and now - silent_since >= WEEK)
        now, last_wait = host.retry_at, wait
