"""Typed functions over queries/runs.sql."""

from dataclasses import dataclass
from datetime import datetime

from headwater.model.lease import Lease
from headwater.model.reasons import Reason, ReasonClass
from headwater.model.source import Source
from headwater.store.pool import Connection
from headwater.store.sources import source_of
from headwater.store.sql import query


@dataclass(frozen=True, slots=True)
class Run:
    """A slot that is ours to run until the lease ends."""

    id: int
    lease: Lease


async def take_slot(connection: Connection, source: Source, slot: datetime, lease: Lease, now: datetime) -> Run | None:
    """Take a slot; None when somebody has or had it."""
    row = await connection.fetchrow(query("take_slot"), source.id, slot, now, lease.holder, lease.token, lease.until)
    return Run(row["id"], lease) if row else None


async def renew_run(connection: Connection, run: Run, until: datetime) -> bool:
    """Keep a run's lease until then; False when it is somebody else's by now."""
    return bool(await connection.fetchval(query("renew_run"), run.id, run.lease.token, until))


async def end_run(connection: Connection, run: Run, reason: Reason, item_count: int | None, now: datetime) -> bool:
    """End a run, well or not as its reason says; False when the lease is somebody else's by now."""
    status = "succeeded" if reason.kind is ReasonClass.DONE else "failed"
    return bool(await connection.fetchval(query("end_run"), run.id, run.lease.token, status, reason, item_count, now))


async def give_back_run(connection: Connection, run: Run) -> None:
    """Give a slot back undone, at no cost."""
    await connection.execute(query("give_back_run"), run.id, run.lease.token)


async def returned_slots(connection: Connection) -> list[tuple[Source, datetime]]:
    """List slots that lost their holder and wait to be taken again."""
    return [(source_of(row), row["slot"]) for row in await connection.fetch(query("returned_slots"))]


async def return_expired_runs(connection: Connection, now: datetime) -> int:
    """Take runs back from holders that are late; return how many."""
    return len(await connection.fetch(query("return_expired_runs"), now))
