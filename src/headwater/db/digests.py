"""Typed functions over queries/digests.sql."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headwater.core.record import record
from headwater.db.changes import MOST_PENDING, Event, Receiver
from headwater.db.messages import Digest
from headwater.db.pool import Connection
from headwater.db.sql import query, to_record

_LEAD = 300  # characters


@record
class DeliveryTimes:
    """When a channel gets messages."""

    daily_at: int | None = None
    """The hour of the daily digest, from 0 to 23. By default digests are sent at once."""
    timezone: str | None = None
    """The time zone of the hours. By default that of the settings."""
    quiet_from: int | None = None
    """From this hour to the hour `quiet_to` nothing is sent."""
    quiet_to: int | None = None


@dataclass(frozen=True, slots=True)
class DueDigest:
    """A channel whose digest is due."""

    id: int
    digest_hour: int | None
    timezone: str
    search: str
    words: str
    room: int
    """How many more of its deliveries may be pending."""


async def add_channel(
    connection: Connection,
    receiver: Receiver,
    events: Sequence[Event],
    times: DeliveryTimes,
    *,
    search_id: int | None,
    after: int,
    due_at: datetime | None,
    now: datetime,
) -> bool:
    """Add a channel for the changes after a position; return False if its name is taken."""
    added = await connection.fetchval(
        query("add_channel"),
        receiver.name,
        receiver.url,
        receiver.secret,
        receiver.kind,
        list(events),
        search_id,
        after,
        times.daily_at,
        due_at,
        times.timezone,
        times.quiet_from,
        times.quiet_to,
        now,
    )
    return added is not None


async def is_zone_known(connection: Connection, name: str) -> bool:
    """Return whether the database knows a time zone."""
    return bool(await connection.fetchval(query("is_zone_known"), name))


async def list_due_digests(connection: Connection, now: datetime) -> list[DueDigest]:
    """List the channels whose digest is due."""
    return [to_record(DueDigest, row) for row in await connection.fetch(query("list_due_digests"), now, MOST_PENDING)]


async def lock_due_digest(connection: Connection, channel_id: int, now: datetime) -> bool:
    """Lock a channel, and return whether its digest is still due."""
    return await connection.fetchval(query("lock_due_digest"), channel_id, now) is not None


async def waiting_documents(connection: Connection, channel_id: int, limit: int) -> list[dict[str, Any]]:
    """Lock and return documents that wait for a digest, the oldest match first. A deleted one has no title."""
    await connection.execute(query("lock_waiting_documents"), channel_id, limit)
    return [dict(row) for row in await connection.fetch(query("waiting_documents"), channel_id, limit, _LEAD)]


async def count_waiting(connection: Connection, channel_id: int, limit: int) -> int:
    """Count the documents that wait for a digest, up to a limit."""
    value: int = await connection.fetchval(query("count_waiting"), channel_id, limit)
    return value


async def save_digest(connection: Connection, channel_id: int, position: int, digest: Digest, now: datetime) -> None:
    """Queue a digest, whose last document matched at a position."""
    await connection.execute(query("save_digest"), channel_id, position, digest, now)


async def end_waiting(connection: Connection, channel_id: int, document_ids: Collection[int]) -> None:
    """Save that documents wait no longer."""
    await connection.execute(query("end_waiting"), channel_id, list(document_ids))


async def plan_digest(connection: Connection, channel_id: int, due_at: datetime) -> None:
    """Save when the next digest of a channel is due."""
    await connection.execute(query("plan_digest"), channel_id, due_at)
