"""Typed functions over queries/items.sql."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headwater.core.source import Item
from headwater.db.pool import Connection
from headwater.db.sql import query
from headwater.feeds.results import FeedEntry


@dataclass(frozen=True, slots=True)
class SavedItem:
    """An item as it stands after the save. `dates_are_new`: this pair of dates had not been seen before."""

    id: str
    published_at: datetime
    updated_at: datetime | None
    is_new: bool
    dates_are_new: bool


async def save_items(
    connection: Connection, source_id: int, items: Mapping[str, tuple[Item, int | None]], now: datetime
) -> list[SavedItem]:
    """Save items, given by id, each with its URL's id in the frontier."""
    rows = await connection.fetch(
        query("save_items"),
        list(items),
        [item.url for item, _ in items.values()],
        [url_id for _, url_id in items.values()],
        [item.title for item, _ in items.values()],
        [item.published_at for item, _ in items.values()],
        [item.undated for item, _ in items.values()],
        [item.updated_at for item, _ in items.values()],
        [item.rule for item, _ in items.values()],
        [item.tags for item, _ in items.values()],
        [item.raw for item, _ in items.values()],
        [item.is_certain for item, _ in items.values()],
        source_id,
        now,
    )
    return [SavedItem(**row) for row in rows]


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
    """Return the tags of items that are known, by id; nobody else changes them before the transaction ends."""
    return {row["id"]: row["tags"] for row in await connection.fetch(query("lock_tags"), list(ids))}


async def move_items(connection: Connection, moved: Mapping[int, int]) -> None:
    """Point the items of URLs that have moved, given as old to new, to where their pages are now."""
    await connection.execute(query("move_items"), list(moved), list(moved.values()))
