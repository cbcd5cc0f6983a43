"""The items of stored pages: each stored page of a source is news, however the source found it (spec 11.1)."""

from collections.abc import Collection
from datetime import datetime

from headwater.core.dates import bounds, day_of
from headwater.core.errors import OperatorError
from headwater.core.source import Source
from headwater.core.url_input import explain_unstorable
from headwater.core.urls import uid_of
from headwater.db import canonical, items
from headwater.db.items import ItemDay, PageItem
from headwater.db.pool import Connection
from headwater.sources.registry import category_of, get_kind


async def save_page_items(connection: Connection, url_ids: Collection[int], timezone: str, now: datetime) -> None:
    """Save the items of stored pages that their sources do not list, the links of categories, and the days.

    A page without a document gets no item. Call this at the end of the transaction that stores the pages or records
    their sightings.
    """
    saved = await items.save_page_items(connection, url_ids, now) if url_ids else []
    if not saved:
        return
    links: dict[str, dict[str, str]] = {}
    days: list[ItemDay] = []
    for item in saved:
        zone, category = _read_settings(item.source, timezone)
        if category and explain_unstorable(item.url) is None:
            links.setdefault(category, {})[uid_of(item.url)] = item.url
        days += _list_days(item, zone)
    for category in sorted(links):
        await canonical.note_links(connection, category, links[category], now)
    if days:
        await items.index_items(connection, days)


def _read_settings(source: Source, timezone: str) -> tuple[str, str | None]:
    """Return the time zone and the category of a source. A kind that is not installed has neither of its own."""
    try:
        kind = get_kind(source)
    except OperatorError:
        return timezone, None
    return kind.timezone or timezone, category_of(source, kind)


def _list_days(item: PageItem, timezone: str) -> list[ItemDay]:
    dates = (item.published_at, item.updated_at) if item.dates_are_new else ()
    days = {day_of(moment, timezone) for moment in dates if moment}
    return [ItemDay(item.id, item.source.id, day, *bounds(day, timezone)) for day in sorted(days)]
