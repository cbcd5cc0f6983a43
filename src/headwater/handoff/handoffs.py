"""The hand-off of items to jobs: payload hashes, the decision, and attempts under leases (spec 7.2, 7.3)."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import islice
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID, uuid4

import msgspec
import structlog

from headwater.core.backoff import doubled
from headwater.core.errors import HandoffsMissing, HeadwaterError
from headwater.core.lease import Lease
from headwater.core.poll import HandoffCounts
from headwater.core.reasons import Reason
from headwater.core.source import Item
from headwater.core.text import clean
from headwater.db import frontier, handoffs, items, jobs
from headwater.db.context import DatabaseContext
from headwater.db.handoffs import ClaimedHandoff, HandoffOutcome, HandoffStatus
from headwater.db.jobs import FinalPage, JobStatus, NewJob, PageStatus, PastJob
from headwater.db.pool import AWAY, Connection, Database, is_down, is_passing
from headwater.frontier.retry import PRIORITY

log = structlog.get_logger()
P = ParamSpec("P")
T = TypeVar("T")

# Search engines change these fields by themselves, and fields that begin with an underscore.
VOLATILE = frozenset(
    {"elasticsearch_type", "es_score", "index", "indexed_at", "popularity", "rank", "score", "view_count", "views"}
)
BATCH = 500
_MOST_ABANDONED = 10 * BATCH
_MOST_PAGES = 20 * BATCH  # in one run; the next run takes the rest
_MAX_ERROR_LENGTH = 2000
_PATIENCE = timedelta(seconds=10)  # a database restart takes less
_PAUSE_SECONDS = 0.25
_encode_sorted = msgspec.json.Encoder(order="sorted").encode

MakeJobs = Callable[[Connection, Collection[int], UUID, datetime], Awaitable[list[HandoffOutcome]]]
Outcomes = dict[int, HandoffOutcome]  # by id


def payload_hash(item: Item) -> str:
    """Return the SHA-256 of what the publisher lists for an item, in hex.

    The order of fields and the time zone do not matter. The hash leaves out inferred dates, lookups and volatile
    fields.
    """
    dates = {"published_at": item.published_at if item.is_certain else None, "updated_at": item.updated_at}
    content = {
        "url": item.url,
        "title": item.title,
        "tags": item.tags,
        "raw": drop_volatile(item.raw),
        **{name: moment.astimezone(UTC).isoformat() for name, moment in dates.items() if moment},
    }
    return sha256(_encode_sorted(_drop_nulls(content))).hexdigest()


def drop_volatile(raw: Mapping[str, Any], *, is_whole: bool = True) -> Mapping[str, Any]:
    """Return a raw record without the volatile fields at its top and at the top of its `search` field.

    The same names further down belong to the content.
    """
    kept = {name: value for name, value in raw.items() if name not in VOLATILE and not str(name).startswith("_")}
    if is_whole and isinstance(kept.get("search"), Mapping):
        kept["search"] = drop_volatile(kept["search"], is_whole=False)
    return kept


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _drop_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_drop_nulls(inner) for inner in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class HandoffDecision:
    """The decision on a payload."""

    reason: Reason
    fetches_again: bool = False
    is_successor: bool = False
    """The job waits for the fetch after the one that is under way."""


def decide(payload: str, page: PageStatus, past: Mapping[str, PastJob]) -> HandoffDecision:
    """Decide on a payload, given the newest job of each payload of its item."""
    same = past.get(payload)
    if same and same.status is JobStatus.QUEUED:
        return HandoffDecision(Reason.INGESTION_JOB_ALREADY_ACTIVE)
    if same and same.status is JobStatus.READY:
        return HandoffDecision(Reason.INGESTION_JOB_ALREADY_READY)
    if page is PageStatus.NONE:
        return HandoffDecision(Reason.PAGE_NOT_FETCHED)
    newest = max(past.values(), key=lambda job: job.id, default=None)
    if same and same is newest and page in (PageStatus.DEAD, PageStatus.DELETED):
        return HandoffDecision(Reason.INGESTION_JOB_ALREADY_FAILED)
    has_changed = newest is not None and newest is not same
    return HandoffDecision(
        Reason.INGESTION_JOB_QUEUED,
        fetches_again=has_changed and page in (PageStatus.FETCHED, PageStatus.DEAD),
        is_successor=has_changed and page is PageStatus.FETCHING,
    )


async def queue_handoffs(
    connection: Connection, source_id: int, run_id: int, listed: Mapping[str, Item], *, with_pages: bool
) -> tuple[int, ...] | None:
    """Queue the hand-offs of items, given by id, in the transaction that saves the items.

    With pages, the items of stored pages that no list has follow (spec 11.1), each once. Return the ids of the
    hand-offs, None if their migration is not applied.
    """
    try:
        async with connection.transaction():
            pages = await items.take_page_items(connection, source_id, _MOST_PAGES) if with_pages else {}
            payloads = {item_id: payload_hash(item) for item_id, item in {**pages, **listed}.items()}
            return await handoffs.queue_handoffs(connection, source_id, run_id, payloads)
    except HandoffsMissing:
        return None


async def make_jobs(
    connection: Connection, handoff_ids: Collection[int], token: UUID, now: datetime
) -> list[HandoffOutcome]:
    """Process the hand-offs that the token still leases: add jobs, and queue a page again if its payload changed."""
    ended: list[HandoffOutcome] = []
    locked = await handoffs.lock_handoffs(connection, handoff_ids, token)
    while locked:
        # A batch has one payload of each item: the decision on the second needs the job of the first.
        batch = {handoff.reference_id: handoff for handoff in reversed(locked)}
        locked = [handoff for handoff in locked if batch[handoff.reference_id] is not handoff]
        pages = await jobs.lock_pages(connection, batch)
        # This query must follow the lock: by then, another hand-off of the same item has added its job.
        past = await jobs.find_past_jobs(connection, batch)
        decisions = [
            (handoff, decide(handoff.payload_hash, pages[item_id].status, past.get(item_id, {})))
            for item_id, handoff in batch.items()
        ]
        added = await _add_jobs(connection, decisions, pages, now)
        outcomes = []
        for handoff, decision in decisions:
            known = past.get(handoff.reference_id, {}).get(handoff.payload_hash)
            job_id = added.get(handoff.reference_id, known.id if known else None)
            outcomes.append(HandoffOutcome(handoff.id, HandoffStatus.COMPLETED, decision.reason, job_id))
        ended += await handoffs.end_handoffs(connection, outcomes, token)
    return ended


async def _add_jobs(
    connection: Connection,
    decisions: Sequence[tuple[ClaimedHandoff, HandoffDecision]],
    pages: Mapping[str, FinalPage],
    now: datetime,
) -> dict[str, int]:
    new_jobs: list[NewJob] = []
    page_ids: list[int] = []  # to fetch again
    for handoff, decision in decisions:
        page = pages[handoff.reference_id]
        if decision.reason is not Reason.INGESTION_JOB_QUEUED or page.id is None:
            continue
        if decision.fetches_again:
            page_ids.append(page.id)
        key = (handoff.reference_id, handoff.payload_hash, page.source_id, page.id)
        new_jobs.append(NewJob(*key, handoff.scrape_run_id, decision.is_successor))
    if page_ids:
        await frontier.retry_urls(connection, page_ids, PRIORITY, now)
    return await jobs.add_jobs(connection, new_jobs, now) if new_jobs else {}


async def promote_successors(database: Database, now: datetime) -> int:
    """Queue the pages of one batch of successors whose earlier fetch is over; return how many."""
    return await database.transact(jobs.promote_successors, BATCH, PRIORITY, now)


@dataclass(frozen=True, slots=True)
class HandoffRunner:
    """Hands off the items of runs, in batches under leases. Passing faults are tried again."""

    context: DatabaseContext
    make: MakeJobs = make_jobs
    patience: timedelta = _PATIENCE

    async def execute(self, ids: Collection[int]) -> HandoffCounts | None:
        """Run queued hand-offs and count the results; return None if their migration is not applied.

        If the database stays away, the rest remains queued for `execute_abandoned`. A hand-off that another process has
        completed meanwhile counts as skipped.
        """
        ended: Outcomes = {}
        completed_by_others = failed_by_others = 0
        try:
            await self._run(ids, ended)
            if others := [handoff_id for handoff_id in ids if handoff_id not in ended]:
                count = handoffs.count_ended_handoffs
                completed_by_others, failed_by_others = await self._retry_while_down(count, others)
        except HandoffsMissing:
            return None
        except AWAY as error:
            log.warning("handoff.deferred", items=len(ids) - len(ended), error=str(error))
        made = sum(outcome.reason is Reason.INGESTION_JOB_QUEUED for outcome in ended.values())
        failed = sum(outcome.status is HandoffStatus.FAILED for outcome in ended.values())
        skipped = len(ended) - made - failed + completed_by_others
        failed += failed_by_others
        return HandoffCounts(len(ids) - made - failed - skipped, made, failed, skipped)

    async def execute_abandoned(self) -> int:
        """Run the queued hand-offs of processes that died; return how many."""
        since = self.context.clock.now() - self._longest_pause()
        try:
            abandoned = await self.context.database.run(handoffs.list_abandoned_ids, since, _MOST_ABANDONED)
            await self._run(abandoned, {})
        except HandoffsMissing:
            return 0
        return len(abandoned)

    async def _run(self, ids: Collection[int], ended: Outcomes) -> None:
        """Run each hand-off until it ends, except those that another process claims."""
        rest = iter(ids)
        while batch := list(islice(rest, BATCH)):
            while batch:
                until = self.context.clock.now() + timedelta(seconds=self.context.settings.lease_seconds)
                lease = Lease(self.context.holder, uuid4(), until, 1)
                claimed = await self._retry_while_down(handoffs.claim_handoffs, batch, lease, BATCH)
                if not claimed:
                    break
                await self._attempt(lease, claimed, ended)
                batch = [handoff_id for handoff_id in batch if handoff_id not in ended]

    async def _attempt(self, lease: Lease, batch: Sequence[ClaimedHandoff], ended: Outcomes) -> None:
        ids = [handoff.id for handoff in batch]
        try:
            made = await self.context.database.transact(self.make, ids, lease.token, self.context.clock.now())
            ended.update((outcome.id, outcome) for outcome in made)
        except HandoffsMissing:
            raise
        except Exception as error:
            is_passing_fault = error.retryable if isinstance(error, HeadwaterError) else is_passing(error)
            if is_passing_fault:
                await self._requeue(lease, batch, error, ended)
            elif len(batch) > 1:
                for handoff in batch:  # a hand-off that cannot succeed must not fail the others
                    await self._attempt(lease, [handoff], ended)
            else:
                log.exception("handoff.failed", handoff=batch[0].id)
                reason = error.reason if isinstance(error, HeadwaterError) else Reason.INTERNAL
                await self._end(lease, [HandoffOutcome(batch[0].id, HandoffStatus.FAILED, reason)], error, ended)

    async def _requeue(self, lease: Lease, batch: Sequence[ClaimedHandoff], error: Exception, ended: Outcomes) -> None:
        """Queue a batch again after a passing fault, and wait; a hand-off without attempts left fails."""
        reason = error.reason if isinstance(error, HeadwaterError) else Reason.DATABASE_LOST
        settings = self.context.settings
        again = [handoff for handoff in batch if handoff.attempts < settings.handoff_attempts]
        over = [handoff for handoff in batch if handoff.attempts >= settings.handoff_attempts]
        outcomes = [HandoffOutcome(handoff.id, HandoffStatus.QUEUED, reason) for handoff in again]
        outcomes += [HandoffOutcome(handoff.id, HandoffStatus.FAILED, Reason.RETRY_EXHAUSTED) for handoff in over]
        await self._end(lease, outcomes, error, ended)
        if again:
            await asyncio.sleep(doubled(settings.handoff_base_seconds, max(handoff.attempts for handoff in again)))

    async def _end(self, lease: Lease, outcomes: Sequence[HandoffOutcome], error: Exception, ended: Outcomes) -> None:
        message = clean(f"{type(error).__name__}: {error}")[:_MAX_ERROR_LENGTH]
        saved = await self._retry_while_down(handoffs.end_handoffs, outcomes, lease.token, message)
        ended.update((outcome.id, outcome) for outcome in saved if outcome.status is not HandoffStatus.QUEUED)

    async def _retry_while_down(
        self, statement: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a statement; while the database is down, try again until the patience ends."""
        give_up = self.context.clock.now() + self.patience
        while True:
            try:
                return await self.context.database.run(statement, *args, **kwargs)
            except Exception as error:
                if not is_down(error) or self.context.clock.now() >= give_up:
                    raise
                log.warning("handoff.waits_for_database", error=str(error))
            await self.context.database.revive()
            await asyncio.sleep(_PAUSE_SECONDS)

    def _longest_pause(self) -> timedelta:
        """Return the longest time that a living process leaves its hand-offs untouched."""
        settings = self.context.settings
        between_attempts = doubled(settings.handoff_base_seconds, max(1, settings.handoff_attempts - 1))
        return min(timedelta(seconds=settings.lease_seconds), 1.5 * self.patience + timedelta(seconds=between_attempts))
