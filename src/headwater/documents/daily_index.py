"""The daily index (spec 6.2, 6.4): derived from observations, so the same bytes come out of every rebuild."""

from collections.abc import Collection
from datetime import date

from headwater.core.dates import bounds, day_of
from headwater.db import daily
from headwater.db.items import SavedItem
from headwater.db.pool import Connection


def touched_days(items: Collection[SavedItem], timezone: str) -> set[date]:
    """Name the days whose index may change now that these items were seen."""
    moments = [
        moment for item in items if item.dates_are_new for moment in (item.published_at, item.updated_at) if moment
    ]
    return {day_of(moment, timezone) for moment in moments}


async def rebuild(connection: Connection, source_id: int, days: Collection[date], timezone: str) -> None:
    """Build days of a source anew."""
    await daily.rebuild_days(connection, source_id, {day: bounds(day, timezone) for day in sorted(days)})
