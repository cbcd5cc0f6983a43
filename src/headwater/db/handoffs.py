"""Typed functions over queries/handoffs.sql. The table may be taken back alone: each tells when it is not there."""

import functools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any, NamedTuple, ParamSpec, TypeVar
from uuid import UUID

import asyncpg

from headwater.core.errors import HandoffsMissing
from headwater.core.handoff import Handoff, HandoffStatus
from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.db.pool import Connection
from headwater.db.sql import query

P = ParamSpec("P")
T = TypeVar("T")


class HandoffEnding(NamedTuple):
    """What becomes of a hand-off, and the job that it led to."""

    id: int
    status: HandoffStatus
    reason: Reason
    job_id: int | None = None


@dataclass(frozen=True, slots=True)
class HandoffFilter:
    """Which hand-offs; None: any."""

    source: str | None = None
    status: str | None = None
    scrape_run_id: int | None = None
    handoff_id: int | None = None


def _tells_missing(work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    @functools.wraps(work)
    async def telling(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await work(*args, **kwargs)
        except asyncpg.UndefinedTableError:
            raise HandoffsMissing from None

    return telling


@_tells_missing
async def queue_handoffs(
    connection: Connection, source_id: int, run_id: int, payloads: Mapping[str, str]
) -> tuple[int, ...]:
    """Note that a run has touched items, given with their payload hashes; return the ids of their hand-offs."""
    rows = await connection.fetch(query("queue_handoffs"), list(payloads), list(payloads.values()), source_id, run_id)
    return tuple(row["handoff_id"] for row in rows)


@_tells_missing
async def claim_handoffs(connection: Connection, ids: Collection[int], lease: Lease, limit: int) -> list[Handoff]:
    """Take up those of these that are queued; the attempt counts from here on."""
    rows = await connection.fetch(query("claim_handoffs"), list(ids), lease.holder, lease.token, lease.until, limit)
    return [Handoff(**row) for row in rows]


@_tells_missing
async def left_handoffs(connection: Connection, since: datetime, limit: int) -> list[int]:
    """Return queued hand-offs that nobody has been at since then."""
    return [row["handoff_id"] for row in await connection.fetch(query("left_handoffs"), since, limit)]


@_tells_missing
async def waiting_handoffs(connection: Connection, limit: int) -> tuple[int, datetime | None]:
    """Count queued hand-offs, up to a limit, and tell since when the oldest has been left alone."""
    row = await connection.fetchrow(query("waiting_handoffs"), limit)
    assert row is not None
    return row["waiting"], row["since"]


@_tells_missing
async def hold_handoffs(connection: Connection, ids: Collection[int], token: UUID) -> list[Handoff]:
    """Return those that are still their holder's, and lock them until the transaction ends."""
    return [Handoff(**row) for row in await connection.fetch(query("hold_handoffs"), list(ids), token)]


@_tells_missing
async def end_handoffs(
    connection: Connection, endings: Sequence[HandoffEnding], token: UUID, error: str | None = None
) -> list[HandoffEnding]:
    """End hand-offs, or give them back, as far as they are still their holder's; return how those ended."""
    rows = await connection.fetch(
        query("end_handoffs"),
        [ending.id for ending in endings],
        [ending.status for ending in endings],
        [ending.reason for ending in endings],
        [ending.job_id for ending in endings],
        token,
        error,
    )
    theirs = {row["handoff_id"] for row in rows}
    return [ending for ending in endings if ending.id in theirs]


@_tells_missing
async def return_expired_handoffs(connection: Connection, now: datetime, max_attempts: int) -> int:
    """Take hand-offs back from holders that are late; return how many."""
    return len(await connection.fetch(query("return_expired_handoffs"), now, max_attempts))


@_tells_missing
async def overdue_handoffs(connection: Connection, now: datetime) -> int:
    """Count the leases that are past their end and not yet taken back."""
    overdue: int = await connection.fetchval(query("overdue_handoffs"), now)
    return overdue


@_tells_missing
async def count_ends(connection: Connection, ids: Collection[int]) -> tuple[int, int]:
    """Count how many hand-offs are completed and how many have failed."""
    row = await connection.fetchrow(query("count_handoffs_by_end"), list(ids))
    assert row is not None
    return row["completed"], row["failed"]


@_tells_missing
async def requeue_handoffs(connection: Connection, ids: Collection[int]) -> list[int]:
    """Let failed hand-offs begin anew; return which had failed."""
    return [row["handoff_id"] for row in await connection.fetch(query("requeue_handoffs"), list(ids))]


@_tells_missing
async def list_handoffs(
    connection: Connection, only: HandoffFilter, *, limit: int, offset: int = 0
) -> tuple[list[dict[str, Any]], int]:
    """List hand-offs, newest first, and count how many there are in all. In a transaction."""
    await connection.execute(query("plan_anew"))
    rows = await connection.fetch(query("list_handoffs"), *astuple(only), limit, offset)
    return [dict(row) for row in rows], await connection.fetchval(query("count_handoffs"), *astuple(only))
