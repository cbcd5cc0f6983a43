"""Typed functions over queries/daily.sql."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from headwater.store.pool import Connection
from headwater.store.sql import query


async def rebuild_days(connection: Connection, source_id: int, days: Mapping[date, tuple[datetime, datetime]]) -> None:
    """Build days of a source anew, given with their first moments and their ends. Must run inside a transaction."""
    await connection.execute(query("clear_days"), source_id, list(days))
    await connection.execute(
        query("build_days"),
        source_id,
        list(days),
        [start for start, _ in days.values()],
        [end for _, end in days.values()],
    )


async def read_day(connection: Connection, day: date) -> list[dict[str, Any]]:
    """List what was NEW and what was LATEST on a day, by source."""
    return [dict(row) for row in await connection.fetch(query("read_day"), day)]
