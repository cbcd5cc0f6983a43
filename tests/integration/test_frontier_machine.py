"""Compares the frontier with a plain model after random changes in random order (spec 2.1-2.4)."""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from headwater.core.errors import OperatorError
from headwater.core.frontier import Candidate, Claim, FetchOutcome, HostRecord, HostRelease, Origin, UrlStatus
from headwater.core.lease import Lease
from headwater.core.politeness import group_key
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import frontier as store
from headwater.db import hosts as store_hosts
from headwater.db import migrate, sources
from headwater.db.hosts import FOREVER
from headwater.db.pool import Connection, Database, open_database
from headwater.fetching.commit import commit
from headwater.fetching.fetcher import FetchResult
from headwater.frontier import hosts as operator
from headwater.frontier import rescue
from headwater.frontier.claim import Finish, claim
from headwater.frontier.submit import submit
from tests.integration.frontier_model import DELAY_MS, LEASE, MAX_ATTEMPTS, Host, Model, Page, Queued

T = TypeVar("T")
START = datetime(2026, 3, 12, 12, 0, tzinfo=UTC)
HOSTS = ("a.test", "x.shared.test", "y.shared.test")
# Of tables as small as these it costs less than to truncate them.
CLEAR = "; ".join(
    f"DELETE FROM {table}" for table in ("fetch_log", "frontier_queue", "url_frontier", "host_state", "frontier_counts")
)
EVERY_HOST = 20  # more than there are hosts and keys
# The suite runs the same examples every time; HEADWATER_TEST_EXAMPLES=3000 runs so many new ones.
SEARCHED = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "0"))

hosts = st.sampled_from(HOSTS)
some_hosts = st.sets(hosts, min_size=1, max_size=2)
priorities = st.sampled_from([1, 5, 5, 10])
pages = st.integers(0, 2)
# Each writes one and the same address another way.
spellings = st.sampled_from(
    ["http://{}/{}", "HTTP://{}:80/{}", "http://{}/{}/", "http://{}/{}?utm_source=x", "http://{}./{}#top"]
)
sightings = st.lists(st.tuples(hosts, pages, priorities, spellings), min_size=1, max_size=6)
waits = st.sampled_from([0, 0, 1, 30]).map(lambda seconds: timedelta(seconds=seconds))
backoffs = st.sampled_from([0, 0, 4000])
reasons_to_wait = st.sampled_from([(Reason.TIMEOUT, True), (Reason.RATE_LIMITED, False)])


def key_of(host: str) -> str:
    return "domain:shared.test" if host.endswith(".shared.test") else host


def release_of(claimed: Claim, not_before: datetime, backoff_ms: int = 0) -> HostRelease:
    return HostRelease(claimed.host.politeness_key, claimed.lease.token, not_before, backoff_ms)


class FrontierMachine(RuleBasedStateMachine):
    """Makes the same changes to both and compares them."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, database: Database, watcher: Connection, source_id: int
    ) -> None:
        super().__init__()
        self.loop, self.database, self.watcher, self.source_id = loop, database, watcher, source_id
        self.url_ids: dict[str, int] = {}
        self.model = Model(key_of, START)
        self.claims: list[Claim] = []  # all claims so far; a claim without its lease is stale
        self.polls: list[tuple[str, UUID]] = []
        self.transact(lambda connection: connection.execute(CLEAR))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def transact(self, work: Callable[[Connection], Any]) -> Any:
        return self.run(self.database.transact(work))

    @property
    def now(self) -> datetime:
        return self.model.now

    @rule(seen=sightings)
    def urls_are_submitted(self, seen: list[tuple[str, int, int, str]]) -> None:
        """Some new, some known, some twice in other words and with other priorities."""
        best: dict[str, tuple[str, int]] = {}
        batch, meant = [], {}
        for host, number, priority, spelling in seen:
            given, url = spelling.format(host, number), f"http://{host}/{number}"
            batch.append(Candidate(given, self.source_id, Origin.FEED, priority))
            meant[given] = url
            best[url] = (host, max(priority, best.get(url, (host, 0))[1]))
        new = self.model.put(best)
        put = self.transact(lambda connection: submit(connection, batch, self.now, key_of))
        assert put.refused == {}
        assert put.new == len(new)
        assert {given: known.url for given, known in put.known.items()} == meant
        assert {known.url for known in put.known.values() if known.is_new} == new

    @rule(limit=st.sampled_from([1, 2, EVERY_HOST, EVERY_HOST]))
    def urls_are_claimed(self, limit: int) -> None:
        allowed = self.model.claimable()
        required = {key for key in allowed if self.model.hosts[key].lease is None}
        claims = self.run(
            claim(self.database, now=self.now, lease=LEASE, holder="me", limit=limit, default_delay_ms=DELAY_MS)
        )
        keys = [claimed.host.politeness_key for claimed in claims]
        assert len(keys) == len(set(keys)) <= limit
        assert set(keys) <= allowed
        assert limit < EVERY_HOST or required <= set(keys)
        for claimed in claims:
            assert claimed.url in self.model.best(claimed.host.politeness_key)
            assert claimed.lease.attempts == self.model.queue[claimed.url].attempts + 1
            assert claimed.priority == self.model.queue[claimed.url].priority
            self.model.take(claimed)
        self.claims += claims

    def some_claim(self, data: st.DataObject, *, held: bool) -> Claim:
        return data.draw(st.sampled_from([one for one in self.claims if self.model.is_held(one) is held]))

    def commit(self, claimed: Claim, ending: FetchOutcome, release: HostRelease, **brought: Any) -> list[Finish]:
        visited = FetchResult(Finish(claimed, ending, release), **brought)
        return self.transact(lambda connection: commit(connection, [visited], self.now, timezone="UTC", key_of=key_of))

    has_held = precondition(lambda self: any(self.model.is_held(claimed) for claimed in self.claims))
    has_stale = precondition(lambda self: not all(self.model.is_held(claimed) for claimed in self.claims))

    @has_held
    @rule(data=st.data(), stored=st.booleans(), wait=waits, backoff_ms=backoffs)
    def a_visit_ends(self, data: st.DataObject, stored: bool, wait: timedelta, backoff_ms: int) -> None:
        claimed = self.some_claim(data, held=True)
        ending = (
            FetchOutcome(Reason.STORED, UrlStatus.FETCHED) if stored else FetchOutcome(Reason.NOT_FOUND, UrlStatus.DEAD)
        )
        release = release_of(claimed, self.now + wait, backoff_ms)
        assert len(self.commit(claimed, ending, release)) == 1
        self.model.end(claimed.url, ending)
        self.model.release(release)

    @has_held
    @rule(data=st.data(), why=reasons_to_wait, due=waits, wait=waits, backoff_ms=backoffs)
    def a_url_goes_back(
        self, data: st.DataObject, why: tuple[Reason, bool], due: timedelta, wait: timedelta, backoff_ms: int
    ) -> None:
        claimed = self.some_claim(data, held=True)
        ending = FetchOutcome(why[0], UrlStatus.PENDING, due_at=self.now + due, is_counted=why[1])
        release = release_of(claimed, self.now + wait, backoff_ms)
        assert len(self.commit(claimed, ending, release)) == 1
        self.model.end(claimed.url, ending)
        self.model.release(release)

    @has_held
    @rule(data=st.data(), number=pages, wait=waits)
    def a_redirect_is_followed_within_the_host(self, data: st.DataObject, number: int, wait: timedelta) -> None:
        claimed = self.some_claim(data, held=True)
        twin = f"http://{claimed.host.host}/{number}"
        if twin in self.model.pages and self.model.pages[twin].visits:
            return  # known as a page of its own: it is not followed
        ending, release = (
            FetchOutcome(Reason.STORED, UrlStatus.FETCHED),
            release_of(claimed, self.now + wait),
        )
        assert len(self.commit(claimed, ending, release, aliases=(twin,))) == 1
        self.model.end(claimed.url, ending)
        self.model.add_alias(claimed.url, twin)
        self.model.release(release)

    @has_held
    @rule(data=st.data(), host=hosts, number=pages, wait=waits)
    def a_redirect_leads_elsewhere(self, data: st.DataObject, host: str, number: int, wait: timedelta) -> None:
        claimed = self.some_claim(data, held=True)
        target = f"http://{host}/{number}"
        ending, release = (
            FetchOutcome(Reason.REDIRECT, UrlStatus.DEAD),
            release_of(claimed, self.now + wait),
        )
        redirect = Candidate(target, self.source_id, Origin.FEED, claimed.priority, hops=1, parent_id=claimed.url_id)
        assert len(self.commit(claimed, ending, release, redirect=redirect)) == 1
        self.model.put({target: (host, claimed.priority)})
        self.model.end(claimed.url, ending)
        self.model.release(release)

    @has_stale
    @rule(data=st.data(), wait=waits, stored=st.booleans())
    def a_stale_visit_ends(self, data: st.DataObject, wait: timedelta, stored: bool) -> None:
        """It changes nothing: the model is left as it is."""
        ending = (
            FetchOutcome(Reason.STORED, UrlStatus.FETCHED)
            if stored
            else FetchOutcome(Reason.TIMEOUT, UrlStatus.PENDING)
        )
        claimed = self.some_claim(data, held=False)
        release = release_of(claimed, self.now + wait, 8000)
        assert self.commit(claimed, ending, release, aliases=("http://a.test/stale",)) == []

    @rule(wait=st.sampled_from([0.5, 1, 1, 30, 61, 100]))
    def time_passes(self, wait: float) -> None:
        self.model.now += timedelta(seconds=wait)

    @rule(only=st.sampled_from(["claims", "holds", None]))
    def what_is_late_is_rescued(self, only: str | None) -> None:
        """In transactions of their own, so that one may come without the other."""
        if only != "holds":
            late = self.model.late_claims()
            assert self.run(rescue.rescue_claims(self.database, self.now, MAX_ATTEMPTS)) == len(late)
            lost = self.model.rescue(late)
            for url, due_at in self.run(self.due_times(lost)).items():
                assert self.now <= due_at <= self.now + timedelta(minutes=len(lost))
                self.model.queue[url].due_at = due_at
        if only != "claims":
            late = self.model.late_hosts()
            assert self.run(rescue.rescue_hosts(self.database, self.now)) == len(late)
            for key in late:
                self.model.hosts[key].lease = None

    async def due_times(self, urls: list[str]) -> dict[str, datetime]:
        """When those are due that were lost more than once: in whatever order, one after the other."""
        rows = await self.watcher.fetch(
            "SELECT url, due_at FROM frontier_queue JOIN url_frontier ON id = url_id WHERE url = ANY ($1)", urls
        )
        assert len({row["due_at"] for row in rows}) == len(urls)
        return {row["url"]: row["due_at"] for row in rows}

    @precondition(lambda self: self.model.pages)
    @rule(data=st.data(), priority=priorities)
    def a_url_is_asked_for_again(self, data: st.DataObject, priority: int) -> None:
        url = data.draw(st.sampled_from(sorted(self.model.pages)))
        ids = [self.url_ids[url]]
        queued = self.transact(lambda connection: store.retry_urls(connection, ids, priority, self.now))
        assert queued == ({self.url_ids[self.model.page(url)]} if self.model.retry(url, priority) else set())

    @rule(host=hosts, lasting=st.sampled_from([timedelta(seconds=20), timedelta(seconds=200), None]))
    def a_host_is_closed(self, host: str, lasting: timedelta | None) -> None:
        until = self.now + lasting if lasting else FOREVER
        self.run(self.database.transact(operator.close_host, host, until, key_of))
        self.model.hosts[self.model.meet(host)].closed_until = until

    @precondition(lambda self: self.model.hosts)
    @rule(data=st.data())
    def a_host_is_opened(self, data: st.DataObject) -> None:
        host = data.draw(st.sampled_from(sorted(self.model.hosts)))
        self.run(self.database.transact(operator.open_host, host, self.now, DELAY_MS))
        self.model.open(host)

    @rule(members=some_hosts)
    def hosts_are_grouped(self, members: set[str]) -> None:
        grouping = operator.group_hosts(self.database, "one", members, key_of)
        self.expect(self.model.group(members, group_key("one")), grouping)

    @rule(members=some_hosts)
    def hosts_are_ungrouped(self, members: set[str]) -> None:
        members &= self.model.hosts.keys()
        self.expect(self.model.ungroup(members), operator.ungroup_hosts(self.database, members, key_of))

    def expect(self, possible: bool, work: Coroutine[Any, Any, None]) -> None:
        if possible:
            return self.run(work)
        with pytest.raises(OperatorError) as refused:
            self.run(work)
        assert refused.value.reason is Reason.HOST_IN_USE
        return None

    @rule(host=hosts)
    def a_poll_wants_a_host(self, host: str) -> None:
        """It leases the host, or makes claims leave the host to it."""
        key = self.model.hosts[self.model.meet(host)]
        possible = self.model.may_be_asked(self.model.key(host))
        lease = Lease("poll", uuid4(), self.now + LEASE, 1)

        async def work(connection: Connection) -> bool:
            known = await store_hosts.get_or_create_host(connection, host, key_of(host))
            ((_, held),) = await store_hosts.lease_hosts(connection, [(host, lease)], self.now, DELAY_MS)
            if held:
                return True
            await store_hosts.reserve_host(connection, known.politeness_key, self.now, timedelta(seconds=2))
            return False

        assert self.transact(work) is possible
        if possible:
            self.polls.append((self.model.key(host), lease.token))
            key.lease, key.reserved_until = (lease.token, lease.until), None
            key.not_before = lease.until + key.longest_pause
        else:
            turn = self.now if key.lease else max(key.not_before, self.now)
            key.reserved_until = turn + timedelta(seconds=2)

    @precondition(lambda self: self.polls)
    @rule(data=st.data(), wait=waits, backoff_ms=backoffs)
    def a_poll_releases_its_host(self, data: st.DataObject, wait: timedelta, backoff_ms: int) -> None:
        """Some polls are late and have lost their lease."""
        key, token = data.draw(st.sampled_from(self.polls))
        release = HostRelease(key, token, self.now + wait, backoff_ms)
        self.transact(lambda connection: store_hosts.release_hosts(connection, [release]))
        self.model.release(release)

    @rule(host=hosts, delay_ms=st.sampled_from([None, 0, 3000]))
    def a_robots_file_is_read(self, host: str, delay_ms: int | None) -> None:
        record = HostRecord(host, self.model.meet(host))

        async def work(connection: Connection) -> int | None:
            await store_hosts.get_or_create_host(connection, host, key_of(host))
            return await store_hosts.save_robots(connection, record, None, delay_ms, self.now)

        self.model.save_crawl_delay(host, delay_ms)
        assert self.transact(work) == self.model.hosts[self.model.key(host)].crawl_delay_ms

    @rule()
    def the_sweeper_finds_nothing(self) -> None:
        assert self.run(rescue.Sweeper(self.database).sweep()) == 0
        self.run(self.database.transact(store.merge_frontier_counts))

    # A rule with more names is chosen more often, because each name has the same chance.
    urls_are_claimed_too, urls_are_claimed_as_well = urls_are_claimed, urls_are_claimed
    a_url_goes_back_too, time_passes_too, urls_are_submitted_too = a_url_goes_back, time_passes, urls_are_submitted

    @invariant()
    def both_say_the_same(self) -> None:
        self.run(self.compare())

    async def compare(self) -> None:
        urls = await self.watcher.fetch(
            "SELECT u.*, t.url AS twin_of FROM url_frontier u LEFT JOIN url_frontier t ON t.id = u.alias_of"
        )
        self.url_ids = {row["url"]: row["id"] for row in urls}
        assert {row["url"]: page_of(row) for row in urls} == self.model.pages
        queue = await self.watcher.fetch(
            "SELECT u.url, q.* FROM frontier_queue q JOIN url_frontier u ON u.id = q.url_id"
        )
        assert {row["url"]: queued_of(row) for row in queue} == self.model.queue
        live = Counter(row["politeness_key"] for row in queue if row["lease_token"] and row["lease_until"] > self.now)
        assert all(leases == 1 for leases in live.values())
        hosts = await self.watcher.fetch("SELECT * FROM host_state")
        assert {row["host"]: host_of(row) for row in hosts} == self.model.hosts
        for row in hosts:
            self.wakes_in_time(row["host"], row["ready_at"])
        tally = await self.watcher.fetch(
            "SELECT status, reason, sum(urls) AS urls, (SELECT count(*) FROM fetch_log) AS attempts "
            "FROM frontier_counts GROUP BY 1, 2"
        )
        assert {(row["status"], row["reason"]): row["urls"] for row in tally if row["urls"]} == self.model.tally()
        assert {row["attempts"] for row in tally} <= {self.model.attempts_logged}

    def wakes_in_time(self, key: str, ready_at: datetime | None) -> None:
        """A host with work is looked at, never before it may be asked, and without delay once it may."""
        host, waiting = self.model.hosts[key], self.model.waiting(key)
        if ready_at is None:
            assert not waiting
            return
        assert ready_at >= host.left_alone_until
        if waiting and host.lease is None:
            assert ready_at <= max(host.left_alone_until, min(row.due_at for row in waiting.values()))


def page_of(row: Any) -> Page:
    return Page(row["host"], row["status"], row["reason"], row["twin_of"], row["fetch_count"])


def queued_of(row: Any) -> Queued:
    return Queued(row["politeness_key"], row["priority"], row["due_at"], row["attempts"], lease_of(row))


def host_of(row: Any) -> Host:
    return Host(
        row["politeness_key"],
        row["not_before"].replace(tzinfo=UTC),  # the driver reads -infinity without a zone
        row["closed_until"],
        row["reserved_until"],
        row["backoff_ms"],
        row["crawl_delay_ms"],
        lease_of(row),
    )


def lease_of(row: Any) -> tuple[UUID, datetime] | None:
    return (row["lease_token"], row["lease_until"]) if row["lease_token"] else None


@contextlib.asynccontextmanager
async def open_frontier(settings: Settings) -> AsyncIterator[tuple[Database, Connection, int]]:
    """A database with a source in it, and a connection to watch it by."""
    async with open_database(settings) as database, database.connection() as watcher:
        await migrate.up(database)
        source = await sources.add_source(watcher, "s", "feed", {}, now=START, due={})
        assert source
        yield database, watcher, source.id


@pytest.mark.timeout(0 if SEARCHED else 120)
def test_the_frontier_does_what_a_plain_model_does(
    make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 2.1-2.4."""
    monkeypatch.setattr(operator, "_PATIENCE_SECONDS", 0)  # no other worker could release a host here
    with asyncio.Runner() as runner:
        opening = open_frontier(make_settings())
        parts = runner.run(opening.__aenter__())
        try:
            run_state_machine_as_test(
                lambda: FrontierMachine(runner.get_loop(), *parts),
                settings=settings(
                    max_examples=SEARCHED or 80,
                    stateful_step_count=60,
                    deadline=None,
                    derandomize=not SEARCHED,
                    phases=Phase if SEARCHED else [Phase.generate],  # making a failure small takes minutes
                ),
            )
        finally:
            runner.run(opening.__aexit__(None, None, None))
