"""Typed functions over queries/feed_addresses.sql."""

from datetime import datetime
from enum import StrEnum

from headwater.core.record import record
from headwater.db.pool import Connection
from headwater.db.sql import query, to_record


class FeedKind(StrEnum):
    """The subject of a feed."""

    DAY = "day"
    SOURCE = "source"
    CATEGORY = "category"
    SEARCH = "search"
    SAVED = "saved"
    STORY = "story"


@record
class FeedAddress:
    """An address of a feed that needs no token. Only a hash of its secret part is stored."""

    name: str
    kind: FeedKind
    value: str
    """The day, the source, the category, the words, the saved search, or a document of the story."""
    with_text: bool
    """Whether entries have the whole text."""
    created_at: datetime
    last_used_at: datetime | None
    """To about a minute. Null if it was never used."""


async def add_feed_address(
    connection: Connection, name: str, digest: bytes, kind: FeedKind, value: str, now: datetime, *, with_text: bool
) -> FeedAddress | None:
    """Add an address by the hash of its secret part. Return None if its name is taken."""
    row = await connection.fetchrow(query("add_feed_address"), name, digest, kind, value, with_text, now)
    return to_record(FeedAddress, row) if row else None


async def list_feed_addresses(connection: Connection) -> list[FeedAddress]:
    """List addresses by name."""
    return [to_record(FeedAddress, row) for row in await connection.fetch(query("list_feed_addresses"))]


async def remove_feed_address(connection: Connection, name: str) -> bool:
    """Remove an address; return False if there is none."""
    return await connection.fetchval(query("remove_feed_address"), name) is not None


async def find_feed_address(connection: Connection, digest: bytes) -> FeedAddress | None:
    """Return the address whose secret part has a hash."""
    row = await connection.fetchrow(query("find_feed_address"), digest)
    return to_record(FeedAddress, row) if row else None


async def set_feed_address_used(connection: Connection, name: str, now: datetime, not_since: datetime) -> None:
    """Save when an address was used, unless a time after `not_since` is saved."""
    await connection.execute(query("set_feed_address_used"), name, now, not_since)
