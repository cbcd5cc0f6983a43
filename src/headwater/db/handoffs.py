"""Typed functions over queries/handoffs.sql. Without the table, which can be rolled back alone, they raise an error."""

import contextlib
import functools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ParamSpec, TypeVar
from uuid import UUID

import asyncpg

from headwater.core.errors import HandoffsMissing
from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.db.jobs import ItemPayload, JobStatus, RunItemFilter
from headwater.db.pool import Connection
from headwater.db.sources import find_source_id
from headwater.db.sql import query, to_columns, to_record

P = ParamSpec("P")
T = TypeVar("T")


class HandoffStatus(StrEnum):
    """The status of a hand-off."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


@record
class Handoff(ItemPayload):
    """A hand-off brings one payload of an item to a job."""

    handoff_id: int
    status: HandoffStatus
    reason_code: Reason
    """A code from the closed list of reasons."""
    error: str | None
    attempts: int
    job_id: int | None
    job_status: JobStatus | None
    job_reason: Reason | None
    created_at: datetime
    updated_at: datetime


@record
class HandoffFilter(RunItemFilter):
    """The hand-offs to list; None permits any value."""

    handoff_id: int | None = None


@dataclass(frozen=True, slots=True)
class ClaimedHandoff:
    """A hand-off that this process holds until the lease ends."""

    id: int
    reference_id: str
    payload_hash: str
    attempts: int
    scrape_run_id: int | None


@dataclass(frozen=True, slots=True)
class HandoffOutcome:
    """The new status of a hand-off, and its job."""

    id: int
    status: HandoffStatus
    reason: Reason
    job_id: int | None = None


def requires_table(work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Raise HandoffsMissing if the table of hand-offs does not exist."""

    @functools.wraps(work)
    async def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await work(*args, **kwargs)
        except asyncpg.UndefinedTableError:
            raise HandoffsMissing from None

    return checked


@requires_table
async def queue_handoffs(
    connection: Connection, source_id: int, run_id: int, payloads: Mapping[str, str]
) -> tuple[int, ...]:
    """Queue the payload hashes of items, given by item; return the ids of the hand-offs."""
    rows = await connection.fetch(query("queue_handoffs"), list(payloads), list(payloads.values()), source_id, run_id)
    return tuple(row["handoff_id"] for row in rows)


@requires_table
async def claim_handoffs(
    connection: Connection, ids: Collection[int], lease: Lease, limit: int
) -> list[ClaimedHandoff]:
    """Claim queued hand-offs; each claim counts as an attempt."""
    rows = await connection.fetch(query("claim_handoffs"), list(ids), lease.holder, lease.token, lease.until, limit)
    return [ClaimedHandoff(**row) for row in rows]


@requires_table
async def list_abandoned_ids(connection: Connection, since: datetime, limit: int) -> list[int]:
    """Return the ids of queued hand-offs whose run has handed off nothing since a time."""
    return [row["handoff_id"] for row in await connection.fetch(query("list_abandoned_ids"), since, limit)]


@requires_table
async def count_waiting_handoffs(connection: Connection, limit: int) -> tuple[int, datetime | None]:
    """Count queued hand-offs up to a limit; return also the time of the last change of the oldest."""
    row = await connection.fetchrow(query("count_waiting_handoffs"), limit)
    assert row is not None
    return row["waiting"], row["since"]


@requires_table
async def lock_handoffs(connection: Connection, ids: Collection[int], token: UUID) -> list[ClaimedHandoff]:
    """Return the hand-offs that the token still holds, and lock them until the transaction ends."""
    return [ClaimedHandoff(**row) for row in await connection.fetch(query("lock_handoffs"), list(ids), token)]


@requires_table
async def end_handoffs(
    connection: Connection, outcomes: Sequence[HandoffOutcome], token: UUID, error: str | None = None
) -> list[HandoffOutcome]:
    """Save the outcomes of the hand-offs that the token still holds; return the saved outcomes."""
    if not outcomes:
        return []
    rows = await connection.fetch(query("end_handoffs"), *to_columns(outcomes), token, error)
    saved = {row["handoff_id"] for row in rows}
    return [outcome for outcome in outcomes if outcome.id in saved]


@requires_table
async def return_expired_handoffs(connection: Connection, now: datetime, max_attempts: int) -> int:
    """Take back the hand-offs whose leases have expired; return how many."""
    return len(await connection.fetch(query("return_expired_handoffs"), now, max_attempts))


@requires_table
async def count_overdue_handoffs(connection: Connection, now: datetime) -> int:
    """Count the expired leases that are not yet taken back."""
    value: int = await connection.fetchval(query("count_overdue_handoffs"), now)
    return value


async def count_overdue_leases(connection: Connection, now: datetime) -> int:
    """Count the expired leases of any kind that are not yet taken back."""
    overdue: int = await connection.fetchval(query("count_overdue_leases"), now)
    with contextlib.suppress(HandoffsMissing):
        overdue += await count_overdue_handoffs(connection, now)
    return overdue


@requires_table
async def count_ended_handoffs(connection: Connection, ids: Collection[int]) -> tuple[int, int]:
    """Count the completed and the failed hand-offs."""
    row = await connection.fetchrow(query("count_ended_handoffs"), list(ids))
    assert row is not None
    return row["completed"], row["failed"]


@requires_table
async def requeue_handoffs(connection: Connection, ids: Collection[int]) -> list[int]:
    """Queue failed hand-offs again; return the ids of those that had failed."""
    return [row["handoff_id"] for row in await connection.fetch(query("requeue_handoffs"), list(ids))]


@requires_table
async def list_handoffs(
    connection: Connection, only: HandoffFilter, *, limit: int, offset: int = 0, before: int | None = None
) -> tuple[list[Handoff], int]:
    """List hand-offs, the newest first, and count all that match. Must run inside a transaction."""
    await connection.execute(query("plan_for_values"))
    source = await find_source_id(connection, only.source)
    chosen = source, only.status, only.scrape_run_id, only.handoff_id
    rows = await connection.fetch(query("list_handoffs"), *chosen, before, limit, offset)
    if only.scrape_run_id is None and only.handoff_id is None:
        total = await connection.fetchval(query("count_handoffs"), source, only.status)
    else:
        total = await connection.fetchval(query("count_handoffs_of"), *chosen)
    return [to_record(Handoff, row) for row in rows], total


@requires_table
async def merge_handoff_counts(connection: Connection) -> None:
    """Merge the rows of the counts. Must run inside a transaction."""
    await connection.execute(query("merge_handoff_counts"))
