"""Items of a day without a stored page: typed functions over queries/daily.sql."""

from datetime import date, datetime
from enum import StrEnum

from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.db.pool import Connection
from headwater.db.sql import query


@record
class SourceCompleteness:
    """How many items of a day a source lists, and how many of them have their page."""

    source: str
    expected: int
    """The items that the source lists for the day."""
    stored: int
    """Items whose page is stored."""
    waiting: int
    """Items whose page is queued or being fetched."""
    failed: int
    """Items whose page could not be stored."""
    unfetched: int
    """Items without a page to fetch."""


class MissingStatus(StrEnum):
    """Why an item has no stored page."""

    WAITING = "waiting"
    FETCHING = "fetching"
    FAILED = "failed"
    UNFETCHED = "unfetched"  # the item has no page to fetch


@record
class MissingItem:
    """An item of a day whose page is not stored."""

    item_id: str
    source: str
    title: str
    url: str
    status: MissingStatus
    reason: Reason | None
    """How its page ended, or why the last attempt failed. Null: there was none."""
    due_at: datetime | None
    """A waiting page is not fetched before this time."""


async def count_complete(connection: Connection, day: date, source: str | None) -> list[SourceCompleteness]:
    """Count the items of a day by source, those with the most missing pages first. Must run inside a transaction."""
    await connection.execute(query("plan_for_values"))
    return [SourceCompleteness(**row) for row in await connection.fetch(query("count_complete"), day, source)]


async def list_missing(
    connection: Connection, day: date, source: str | None, *, after: tuple[str, str] | None, limit: int
) -> list[MissingItem]:
    """List the items of a day whose page is not stored, by source and id, after a position."""
    rows = await connection.fetch(query("list_missing"), day, source, *(after or (None, None)), limit)
    return [
        MissingItem(
            **{
                **row,
                "status": MissingStatus(row["status"]),
                "reason": Reason.of(row["reason"]) if row["reason"] else None,
            }
        )
        for row in rows
    ]
