"""Fetch again what ended: only when somebody asks (spec 2.2)."""

from collections.abc import AsyncIterator, Collection
from datetime import datetime
from typing import Any

from headwater.store import frontier
from headwater.store.pool import Connection, Database

SLICE = 1000
PRIORITY = 5


async def retry_ids(database: Database, url_ids: Collection[int], now: datetime, priority: int = PRIORITY) -> set[int]:
    """Queue URLs again; return those that are queued now. One that is being fetched stays as it is."""
    return await database.transact(lambda connection: frontier.retry_urls(connection, url_ids, priority, now))


async def retry_all(
    database: Database, now: datetime, filters: dict[str, Any], priority: int = PRIORITY
) -> AsyncIterator[int]:
    """Queue all URLs again that filters choose, a slice at a time; yield how many each slice had."""
    after = 0
    while True:

        async def work(connection: Connection, after: int = after) -> list[int]:
            rows = await frontier.list_urls(connection, now=now, after=after, limit=SLICE, **filters)
            ids = [row["id"] for row in rows]
            await frontier.retry_urls(connection, ids, priority, now)
            return ids

        ids = await database.transact(work)
        if not ids:
            return
        after = ids[-1]
        yield len(ids)
