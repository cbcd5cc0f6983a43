"""Hand-offs and jobs under two processes that die and stall, while pages are fetched and fail (spec 7.2, 7.3)."""

import asyncio
import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.app.maintenance import rescue_expired
from headwater.app.runtime import Runtime
from headwater.core.frontier import Claim, FetchOutcome, UrlStatus
from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import handoffs
from headwater.handoff.handoffs import HandoffRunner, make_jobs, promote_successors
from tests.database_state import DatabaseReader, find_wrong_counters
from tests.frontier import STORED, Frontier
from tests.integration.machines import START, SetClock, run_machine

LEASE = timedelta(seconds=60)
ATTEMPTS = 3
ITEMS = {hashlib.sha256(name.encode()).hexdigest(): f"http://news.test/{name}" for name in "ab"}
PAYLOADS = [letter * 64 for letter in "abc"]
GONE = FetchOutcome(Reason.GONE, UrlStatus.DEAD)

Held = tuple[UUID, list[int]]  # a token, and the hand-offs that it was given


class HandoffMachine(DatabaseReader, RuleBasedStateMachine):
    """Two items, three payloads, two processes that hand off, and one fetcher."""

    def __init__(self, loop: asyncio.AbstractEventLoop, runtime: Runtime, clock: SetClock) -> None:
        super().__init__()
        self.loop, self.runtime, self.clock = loop, runtime, clock
        self.database = runtime.context.database
        clock.now_at = START
        self.listed: dict[str, str] = {}  # the last payload of each item
        self.held: list[Held] = []
        self.lost: list[Held] = []  # of processes that are thought dead
        self.fetching: list[tuple[datetime, Claim]] = []  # with the times of their claims
        self.stored: list[tuple[datetime, int]] = []  # the fetches that stored a page: the time of the claim, the page
        self.run(self.begin())

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    async def begin(self) -> None:
        tables = "sources, url_frontier, items, ingestion_jobs, ingestion_handoffs, host_state, frontier_queue"
        await self.execute(f"TRUNCATE {tables}, changes, job_counts, handoff_counts CASCADE")
        (self.source_id,) = (
            await self.rows("INSERT INTO sources (name, kind, created_at) VALUES ('s', 'site', now()) RETURNING id")
        )[0]
        (self.run_id,) = (
            await self.rows(
                "INSERT INTO runs (source_id, trigger, status, reason, started_at, finished_at) "
                "VALUES ($1, 'sync', 'succeeded', 'polled', now(), now()) RETURNING id",
                self.source_id,
            )
        )[0]
        self.frontier = Frontier(self.database, self.source_id)
        await self.frontier.put(*ITEMS.values())
        for item, url in ITEMS.items():
            await self.execute(
                "INSERT INTO items (id, source_id, url, url_id, title, published_at, published_is_sighting, "
                "first_seen_at, last_seen_at) SELECT $1, $2, url, id, url, $4, false, $4, $4 FROM url_frontier "
                "WHERE url = $3",
                item,
                self.source_id,
                url,
                START,
            )

    @rule(item=st.sampled_from(sorted(ITEMS)), payload=st.sampled_from(PAYLOADS))
    def a_run_lists_a_payload(self, item: str, payload: str) -> None:
        self.listed[item] = payload
        self.run(self.with_connection(handoffs.queue_handoffs, self.source_id, self.run_id, {item: payload}))

    @rule(limit=st.integers(1, 4))
    def a_process_claims(self, limit: int) -> None:
        queued = [row[0] for row in self.run(self.rows("SELECT handoff_id FROM ingestion_handoffs"))]
        lease = Lease("process", uuid4(), self.clock.now() + LEASE, 1)
        claimed = self.run(self.with_connection(handoffs.claim_handoffs, queued, lease, limit))
        if claimed:
            self.held.append((lease.token, [one.id for one in claimed]))

    @rule(item=st.sampled_from(sorted(ITEMS)), payload=st.sampled_from(PAYLOADS))
    def a_run_hands_off_at_once(self, item: str, payload: str) -> None:
        self.a_run_lists_a_payload(item, payload)
        self.a_process_claims(limit=9)
        while self.held:
            self.run(self.make(self.held.pop(0)))

    @precondition(lambda self: self.held)
    @rule()
    def a_process_makes_jobs(self) -> None:
        self.run(self.make(self.held.pop(0)))

    @precondition(lambda self: self.held)
    @rule()
    def a_process_is_thought_dead(self) -> None:
        self.lost.append(self.held.pop(0))

    @precondition(lambda self: self.lost)
    @rule()
    def a_process_that_was_thought_dead_makes_jobs(self) -> None:
        self.run(self.make(self.lost.pop(0)))

    async def make(self, held: Held) -> None:
        """Make jobs. A process that lost its lease changes nothing."""
        token, ids = held
        self.clock.now_at += timedelta(seconds=1)
        owned = await self.rows("SELECT handoff_id FROM ingestion_handoffs WHERE lease_token = $1", token)
        before = await self.rows("SELECT count(*) FROM ingestion_jobs")
        ended = await self.database.transact(make_jobs, ids, token, self.clock.now())
        assert {outcome.id for outcome in ended} == {row[0] for row in owned}
        if not owned:
            assert await self.rows("SELECT count(*) FROM ingestion_jobs") == before

    @rule(late=st.sampled_from([timedelta(0), LEASE]))
    def expired_leases_are_taken_back(self, late: timedelta) -> None:
        self.clock.now_at += late
        self.run(rescue_expired(self.runtime.context))

    @rule()
    def the_fetcher_claims_pages(self) -> None:
        self.frontier.now = self.clock.now_at = self.clock.now_at + timedelta(seconds=5)
        self.fetching += [(self.clock.now(), claimed) for claimed in self.run(self.frontier.take())]

    @precondition(lambda self: self.fetching)
    @rule(outcome=st.sampled_from([STORED, STORED, GONE]))
    def a_page_ends(self, outcome: FetchOutcome) -> None:
        self.frontier.now = self.clock.now()
        claimed_at, claimed = self.fetching.pop(0)
        if self.run(self.frontier.end(claimed, outcome)) and outcome is STORED:
            self.stored.append((claimed_at, claimed.url_id))

    @rule(item=st.sampled_from(sorted(ITEMS)), payload=st.sampled_from(PAYLOADS))
    def a_payload_is_handed_off_during_a_fetch(self, item: str, payload: str) -> None:
        self.the_fetcher_claims_pages()
        self.a_run_hands_off_at_once(item, payload)
        while self.fetching:
            self.a_page_ends(STORED)

    @rule()
    def successors_are_promoted(self) -> None:
        self.run(promote_successors(self.database, self.clock.now()))

    @invariant()
    def a_payload_has_a_second_job_only_after_a_failure(self) -> None:
        jobs = self.run(
            self.rows(
                "SELECT array_agg(status ORDER BY job_id) FROM ingestion_jobs GROUP BY reference_id, payload_hash"
            )
        )
        assert all(status == "failed" for (statuses,) in jobs for status in statuses[:-1]), jobs

    @invariant()
    def no_job_waits_for_a_page_that_has_ended(self) -> None:
        stuck = self.run(
            self.rows(
                "SELECT j.job_id FROM ingestion_jobs j JOIN url_frontier u ON u.id = j.url_id "
                "WHERE j.status = 'queued' AND NOT j.is_successor AND u.status <> 'pending'"
            )
        )
        assert stuck == []

    @invariant()
    def a_changed_payload_is_ready_only_after_a_fetch_that_began_later(self) -> None:
        ready = self.run(
            self.rows(
                "SELECT created_at, url_id FROM (SELECT *, lag(payload_hash) OVER (PARTITION BY reference_id ORDER BY "
                "job_id) AS before FROM ingestion_jobs) AS j WHERE status = 'ready' AND before <> payload_hash"
            )
        )
        for created_at, page in ready:
            assert any(at > created_at and page == fetched for at, fetched in self.stored)

    @invariant()
    def a_completed_hand_off_has_a_job(self) -> None:
        query = "SELECT handoff_id FROM ingestion_handoffs WHERE status = 'completed' AND job_id IS NULL"
        assert self.run(self.rows(query)) == []

    @invariant()
    def the_counters_equal_a_recount(self) -> None:
        assert self.run(find_wrong_counters(self, "job_counts", "handoff_counts")) == []

    async def with_connection(self, work: Callable[..., Any], *arguments: object) -> Any:
        async with self.database.connection() as connection:
            return await work(connection, *arguments)

    def teardown(self) -> None:
        self.run(self.end())

    async def end(self) -> None:
        """The dead do not return. All hand-offs run, and all pages are stored."""
        self.clock.now_at += 2 * LEASE
        await rescue_expired(self.runtime.context)
        queued = await self.rows("SELECT handoff_id FROM ingestion_handoffs WHERE status = 'queued'")
        await HandoffRunner(self.runtime.context).execute([handoff_id for (handoff_id,) in queued])
        for _ in range(4):
            self.frontier.now = self.clock.now_at = self.clock.now_at + timedelta(hours=1)
            await promote_successors(self.database, self.clock.now())
            for claimed in await self.frontier.take():
                await self.frontier.end(claimed, STORED)
        left = await self.rows("SELECT status FROM ingestion_handoffs WHERE status NOT IN ('completed', 'failed')")
        assert left == []
        assert await self.rows("SELECT job_id FROM ingestion_jobs WHERE status = 'queued'") == []
        given_up = "SELECT attempts FROM ingestion_handoffs WHERE status = 'failed'"
        assert all(attempts >= ATTEMPTS for (attempts,) in await self.rows(given_up))
        handed = await self.rows("SELECT reference_id, payload_hash FROM ingestion_handoffs")
        assert set(self.listed.items()) <= set(handed)


def test_each_payload_becomes_one_job_that_ends_with_its_page(make_settings: Callable[..., Settings]) -> None:
    settings = make_settings(lease_seconds=LEASE.total_seconds(), handoff_attempts=ATTEMPTS)
    run_machine(HandoffMachine, settings, 20, steps=40)
