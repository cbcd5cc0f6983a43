"""Requests that are paid for with the api.data.gov key, from kinds and from fetch workers (spec 1.4)."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
import structlog

from headwater.app.polling import PollerRole
from headwater.app.roles import run_roles
from headwater.core.api_budget import HOUR, Split
from headwater.core.json_values import parse_json
from headwater.core.poll import PollResult
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.http.client import HttpClient
from headwater.politeness.api_budget import Budgets
from headwater.politeness.request_rate import RequestRate
from headwater.sources.run import Http
from tests import kinds
from tests.database_state import count, held_leases, make_due, make_polls_due, poll_memory
from tests.harness import open_harness
from tests.integration.keyring import NOW, Keyring
from tests.integration.spender import HOST, KEY, SetClock
from tests.integration.test_budgets import most_in_an_hour
from tests.server import Answer, Site, page, rss
from tests.waiting import until

LIST = f"http://{HOST}/list"
OTHER_LIST = "http://api2.test/list"
HTML = {"Content-Type": "text/html; charset=utf-8"}
MINUTE = timedelta(minutes=1)
Sleep = Callable[[float], Awaitable[None]]


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds.install(monkeypatch)


@pytest.fixture
def open_paid(site: Site, make_settings: Callable[..., Settings]) -> Callable[..., "PaidHarness"]:
    return lambda **overrides: PaidHarness(make_settings(connect_to=site.connect_to, **overrides))


class PaidHarness:
    """A harness whose budgets use a clock that advances when a request waits for them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opening = open_harness(settings)

    async def __aenter__(self) -> "PaidHarness":
        self.harness = await self._opening.__aenter__()
        self.keyring = Keyring(self.harness.runtime.context.database, **self._settings.rate_limits)
        self.pay_with(KEY)
        return self

    def pay_with(self, key: str, clock: SetClock | None = None, sleep: Sleep | None = None) -> None:
        """Give the gate a key, a clock and a sleep for its budgets."""
        self.harness.runtime.gate.budgets = Budgets(
            self.keyring.database,
            clock or self.keyring.clock,
            key,
            Split(self._settings.rate_limits),
            sleep or self.keyring.sleep,
        )

    async def __aexit__(self, *error: object) -> None:
        await self._opening.__aexit__(None, None, None)

    async def poll(self, name: str = "bills", *lists: str, **settings: object) -> PollResult:
        """Add a source and poll it."""
        await self.harness.operations.sources.create(name, "ledger", {"lists": list(lists or [LIST]), **settings})
        return await self.harness.operations.sources.sync(name)

    async def http(self, source: str, **terms: Any) -> Http:
        """The Http object of a kind."""
        runtime = self.harness.runtime
        added = await self.harness.operations.sources.create(source, "ledger", {"lists": []})
        kind = kinds.LedgerKind(lists=(), **terms)
        rate = RequestRate(runtime.context.database, runtime.context.clock, added.id, kind.gap)
        return Http(runtime.gate, runtime.sandbox, kind, rate, kind.fetch_profile(source))

    async def spent(self) -> dict[tuple[str, str], int]:
        rows = await self.harness.rows("SELECT host, child, sum(requests)::int FROM budget_spending GROUP BY 1, 2")
        return {(host, child): requests for host, child, requests in rows}


Open = Callable[..., PaidHarness]


def records(*urls: str, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(json.dumps(urls), status, {"Content-Type": "application/json", **named})


def keys(site: Site, url: str) -> list[str | None]:
    """The key that each request for a URL carried."""
    return [seen.headers.get("X-Api-Key") for seen in site.seen if seen.url == url]


async def test_the_key_goes_in_a_header_to_the_declared_hosts_and_nowhere_else(site: Site, open_paid: Open) -> None:
    """Spec 1.4: the target of a redirect, URLs, logs and the database do not get the key."""
    site.answers[LIST] = Answer(status=302, headers={"Location": "http://elsewhere.test/list"})
    site.answers["http://elsewhere.test/list"] = records("http://news.test/a")
    site.answers[OTHER_LIST] = [records(status=500), records("http://news.test/b")]
    broken = f"http://{HOST}/broken"
    site.answers[broken] = Answer(status=404)
    with structlog.testing.capture_logs() as logs:
        async with open_paid() as paid:
            polled = await paid.poll("bills", LIST, OTHER_LIST, retry={"base_seconds": 0})
            failed = await paid.poll("hearings", broken)
            kept = await paid.harness.rows(
                "SELECT s::text FROM sources s UNION ALL SELECT f::text FROM poll_state f UNION ALL"
                " SELECT i::text FROM items i UNION ALL SELECT u::text FROM url_frontier u UNION ALL"
                " SELECT b::text FROM budgets b UNION ALL SELECT p::text FROM budget_spending p"
            )
    assert (polled.error, polled.items) == (None, 2)
    assert failed.reason is Reason.NOT_FOUND
    assert keys(site, LIST) == [KEY]
    assert keys(site, OTHER_LIST) == [KEY, KEY]
    assert keys(site, "http://elsewhere.test/list") == keys(site, "http://elsewhere.test/robots.txt") == [None]
    assert not any(KEY in seen.url for seen in site.seen)
    assert len(kept) > 8
    assert KEY not in f"{kept} {logs} {failed}"


class PortKind(kinds.LedgerKind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    api_hosts: ClassVar[frozenset[str]] = frozenset({f"{HOST}:8443"})


async def test_an_api_at_a_port_of_its_own_is_paid_for_when_it_is_declared_so(
    site: Site, open_paid: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 1.4: an undeclared port is refused, because a request to it would lack key and budget unnoticed."""
    kinds.install(monkeypatch, "ported", PortKind)
    there = f"http://{HOST}:8443/list"
    site.answers[there] = records("http://news.test/a")
    site.answers[LIST] = Answer(status=302, headers={"Location": there})
    async with open_paid() as paid:
        for name, address in (("direct", there), ("led", LIST)):
            refused = await paid.poll(name, address)
            assert refused.reason is Reason.BAD_SOURCE
            assert refused.error == (
                f"Source {name}: api_hosts: the API is asked at {HOST}:8443, and the kind declares only api.test, "
                "api2.test; there it would get neither key nor budget."
            )
        assert site.visits(there) == 0
        await paid.harness.operations.sources.create("bills", "ported", {"lists": [there]})
        assert (await paid.harness.operations.sources.sync("bills")).error is None
        assert keys(site, there) == [KEY]
        assert (await paid.spent())[(f"{HOST}:8443", "bills")] == 1


async def test_every_hop_and_every_attempt_is_taken_from_the_budget(site: Site, open_paid: Open) -> None:
    """Spec 1.4: a request takes from its source's share, and each is a request."""
    site.answers[LIST] = [
        Answer(status=503),
        Answer(status=302, headers={"Location": "/moved"}),
        Answer(status=302, headers={"Location": OTHER_LIST}),
    ]
    site.answers[f"http://{HOST}/moved"] = Answer(status=503)
    site.answers[OTHER_LIST] = records("http://news.test/a")
    async with open_paid() as paid:
        polled = await paid.poll("regulations.gov", retry={"base_seconds": 0})
        assert polled.error is None
        assert await paid.spent() == {(HOST, "regulations_gov"): 4, ("api2.test", "regulations_gov"): 1}
        assert len(site.seen) == 5


async def test_kinds_of_two_processes_never_pass_the_limit_in_any_rolling_hour(site: Site, open_paid: Open) -> None:
    """Spec 1.4, issue 5: requests of kinds wait, never fail, and never wait too long."""
    site.answers[LIST] = records(x_ratelimit_limit="100")
    sent: list[tuple[datetime, str]] = []

    async with open_paid() as one, open_paid() as other:
        # One clock, which advances when all active callers wait for it.
        turns = Turns(one.keyring.clock.at)
        for paid in (one, other):
            paid.pay_with(KEY, turns, turns.sleep)

        async def ask(source: str, http: Http, times: int) -> None:
            with turns.taking_part():
                for _ in range(times):
                    response = (await http.get(LIST)).response
                    assert response.status == 200
                    sent.append((turns.at, source))

        asks = [("bills", one, 90), ("hearings", one, 40), ("bills-2", other, 25), ("crs", other, 25)]
        await asyncio.gather(*[ask(name, await paid.http(name), times) for name, paid, times in asks])
    assert len(sent) == 180
    assert most_in_an_hour([at for at, _ in sent]) <= 100
    for names, share in ((("bills",), 35), (("hearings",), 15), (("bills-2", "crs"), 10)):
        assert most_in_an_hour([at for at, source in sent if source in names]) == share
    assert max(at for at, _ in sent) < NOW + 5 * HOUR


class Turns(SetClock):
    """A clock that advances to the next awaited moment as soon as all callers wait."""

    def __init__(self, at: datetime) -> None:
        super().__init__(at)
        self._working = 0
        self._waiting: list[tuple[datetime, asyncio.Event]] = []

    def taking_part(self) -> "Turns":
        return self

    def __enter__(self) -> None:
        self._working += 1

    def __exit__(self, *_: object) -> None:
        self._rest()

    async def sleep(self, seconds: float) -> None:
        waking = asyncio.Event()
        self._waiting.append((self.at + timedelta(seconds=seconds), waking))
        self._rest()
        await waking.wait()

    def _rest(self) -> None:
        self._working -= 1
        if self._working == 0 and self._waiting:
            self.at = min(at for at, _ in self._waiting)
            for _, waking in [waiting for waiting in self._waiting if waiting[0] <= self.at]:
                waking.set()
                self._working += 1
            self._waiting = [waiting for waiting in self._waiting if waiting[0] > self.at]


async def test_a_larger_limit_of_a_host_scales_the_share_of_bills(site: Site, open_paid: Open) -> None:
    """Spec 1.4, issue 5: 5,000 gives bills 1,750; another host's header changes nothing; a restart keeps both."""
    site.answers[LIST] = records(x_ratelimit_limit="5000")
    site.answers[OTHER_LIST] = records(x_ratelimit_limit="2000")
    async with open_paid() as paid:
        await paid.poll("bills", LIST)
        assert (await paid.keyring.shares())["bills"] == 1750
        await paid.poll("hearings", OTHER_LIST)
        assert (await paid.keyring.shares())["bills"] == 1750
    async with open_paid() as paid:
        assert (await paid.keyring.shares())["bills"] == 1750
        assert (await paid.keyring.shares("api2.test"))["bills"] == 700
        assert await paid.spent() == {(HOST, "bills"): 1, ("api2.test", "hearings"): 1}


async def test_a_429_stops_all_sources_until_it_is_over_and_fails_none(site: Site, open_paid: Open) -> None:
    """Spec 1.4: an upstream 429 empties the parent; exhausted = wait, never an exception."""
    site.answers[LIST] = [records(status=429), records("http://news.test/a")]
    async with open_paid() as paid:
        polled = await paid.poll("bills", retry={"base_seconds": 0})
        assert (polled.error, polled.items) == (None, 1)
        assert paid.keyring.clock.at == NOW + HOUR
        assert sum(paid.keyring.sleeps) == HOUR.total_seconds()
    site.answers[LIST] = records(status=429, Retry_After="90")
    async with open_paid() as paid:
        paid.keyring.clock.at = NOW + 3 * HOUR
        assert (await paid.poll("hearings", retry={"base_seconds": 0})).reason is Reason.RATE_LIMITED
        assert await paid.keyring.spend("public_laws", 1) == paid.keyring.clock.at + timedelta(seconds=90)
        assert keys(site, LIST)[2:] == [KEY] * 3


def pay_with_a_wait(paid: PaidHarness) -> tuple[asyncio.Event, asyncio.Event]:
    """Make a wait for a budget set one event and wait for the other. Two hours have passed then."""
    asleep, wake = asyncio.Event(), asyncio.Event()

    async def sleep(_: float) -> None:
        asleep.set()
        await wake.wait()
        paid.keyring.clock.at = NOW + 2 * HOUR

    paid.pay_with(KEY, sleep=sleep)
    return asleep, wake


@asynccontextmanager
async def waiting_poll(
    paid: PaidHarness, **settings: object
) -> AsyncIterator[tuple[asyncio.Event, "asyncio.Task[PollResult]"]]:
    """A poll whose second request waits for its budget, until the event is set."""
    asleep, wake = pay_with_a_wait(paid)
    await paid.harness.runtime.sandbox.run(parse_json, b"[]", returns=object)  # its start is not to count
    polling = asyncio.create_task(paid.poll("bills", LIST, LIST, **settings))
    await asyncio.wait([polling, asyncio.create_task(asleep.wait())], return_when=asyncio.FIRST_COMPLETED)
    assert not polling.done()
    try:
        yield wake, polling
    finally:
        wake.set()
        await asyncio.wait([polling])


async def test_a_request_that_waits_holds_no_lock_no_connection_and_no_host(site: Site, open_paid: Open) -> None:
    """Spec 1.4."""
    site.answers[LIST] = records("http://news.test/a")
    async with open_paid(rate_limits={"bills": 1}) as paid, waiting_poll(paid) as (wake, polling):
        harness = paid.harness
        others = "datname = current_database() AND pid <> pg_backend_pid()"
        assert await count(harness, "pg_stat_activity", f"{others} AND state <> 'idle'") == 0
        await harness.execute("SELECT FROM budgets, poll_state, sources FOR UPDATE NOWAIT")
        assert "host_state" not in await held_leases(harness)
        wake.set()
        assert (await polling).error is None
    assert site.visits(LIST) == 2


async def test_a_request_that_waits_does_not_keep_others_of_its_run_from_going(site: Site, open_paid: Open) -> None:
    """Spec 1.3, 1.4: it is not in flight."""
    site.answers[LIST] = site.answers[OTHER_LIST] = records()
    async with open_paid(rate_limits={"bills": 1}) as paid:
        http = await paid.http("bills", concurrency=1)
        asleep, wake = pay_with_a_wait(paid)
        await http.get(LIST)
        waiting = asyncio.create_task(http.get(LIST))
        await asleep.wait()
        await http.get(OTHER_LIST)
        assert not waiting.done()
        wake.set()
        await waiting


async def test_a_poll_keeps_its_lease_and_uses_up_no_deadline_while_it_waits(site: Site, open_paid: Open) -> None:
    """Spec 1.4: the wait may be an hour, many times the lease and all of the deadline."""
    site.answers[LIST] = records("http://news.test/a")
    lease = "SELECT lease_token, lease_until FROM poll_state"
    async with (
        open_paid(rate_limits={"bills": 1}, lease_seconds=0.3) as paid,
        waiting_poll(paid, deadline=2) as (wake, polling),
    ):
        ((token, ends_at),) = await paid.harness.rows(lease)
        over = time.monotonic() + 2.2

        async def has_gone_on() -> bool:
            ((held, later),) = await paid.harness.rows(lease)
            assert held == token
            return bool(later > ends_at + timedelta(seconds=0.3) and time.monotonic() > over)

        await until(has_gone_on)
        wake.set()
        polled = await polling
        assert (polled.error, polled.items) == (None, 1)


async def test_a_poll_that_waits_for_its_budget_frees_its_slot(site: Site, open_paid: Open) -> None:
    """Spec 1.4: another poll has the only slot meanwhile."""
    site.answers[LIST] = records("http://news.test/a")
    site.answers["http://news.test/feed"] = rss("http://news.test/b")
    one_at_a_time = {"poll_concurrency": 1, "poll_check_seconds": 0.05, "rate_limits": {"bills": 1}}
    async with open_paid(**one_at_a_time) as paid:
        await paid.harness.operations.sources.add("http://news.test/feed", "news")
        await paid.harness.operations.sources.create("bills", "ledger", {"lists": [LIST, LIST]})
        asleep = asyncio.Event()

        async def sleep(_: float) -> None:
            asleep.set()
            await asyncio.Event().wait()

        paid.pay_with(KEY, sleep=sleep)
        stop = asyncio.Event()
        working = asyncio.create_task(run_roles([PollerRole(paid.harness.runtime)], stop))
        await asleep.wait()
        polls = site.visits("http://news.test/feed")
        await make_polls_due(paid.harness)

        async def is_polled() -> bool:
            return site.visits("http://news.test/feed") > polls

        try:
            await until(is_polled)
        finally:
            stop.set()
            await working


async def test_a_deadline_that_ends_after_a_wait_fails_the_run_and_loses_nothing(site: Site, open_paid: Open) -> None:
    """Spec 1.1, 1.4."""
    site.answers[LIST] = records("http://news.test/a")
    async with open_paid(rate_limits={"bills": 1}) as paid, waiting_poll(paid, deadline=2) as (wake, polling):
        site.hanging.add(LIST)
        wake.set()
        polled = await polling
        assert polled.reason is Reason.TIMEOUT
        assert "2 seconds" in (polled.error or "")
        assert await count(paid.harness, "items") == 0
        assert await poll_memory(paid.harness) == {}
        assert await held_leases(paid.harness) == {}


async def test_a_poll_that_is_stopped_while_it_waits_is_given_back(site: Site, open_paid: Open) -> None:
    """Spec 9.3."""
    site.answers[LIST] = records("http://news.test/a")
    async with open_paid(rate_limits={"bills": 1}) as paid:
        async with waiting_poll(paid) as (_, polling):
            polling.cancel()
        assert polling.cancelled()
        main = await paid.harness.method("bills")
        assert (main.consecutive_errors, main.polling) == (0, False)
        assert await count(paid.harness, "poll_state", "attempts = 0") == 1


async def test_without_a_key_a_run_fails_with_a_sentence_and_loses_nothing(site: Site, open_paid: Open) -> None:
    """Spec 1.4."""
    site.answers[LIST] = records("http://news.test/a")
    async with open_paid() as paid:
        await paid.poll("bills")
        paid.pay_with("")
        failed = await paid.harness.operations.sources.sync("bills")
        assert failed.reason is Reason.BAD_SETTING
        assert "HEADWATER_API_DATA_GOV_KEY" in (failed.error or "")
        assert site.visits(LIST) == 1
        assert await poll_memory(paid.harness) == {"read": 1}
        paid.pay_with(KEY)
        assert (await paid.harness.operations.sources.sync("bills")).error is None


PAGES = [f"http://{HOST}/pages/{number}" for number in range(4)]


async def list_pages(site: Site, paid: PaidHarness, *pages: str) -> None:
    """A source whose items are pages of the API, and one that is none."""
    site.answers[LIST] = records(*pages)
    for number, url in enumerate(pages):
        site.answers[url] = Answer(page(f"number {number}"), headers=HTML)
    site.answers[f"http://{HOST}/robots.txt"] = Answer("User-agent: *\nDisallow: /\n")
    await paid.poll("bills")


async def test_pages_on_the_api_are_paid_for_by_their_source_and_put_off_at_no_cost(
    site: Site, open_paid: Open
) -> None:
    """Spec 1.4: a fetch worker re-queues to the refill time at no cost in retries."""
    outside = "http://news.test/page"
    async with open_paid(rate_limits={"bills": 3}, max_retries=0) as paid:
        harness, keyring = paid.harness, paid.keyring
        keyring.clock.at = datetime.now(UTC)
        await list_pages(site, paid, *PAGES, outside)
        assert (await paid.spent())[HOST, "bills"] == 1
        await harness.work(until_attempts=5)
        outcomes = await harness.outcomes()
        assert sorted(outcomes[url] or "" for url in PAGES) == ["", "", "stored", "stored"]
        assert outcomes[outside] == "stored"
        assert keys(site, outside) == [None]
        assert site.visits(f"http://{HOST}/robots.txt") == 0
        assert (await paid.spent())[HOST, "bills"] == 3
        waiting = (await harness.queued()).values()
        assert {place.attempts for place in waiting} == {0}
        assert all(HOUR < place.due_at - keyring.clock.at < HOUR + MINUTE for place in waiting)
        put_off = [one for one in await harness.log() if one.reason is Reason.BUDGET_SPENT]
        assert len(put_off) >= 2
        assert {one.http_status for one in put_off} == {None}

        keyring.clock.at += 2 * HOUR
        await make_due(harness)
        await harness.work()
        assert set((await harness.outcomes()).values()) == {"stored"}
        assert [keys(site, url) for url in PAGES] == [[KEY]] * 4


async def test_a_page_whose_key_is_missing_here_waits_for_it(site: Site, open_paid: Open) -> None:
    """Spec 1.4: another machine may have the key, so the page stays queued."""
    async with open_paid() as paid:
        await list_pages(site, paid, PAGES[0])
        paid.pay_with("")
        await paid.harness.work(until_attempts=1)
        assert await paid.harness.outcomes() == {PAGES[0]: None}
        assert {one.attempts for one in (await paid.harness.queued()).values()} == {0}
        assert site.visits(PAGES[0]) == 0


@pytest.mark.parametrize(
    ("body", "fate"),
    [('{"error": {"code": "API_KEY_INVALID"}}', None), ("This record is not for everybody.", "http_4xx")],
)
async def test_a_page_whose_key_is_refused_waits_for_a_better_one(
    body: str, fate: str | None, site: Site, open_paid: Open
) -> None:
    """Spec 1.4: a refusal of the page itself ends the page."""
    async with open_paid() as paid:
        await list_pages(site, paid, PAGES[0])
        site.answers[PAGES[0]] = Answer(body, status=403, headers={"Content-Type": "application/json"})
        await paid.harness.work(until_attempts=1)
        assert await paid.harness.outcomes() == {PAGES[0]: fate}
        ((reason, _, status),) = await paid.harness.attempts()
        assert (reason, status) == (fate or "bad_setting", 403)
        if fate is None:
            assert {one.attempts for one in (await paid.harness.queued()).values()} == {0}


async def test_a_page_of_the_api_that_leads_elsewhere_leaves_the_key_behind(site: Site, open_paid: Open) -> None:
    """Spec 1.4."""
    async with open_paid() as paid:
        await list_pages(site, paid, PAGES[0])
        site.answers[PAGES[0]] = Answer(status=302, headers={"Location": "http://elsewhere.test/page"})
        site.answers["http://elsewhere.test/page"] = Answer(page("elsewhere"), headers=HTML)
        await paid.harness.work()
        assert await paid.harness.outcomes() == {PAGES[0]: "redirect", "http://elsewhere.test/page": "stored"}
        assert keys(site, "http://elsewhere.test/page") == [None]


async def test_a_request_without_encryption_has_no_key(
    site: Site, open_paid: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 1.4. The sites of this test do not encrypt. test_client.py proves the rule; this test proves its use."""
    async with open_paid() as paid:
        await list_pages(site, paid, PAGES[0])
        monkeypatch.setattr(HttpClient, "is_confidential", lambda _, url: not url.endswith("/plain"))
        for url in (LIST, PAGES[0]):
            site.answers[url] = Answer(status=302, headers={"Location": f"{url}/plain"})
            site.answers[f"{url}/plain"] = records()
        assert (await paid.harness.operations.sources.sync("bills")).error is None
        await paid.harness.work()
        for url in (LIST, PAGES[0]):
            assert keys(site, url)[-1] == KEY
            assert keys(site, f"{url}/plain") == [None]
