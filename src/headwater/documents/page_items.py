"""The items of stored pages: each stored page of a source is news, however the source found it (spec 11.1)."""

from collections.abc import Collection
from datetime import UTC, datetime, time

from headwater.core.dates import bounds, day_of
from headwater.core.errors import OperatorError
from headwater.core.source import Source
from headwater.core.url_input import explain_unstorable
from headwater.core.urls import uid_of
from headwater.db import canonical, items
from headwater.db.items import ItemDay, PageItem
from headwater.db.pool import Connection
from headwater.sources.registry import category_of, get_kind

_MIDNIGHT = time()


async def save_page_items(
    connection: Connection, url_ids: Collection[int], timezone: str, now: datetime, changed: Collection[int] = ()
) -> None:
    """Save the items of stored pages that their sources do not list, the links of categories, and the days.

    A page without a document gets no item. `changed` are the pages whose text has changed. Call this at the end of the
    transaction that stores the pages or records their sightings.
    """
    found = await items.list_page_sightings(connection, url_ids) if url_ids else []
    if not found:
        return
    settings = {source.id: _read_settings(source, timezone) for *_, source in found}
    localized = [
        one._replace(
            published_at=_localize(one.published_at, settings[one.source.id][0], now),
            updated_at=_localize(one.updated_at, settings[one.source.id][0], now),
        )
        for one in found
    ]
    links: dict[str, dict[str, str]] = {}
    days: list[ItemDay] = []
    for item in await items.save_page_items(connection, localized, changed, now):
        zone, category = settings[item.source_id]
        if category and explain_unstorable(item.url) is None:
            links.setdefault(category, {})[uid_of(item.url)] = item.url
        days += _list_days(item, zone)
    for category in sorted(links):
        await canonical.note_links(connection, category, links[category], now)
    if days:
        await items.index_items(connection, days)


async def note_changed_pages(connection: Connection, url_ids: Collection[int], timezone: str, now: datetime) -> None:
    """Make watched pages that have changed LATEST in the days of the sources that list them."""
    noted = await items.note_changed_pages(connection, url_ids, now)
    days = [day for item, source in noted for day in _list_days(item, _read_settings(source, timezone)[0])]
    if days:
        await items.index_items(connection, days)


def _localize(moment: datetime | None, timezone: str, now: datetime) -> datetime | None:
    """Return a date of a page. A day without a time starts at the midnight of the source. The future is no date."""
    if moment is not None and moment.astimezone(UTC).time() == _MIDNIGHT:
        moment, _ = bounds(moment.astimezone(UTC).date(), timezone)
    return moment if moment is None or moment <= now else None


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
    return [ItemDay(item.id, item.source_id, day, *bounds(day, timezone)) for day in sorted(days)]
