"""The permits of sources: queries/permits.sql as typed functions."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from headwater.db.pool import Connection
from headwater.db.sql import query


class Permit(NamedTuple):
    """A permit for one page or one list request of a source. It is free again at `until`, also if its process died."""

    source_id: int
    token: UUID
    until: datetime


async def take_permits(connection: Connection, wanted: Collection[Permit], now: datetime) -> set[UUID]:
    """Take permits. Return the tokens of those that were free."""
    rows = await connection.fetch(query("take_permits"), *zip(*wanted, strict=True), now)
    return {row["token"] for row in rows}


async def free_permits(connection: Connection, permits: Collection[Permit]) -> None:
    """Free permits after their requests."""
    source_ids, tokens, _ = zip(*permits, strict=True)
    await connection.execute(query("free_permits"), source_ids, tokens)
