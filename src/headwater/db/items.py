"""Typed functions over queries/items.sql and queries/daily.sql."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, NamedTuple

from headwater.core.record import record
from headwater.core.source import Item, Source
from headwater.db.pool import Connection
from headwater.db.sql import query, to_record
from headwater.feeds.results import FeedEntry

TOPICS_OF_ITEMS = 1000  # the newest items of a day, whose topics are counted


@dataclass(frozen=True, slots=True)
class SavedItem:
    """An item as it stands after the save. `dates_are_new`: this pair of dates had not been seen before."""

    id: str
    published_at: datetime
    updated_at: datetime | None
    is_new: bool
    dates_are_new: bool


class PageSighting(NamedTuple):
    """A source that found a stored page and lists no item of it, and the dates of the page."""

    url_id: int
    seen_at: datetime
    published_at: datetime | None
    updated_at: datetime | None
    source: Source


@dataclass(frozen=True, slots=True)
class PageItem:
    """An item of a stored page. `dates_are_new`: this pair of dates was not seen before."""

    id: str
    url: str
    source_id: int
    published_at: datetime
    updated_at: datetime | None
    dates_are_new: bool


class ItemDay(NamedTuple):
    """A day of an item: its first moment and its end."""

    item_id: str
    source_id: int
    day: date
    start: datetime
    end: datetime


async def save_items(
    connection: Connection, source_id: int, items: Mapping[str, Item], url_ids: Sequence[int | None], now: datetime
) -> list[SavedItem]:
    """Save items, given by id. `url_ids` are their URLs in the frontier, in the same order."""
    rows = await connection.fetch(
        query("save_items"),
        list(items),
        [item.url for item in items.values()],
        url_ids,
        [item.title for item in items.values()],
        [item.published_at for item in items.values()],
        [item.undated for item in items.values()],
        [item.updated_at for item in items.values()],
        [item.rule for item in items.values()],
        [item.tags for item in items.values()],
        [item.raw for item in items.values()],
        [item.is_certain for item in items.values()],
        source_id,
        now,
    )
    saved = [SavedItem(**row) for row in rows]
    if any(item.is_new for item in saved):
        await connection.execute(query("drop_page_items"), [url_id for url_id in url_ids if url_id is not None])
    return saved


async def list_page_sightings(connection: Connection, url_ids: Collection[int]) -> list[PageSighting]:
    """List the sources that found stored pages and list no item of them."""
    return [
        PageSighting(
            row["url_id"],
            row["seen_at"],
            row["published_at"],
            row["updated_at"],
            _source(row),
        )
        for row in await connection.fetch(query("list_page_sightings"), list(url_ids))
    ]


def _source(row: Mapping[str, Any]) -> Source:
    return Source(row["source_id"], row["name"], row["kind"], row["settings"], row["enabled"], row["created_at"])


async def save_page_items(
    connection: Connection, sightings: Collection[PageSighting], changed: Collection[int], now: datetime
) -> list[PageItem]:
    """Make or update the items of stored pages. `changed` are the ids of the pages whose text has changed."""
    url_ids, seen_at, published_at, updated_at, sources = zip(*sightings, strict=True)
    are_changed = [url_id in changed for url_id in url_ids]
    source_ids = [source.id for source in sources]
    rows = await connection.fetch(
        query("save_page_items"), url_ids, source_ids, seen_at, published_at, updated_at, are_changed, now
    )
    return [PageItem(**row) for row in rows]


async def note_changed_pages(
    connection: Connection, url_ids: Collection[int], now: datetime
) -> list[tuple[PageItem, Source]]:
    """Record that pages, given by id, have changed now. Return the items that list them, with their sources."""
    return [
        (PageItem(row["id"], row["url"], row["source_id"], row["published_at"], now, dates_are_new=True), _source(row))
        for row in await connection.fetch(query("note_changed_pages"), list(url_ids), now)
    ]


async def take_page_items(connection: Connection, source_id: int, limit: int) -> dict[str, Item]:
    """Return the items of pages, by id, that no run has handed off yet. They count as handed off then."""
    rows = await connection.fetch(query("take_page_items"), source_id, limit)
    return {row["id"]: Item(row["url"], row["title"]) for row in rows}


async def entries_of_urls(connection: Connection, urls: Mapping[int, int]) -> dict[int, FeedEntry]:
    """Return what was listed of pages, given by id with the source of each, for those that an item led to."""
    rows = await connection.fetch(query("entries_of_urls"), list(urls), list(urls.values()))
    return {
        row["url_id"]: FeedEntry(
            row["url"],
            row["title"],
            row["published_at"],
            row["updated_at"],
            row["summary"] or "",
            author=row["author"],
            image=row["image"],
        )
        for row in rows
    }


async def lock_tags(connection: Connection, ids: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """Return the tags of known items, by id, and lock them until the transaction ends."""
    return {row["id"]: row["tags"] for row in await connection.fetch(query("lock_tags"), list(ids))}


async def move_items(connection: Connection, moved: Mapping[int, int]) -> None:
    """Point the items and the sightings of URLs that have moved, given as old to new, to where their pages are now."""
    if moved:
        await connection.execute(query("move_items"), list(moved), list(moved.values()))
        await connection.execute(query("move_sightings"), list(moved), list(moved.values()))
        await connection.execute(query("drop_page_items"), list(moved.values()))


@record
class ContentFilter:
    """A choice of items or documents. A field that is None matches all of them."""

    source: str | None = None
    category: str | None = None
    """The category of the source, or one above it."""
    topic: str | None = None
    """A topic that the source gives to the item."""
    language: str | None = None
    """The plain code of the document's language, such as `de`."""
    since: datetime | None = None


@record
class DayFilter(ContentFilter):
    """A choice of a day's items."""

    bucket: str | None = None
    organisation: str | None = None
    document_type: str | None = None


@record
class DayItem:
    """An item of a day's index, with the dates that put it there."""

    source: str
    bucket: Literal["NEW", "LATEST"]
    rule: str | None
    """The rule that found the dates, if the source has several."""
    title: str
    url: str
    published_at: datetime | None
    """None: before the day of its update; the date is unknown."""
    published_is_sighting: bool
    """Neither the source nor the page gave a date; this is when the item was first seen."""
    updated_at: datetime | None
    tags: dict[str, Any]
    document_id: int | None


@record
class ItemCount:
    """The NEW and LATEST items of a day that share a source, a category or a topic."""

    name: str
    new: int
    latest: int


@dataclass(frozen=True, slots=True)
class DayFacets:
    """The items of a day by source, by category of the source, and by topic."""

    sources: list[ItemCount]
    categories: list[ItemCount]
    topics: list[ItemCount]


@record
class DayReading:
    """When a source's day was read to its end, and the last run for it."""

    source: str
    read_at: datetime | None
    run_id: int | None
    run_status: str | None
    run_reason: str | None
    run_error: str | None


async def rebuild_days(connection: Connection, source_id: int, days: Mapping[date, tuple[datetime, datetime]]) -> None:
    """Rebuild days of a source's index. `days` maps each day to its first moment and its end."""
    starts, ends = [start for start, _ in days.values()], [end for _, end in days.values()]
    await connection.execute(query("lock_days"), source_id)
    await connection.execute(query("build_days"), source_id, list(days), starts, ends)


async def index_items(connection: Connection, days: Collection[ItemDay]) -> None:
    """Put items into the days of their new observations."""
    for source_id in sorted({day.source_id for day in days}):
        await connection.execute(query("lock_days"), source_id)
    await connection.execute(query("index_items"), *zip(*days, strict=True))


async def finish_day(
    connection: Connection, source_id: int, day: date, read_at: datetime, end: datetime
) -> tuple[int, int]:
    """Save when a day of a source, which ends at `end`, was read to its end; count its NEW and LATEST items."""
    row = await connection.fetchrow(query("finish_day"), source_id, day, read_at, end)
    assert row is not None, "a count always answers"
    return row["new"], row["latest"]


async def last_days_read(connection: Connection, source_id: int, limit: int) -> list[tuple[date, datetime]]:
    """Return the newest days of a source that were read to their ends, newest first, and when."""
    return [(row["day"], row["read_at"]) for row in await connection.fetch(query("last_days_read"), source_id, limit)]


async def find_days_read(connection: Connection, source_id: int, days: Collection[date]) -> list[date]:
    """Return the days, among the given ones, of which a source was read to its end."""
    return [row["day"] for row in await connection.fetch(query("find_days_read"), source_id, list(days))]


async def list_day_readings(connection: Connection, source_ids: Collection[int], day: date) -> list[DayReading]:
    """Return the readings of a day by sources."""
    return [DayReading(**row) for row in await connection.fetch(query("list_day_readings"), list(source_ids), day)]


async def last_day_indexed(connection: Connection, source_id: int | None, until: date) -> date | None:
    """Return the newest day with items in the index, of one source or of all."""
    value: date | None = await connection.fetchval(query("last_day_indexed"), source_id, until)
    return value


class DayPosition(NamedTuple):
    """The place of an item in a day: by source, NEW before LATEST, the latest first."""

    source: str
    bucket: str
    moment: datetime
    item_id: str


async def read_day(
    connection: Connection, day: date, only: DayFilter, limit: int | None = None, after: DayPosition | None = None
) -> tuple[list[DayItem], DayPosition | None]:
    """Return the NEW and LATEST items of a day that follow a position, and the position of the last of a full page.

    Must run inside a transaction.
    """
    await connection.execute(query("plan_for_values"))
    rows = await connection.fetch(
        query("read_day"),
        day,
        *_list_values(only),
        limit,
        *(after or (None, None, None, None)),
    )
    found = [to_record(DayItem, row) for row in rows]
    if not found or len(found) != limit:
        return found, None
    last = found[-1]
    moment = last.updated_at if last.bucket == "LATEST" else last.published_at
    assert moment is not None, "a date puts an item into a day"
    return found, DayPosition(last.source, last.bucket, moment, rows[-1]["item_id"])


async def count_day(connection: Connection, day: date, only: DayFilter, *, most_topics: int) -> DayFacets:
    """Count the items of a day by source and category, and the topics of its newest items, the largest counts first.

    Must run inside a transaction.
    """
    await connection.execute(query("plan_for_values"))
    rows = await connection.fetch(query("count_day"), day, *_list_values(only), most_topics, TOPICS_OF_ITEMS)
    by_facet: dict[str, list[ItemCount]] = {"source": [], "topic": []}
    categories: dict[str, list[ItemCount]] = {}
    for row in rows:
        count = to_record(ItemCount, row)
        by_facet[row["facet"]].append(count)
        if row["category"]:
            categories.setdefault(row["category"], []).append(count)
    summed = [
        ItemCount(name, sum(one.new for one in counts), sum(one.latest for one in counts))
        for name, counts in categories.items()
    ]
    ordered = (sorted(counts, key=_largest_first) for counts in (by_facet["source"], summed, by_facet["topic"]))
    return DayFacets(*ordered)


def _list_values(only: DayFilter) -> tuple[object, ...]:
    """Return the values of a filter in the order of the queries."""
    of_source = only.source, only.bucket, only.organisation, only.document_type
    return (*of_source, only.category, only.topic, only.language, only.since)


def _largest_first(count: ItemCount) -> tuple[int, str]:
    return -(count.new + count.latest), count.name
