"""Typed functions over queries/runs.sql."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from headwater.core.lease import Lease
from headwater.core.reasons import Reason, ReasonClass
from headwater.core.run import RunCounters, Trigger
from headwater.core.slot_state import PastRun
from headwater.core.source import Source
from headwater.db.pool import Connection
from headwater.db.sql import query


@dataclass(frozen=True, slots=True)
class RunClaim:
    """A run that is ours until the lease ends. `day`: the one it reads, where its source is one of dated days."""

    id: int
    slot: datetime | None
    day: date | None
    started_at: datetime
    lease: Lease


@dataclass(frozen=True, slots=True)
class RunEnding:
    """How a run ends: well or not as its reason says."""

    reason: Reason
    error: str | None = None
    counters: RunCounters | None = None
    items: int | None = None
    new: int | None = None
    latest: int | None = None


async def take_run(
    connection: Connection,
    source: Source,
    trigger: Trigger,
    *,
    lease: Lease,
    now: datetime,
    slot: datetime | None = None,
    day: date | None = None,
) -> RunClaim | None:
    """Begin a run; None when the source has one under way, or somebody has or had the slot."""
    run_id = await connection.fetchval(
        query("take_run"), source.id, trigger, slot, day, now, lease.holder, lease.token, lease.until
    )
    return RunClaim(run_id, slot, day, now, lease) if run_id else None


async def renew_run(connection: Connection, run: RunClaim, until: datetime) -> bool:
    """Keep a run's lease until then; False when it has been taken back."""
    return bool(await connection.fetchval(query("renew_run"), run.id, run.lease.token, until))


async def end_run(connection: Connection, run: RunClaim, ending: RunEnding, now: datetime) -> bool:
    """End a run; False when its lease has been taken back."""
    status = "succeeded" if ending.reason.kind is ReasonClass.DONE else "failed"
    counters = ending.counters or RunCounters()
    counted = (counters.pages, counters.fetched, counters.total) if run.day else (None, None, None)
    return bool(
        await connection.fetchval(
            query("end_run"),
            run.id,
            run.lease.token,
            status,
            ending.reason,
            ending.error,
            ending.items,
            *counted,
            ending.new,
            ending.latest,
            now,
        )
    )


async def drop_run(connection: Connection, run: RunClaim) -> None:
    """Forget a run that could not begin just now."""
    await connection.execute(query("drop_run"), run.id, run.lease.token)


async def slot_runs(connection: Connection, source_id: int, since: datetime) -> dict[datetime, list[PastRun]]:
    """Return what became of the slots of a source, from one on."""
    past: dict[datetime, list[PastRun]] = {}
    for row in await connection.fetch(query("slot_runs"), source_id, since):
        reason = Reason.of(row["reason"]) if row["reason"] else None
        past.setdefault(row["slot"], []).append(PastRun(reason, row["finished_at"]))
    return past


async def run_under_way(connection: Connection, source_id: int) -> tuple[int, datetime] | None:
    """Return the run that a source has under way, if any, and when its lease ends."""
    row = await connection.fetchrow(query("run_under_way"), source_id)
    return (row["id"], row["lease_until"]) if row else None


async def list_runs(
    connection: Connection,
    *,
    source: str | None = None,
    status: str | None = None,
    day: date | None = None,
    before: int | None = None,
    run_id: int | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """List runs, newest first."""
    rows = await connection.fetch(query("list_runs"), source, status, day, before, run_id, limit)
    return [dict(row) for row in rows]


async def return_expired_runs(connection: Connection, now: datetime) -> int:
    """Take runs back from holders that are late; return how many."""
    return len(await connection.fetch(query("return_expired_runs"), now))
