"""Fetch again what ended: only when somebody asks (spec 2.2)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headwater.db import frontier
from headwater.db.pool import Connection, Database

SLICE = 1000
PRIORITY = 5


@dataclass(frozen=True, slots=True)
class Retried:
    """A slice of what was to be fetched again: how many are queued now, how many are being fetched, the last id."""

    queued: int
    fetching: int
    last: int


async def retry_ids(database: Database, url_ids: Collection[int], now: datetime, priority: int = PRIORITY) -> set[int]:
    """Queue URLs again; return those that are queued now. One that is being fetched stays as it is."""
    return await database.transact(lambda connection: frontier.retry_urls(connection, url_ids, priority, now))


async def _always(_: Connection) -> bool:
    return True


async def retry_all(
    database: Database,
    now: datetime,
    filters: dict[str, Any],
    priority: int = PRIORITY,
    after: int = 0,
    *,
    may: Callable[[Connection], Awaitable[bool]] = _always,
) -> AsyncIterator[Retried]:
    """Queue all URLs again that filters choose, from an id on, a slice at a time, for as long as that `may` be done."""
    while True:

        async def work(connection: Connection, after: int = after) -> Retried | None:
            if not await may(connection):
                return None
            rows = await frontier.list_urls(connection, now=now, after=after, limit=SLICE, **filters)
            if not rows:
                return None
            queued = await frontier.retry_urls(connection, [row["id"] for row in rows], priority, now)
            return Retried(len(queued), sum(row["status"] == "fetching" for row in rows), rows[-1]["id"])

        retried = await database.transact(work)
        if retried is None:
            return
        after = retried.last
        yield retried
