"""The tables of a source's past: polls, days with their lags, and changed settings. See queries/history.sql."""

from collections.abc import Collection, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple

from headwater.core.reasons import Reason
from headwater.core.text import make_storable
from headwater.db.pool import Connection
from headwater.db.sql import query

STORED = [Reason.STORED, Reason.LINKED, Reason.SCANNED_NO_TEXT]


class PollRow(NamedTuple):
    """A poll that ended."""

    at: datetime
    method: str
    reason: str
    error: str | None
    run_id: int | None
    items: int | None
    new_items: int
    new_urls: int


class DayRow(NamedTuple):
    """A day of a source. Lags are the median and the 95th percentile, in seconds."""

    day: date
    items: int
    polls: int
    failed_polls: int
    seen_lags: list[float] | None
    fetched_lags: list[float] | None
    searchable_lags: list[float] | None
    total_lags: list[float] | None
    measured_at: datetime


async def prune_polls(connection: Connection, before: datetime, limit: int) -> None:
    """Delete polls that ended before a time."""
    await connection.execute(query("prune_polls"), before, limit)


async def list_polls(connection: Connection, source_id: int, limit: int) -> list[PollRow]:
    """List the newest polls of a source, the newest first."""
    return [PollRow(**row) for row in await connection.fetch(query("list_polls"), source_id, limit)]


async def list_source_marks(connection: Connection, source_id: int, limit: int) -> list[tuple[datetime, str]]:
    """List the newest changes of the settings of a source."""
    return [tuple(row) for row in await connection.fetch(query("list_source_marks"), source_id, limit)]


async def get_source_state(connection: Connection, name: str, now: datetime) -> Mapping[str, Any]:
    """Return the parts of a source that change while it works."""
    return dict(await connection.fetchrow(query("get_source_state"), make_storable(name), now) or {})


async def find_unmeasured(connection: Connection, now: datetime, limit: int) -> list[int]:
    """Return the sources to measure next."""
    return [row["id"] for row in await connection.fetch(query("find_unmeasured_sources"), now, limit)]


async def measure_sources(connection: Connection, ids: Collection[int], now: datetime, items: int) -> None:
    """Measure the days since the last measure, and the lags of the newest items."""
    await connection.execute(query("measure_sources"), ids, now, STORED, items)


async def prune_days(connection: Connection, ids: Collection[int], before: date) -> None:
    """Delete days of sources."""
    await connection.execute(query("prune_source_days"), ids, before)


async def list_days(connection: Connection, names: Collection[str], since: date) -> dict[str, list[DayRow]]:
    """Return the days of sources by name, the oldest first."""
    days: dict[str, list[DayRow]] = {}
    for name, *rest in await connection.fetch(query("list_source_days"), list(map(make_storable, names)), since):
        days.setdefault(name, []).append(DayRow(*rest))
    return days
