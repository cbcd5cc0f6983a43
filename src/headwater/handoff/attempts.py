"""Attempts: hand-offs are taken up in batches, each under a lease; what fails for a passing reason is tried again."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar
from uuid import UUID, uuid4

import structlog

from headwater.core.backoff import doubled
from headwater.core.clock import Clock
from headwater.core.errors import HandoffsMissing, HeadwaterError
from headwater.core.handoff import Handoff, HandoffCounts, HandoffStatus
from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.core.text import clean
from headwater.db import handoffs
from headwater.db.context import DatabaseContext
from headwater.db.handoffs import HandoffEnding
from headwater.db.pool import Connection, Database, is_down, is_passing
from headwater.handoff.jobs import SLICE, make_jobs

log = structlog.get_logger()
_LONGEST_ERROR = 2000
_MOST_LEFT = 10 * SLICE  # taken up at a time
_PATIENCE = timedelta(seconds=10)  # with a database that is away: a restart takes less
_PAUSE_SECONDS = 0.25
T = TypeVar("T")

MakeJobs = Callable[[Connection, Collection[int], UUID, datetime], Awaitable[list[HandoffEnding]]]
Ended = dict[int, HandoffEnding]  # by us, by id


class Handoffs:
    """Hands off what runs have touched."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        holder: str,
        lease: timedelta,
        attempts: int,
        base_seconds: float,
        make: MakeJobs = make_jobs,
        patience: timedelta = _PATIENCE,
    ) -> None:
        self._database = database
        self._clock = clock
        self._holder = holder
        self._lease = lease
        self._attempts = attempts
        self._base_seconds = base_seconds
        self._make = make
        self._patience = patience

    async def execute(self, ids: Collection[int]) -> HandoffCounts | None:
        """Hand off what was queued and count what became of it; None where hand-offs have been taken back meanwhile.

        What cannot be handed off because the database stays away is left queued, for `take_up_left`. What somebody else
        has completed meanwhile had its job already.
        """
        ended: Ended = {}
        by_others = (0, 0)
        try:
            await self._hand_over(ids, ended)
            if others := [handoff_id for handoff_id in ids if handoff_id not in ended]:
                by_others = await self._patiently(lambda connection: handoffs.count_ends(connection, others))
        except HandoffsMissing:
            return None
        except Exception as error:
            if not is_down(error):
                raise
            log.warning("handoff.put_off", items=len(ids) - len(ended), error=str(error))
        return _add_up(len(ids), ended, *by_others)

    async def take_up_left(self) -> int:
        """Hand off what was queued by somebody who is gone; return how many that were."""
        try:
            async with self._database.connection() as connection:
                left = await handoffs.left_handoffs(connection, self._clock.now() - self._longest_pause(), _MOST_LEFT)
            await self._hand_over(left, {})
        except HandoffsMissing:
            return 0
        return len(left)

    async def _hand_over(self, ids: Collection[int], ended: Ended) -> None:
        """Hand off what nobody else does, each until it has ended: a run that queues it again does that itself."""
        rest = iter(ids)
        while part := list(islice(rest, SLICE)):
            while part and (taken := await self._claim(part))[1]:
                await self._attempt(*taken, ended)
                part = [handoff_id for handoff_id in part if handoff_id not in ended]

    async def _claim(self, ids: Collection[int]) -> tuple[Lease, list[Handoff]]:
        lease = Lease(self._holder, uuid4(), self._clock.now() + self._lease, 1)
        claimed = await self._patiently(lambda connection: handoffs.claim_handoffs(connection, ids, lease, SLICE))
        return lease, claimed

    async def _attempt(self, lease: Lease, batch: Sequence[Handoff], ended: Ended) -> None:
        ids = [handoff.id for handoff in batch]
        try:
            made = await self._database.transact(
                lambda connection: self._make(connection, ids, lease.token, self._clock.now())
            )
            ended.update((ending.id, ending) for ending in made)
        except HandoffsMissing:
            raise
        except Exception as error:
            if _is_transient(error):
                await self._put_off(lease, batch, error, ended)
            elif len(batch) > 1:
                for handoff in batch:  # one of them cannot be handed off, and must not keep the others
                    await self._attempt(lease, [handoff], ended)
            else:
                log.exception("handoff.failed", handoff=batch[0].id)
                reason = error.reason if isinstance(error, HeadwaterError) else Reason.INTERNAL
                await self._end(lease, [HandoffEnding(batch[0].id, HandoffStatus.FAILED, reason)], error, ended)

    async def _put_off(self, lease: Lease, batch: Sequence[Handoff], error: Exception, ended: Ended) -> None:
        """Queue a batch again after a passing fault, and wait; what has had its last attempt has failed."""
        reason = error.reason if isinstance(error, HeadwaterError) else Reason.DATABASE_LOST
        again = [handoff for handoff in batch if handoff.attempts < self._attempts]
        over = [handoff for handoff in batch if handoff.attempts >= self._attempts]
        endings = [HandoffEnding(handoff.id, HandoffStatus.QUEUED, reason) for handoff in again]
        endings += [HandoffEnding(handoff.id, HandoffStatus.FAILED, Reason.RETRY_EXHAUSTED) for handoff in over]
        await self._end(lease, endings, error, ended)
        if again:
            await asyncio.sleep(doubled(self._base_seconds, max(handoff.attempts for handoff in again)))

    async def _end(self, lease: Lease, endings: Sequence[HandoffEnding], error: Exception, ended: Ended) -> None:
        told = clean(f"{type(error).__name__}: {error}")[:_LONGEST_ERROR]
        done = await self._patiently(lambda connection: handoffs.end_handoffs(connection, endings, lease.token, told))
        ended.update((ending.id, ending) for ending in done if ending.status is not HandoffStatus.QUEUED)

    async def _patiently(self, statement: Callable[[Connection], Awaitable[T]]) -> T:
        """Do what is no attempt by itself; a database that is away is waited for, and asked again when it is back."""
        give_up = self._clock.now() + self._patience
        while True:
            try:
                return await self._database.run(statement)
            except Exception as error:
                if not is_down(error) or self._clock.now() >= give_up:
                    raise
                log.warning("handoff.waits_for_the_database", error=str(error))
            await self._database.revive()
            await asyncio.sleep(_PAUSE_SECONDS)

    def _longest_pause(self) -> timedelta:
        """For so long one who is alive may leave alone what it hands off."""
        between_attempts = doubled(self._base_seconds, max(1, self._attempts - 1))
        return min(self._lease, 1.5 * self._patience + timedelta(seconds=between_attempts))


def _add_up(touched: int, ended: Ended, completed_by_others: int, failed_by_others: int) -> HandoffCounts:
    made = sum(ending.reason is Reason.INGESTION_JOB_QUEUED for ending in ended.values())
    failed = sum(ending.status is HandoffStatus.FAILED for ending in ended.values())
    skipped = len(ended) - made - failed + completed_by_others
    failed += failed_by_others
    return HandoffCounts(touched - made - failed - skipped, made, failed, skipped)


def _is_transient(error: Exception) -> bool:
    return error.retryable if isinstance(error, HeadwaterError) else is_passing(error)


def make_handoffs(context: DatabaseContext) -> Handoffs:
    """Make the worker that hands off the items of runs."""
    settings = context.settings
    return Handoffs(
        context.database,
        context.clock,
        holder=context.holder,
        lease=timedelta(seconds=settings.lease_seconds),
        attempts=settings.handoff_attempts,
        base_seconds=settings.handoff_base_seconds,
    )
