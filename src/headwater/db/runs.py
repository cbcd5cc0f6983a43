"""Typed functions over queries/runs.sql."""

from dataclasses import dataclass
from datetime import date, datetime

from headwater.core.lease import Lease
from headwater.core.reasons import Reason, ReasonClass
from headwater.core.record import record
from headwater.core.run import RunCounters, RunStatus, Trigger
from headwater.core.slot_state import PastRun
from headwater.core.source import Method, Source
from headwater.db import sources
from headwater.db.pool import Connection
from headwater.db.sources import PollClaim
from headwater.db.sql import query


@dataclass(frozen=True, slots=True)
class RunClaim:
    """A run that this process holds until the lease ends. `day` is the day it reads, for a source of dated days."""

    id: int
    slot: datetime | None
    day: date | None
    started_at: datetime
    lease: Lease


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that has started, and its claim of the source."""

    run: RunClaim
    claim: PollClaim


@dataclass(frozen=True, slots=True)
class RunEnding:
    """The end of a run. The reason says whether it succeeded."""

    reason: Reason
    error: str | None = None
    counters: RunCounters | None = None
    items: int | None = None
    new: int | None = None
    latest: int | None = None


@record
class RunRecord:
    """One reading of a source for a slot of its schedule or for a user."""

    id: int
    source: str
    trigger: Trigger
    slot: datetime | None
    """The time of its schedule that it is for."""
    day: date | None
    """The day it reads."""
    status: RunStatus
    reason: str | None
    """A code from the closed list of reasons."""
    error: str | None
    items: int | None
    """Items saved."""
    pages: int | None
    """Answers of the source's search."""
    fetched: int | None
    """Records in them."""
    total: int | None
    """The number of records that the source states."""
    new: int | None
    latest: int | None
    started_at: datetime
    finished_at: datetime | None
    seconds: float | None
    attempts: int
    """The number of this run among the runs of its slot."""


@record
class RunFilter:
    """A choice of runs. A field that is None matches all of them."""

    source: str | None = None
    status: RunStatus | None = None
    day: date | None = None
    before: int | None = None
    """Only runs with a lower id."""
    run_id: int | None = None


async def start_run(
    connection: Connection,
    source: Source,
    trigger: Trigger,
    *,
    lease: Lease,
    now: datetime,
    slot: datetime | None = None,
    day: date | None = None,
    method: Method = Method.FEED,
) -> StartedRun | None:
    """Start a run and claim its source. Must run inside a transaction.

    Return None if the source is removed, has a run under way or is polled by another process, or if its slot is done.
    """
    if not await sources.prevent_removal(connection, source.id):
        return None
    run_id = await connection.fetchval(
        query("take_run"), source.id, trigger, slot, day, now, lease.holder, lease.token, lease.until
    )
    if run_id is None:
        return None
    run = RunClaim(run_id, slot, day, now, lease)
    claims = await sources.claim_polls(
        connection, now=now, until=lease.until, holder=lease.holder, limit=1, methods=(method,), name=source.name
    )
    if not claims:
        await drop_run(connection, run)
        return None
    return StartedRun(run, claims[0])


async def renew_run(connection: Connection, run: RunClaim, until: datetime) -> bool:
    """Renew a run's lease. Return False if the lease is lost."""
    return bool(await connection.fetchval(query("renew_run"), run.id, run.lease.token, until))


async def end_run(connection: Connection, run: RunClaim, ending: RunEnding, now: datetime) -> bool:
    """End a run. Return False if its lease is lost."""
    is_done = ending.reason.kind is ReasonClass.DONE
    counters = ending.counters or RunCounters()
    return bool(
        await connection.fetchval(
            query("end_run"),
            run.id,
            run.lease.token,
            RunStatus.SUCCEEDED if is_done else RunStatus.FAILED,
            ending.reason,
            ending.error,
            ending.items,
            *((counters.pages, counters.fetched, counters.total) if run.day else (None, None, None)),
            ending.new,
            ending.latest,
            now,
        )
    )


async def drop_run(connection: Connection, run: RunClaim) -> None:
    """Delete a run that could not start."""
    await connection.execute(query("drop_run"), run.id, run.lease.token)


async def slot_runs(connection: Connection, source_id: int, since: datetime) -> dict[datetime, list[PastRun]]:
    """Return the runs of a source's slots from a time on, by slot."""
    past: dict[datetime, list[PastRun]] = {}
    for row in await connection.fetch(query("slot_runs"), source_id, since):
        reason = Reason.of(row["reason"]) if row["reason"] else None
        past.setdefault(row["slot"], []).append(PastRun(reason, row["finished_at"]))
    return past


async def run_under_way(connection: Connection, source_id: int) -> tuple[int, datetime] | None:
    """Return the id of a source's run under way and the end of its lease, or None."""
    row = await connection.fetchrow(query("run_under_way"), source_id)
    return (row["id"], row["lease_until"]) if row else None


async def list_runs(connection: Connection, only: RunFilter, limit: int = 50) -> list[RunRecord]:
    """List runs, newest first."""
    async with connection.transaction():
        await connection.execute(query("plan_for_values"))
        source = await sources.find_source_id(connection, only.source)
        chosen = source, only.status, only.day, only.before, only.run_id
        rows = await connection.fetch(query("list_runs"), *chosen, limit)
    types = (("trigger", Trigger), ("status", RunStatus))
    return [RunRecord(**row | {name: read(row[name]) for name, read in types}) for row in map(dict, rows)]


async def return_expired_runs(connection: Connection, now: datetime) -> int:
    """End the runs whose leases expired. Return their number."""
    return len(await connection.fetch(query("return_expired_runs"), now))
