"""Retries: URLs that ended are fetched again only on request (spec 2.2)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from datetime import datetime

from headwater.core.frontier import FrontierStatus, UrlFilter
from headwater.core.record import record
from headwater.db import frontier, hosts
from headwater.db.pool import Connection, Database

SLICE = 1000
PRIORITY = 5


@record
class Retried:
    """The result of a retry by a filter."""

    queued: int
    fetching: int
    """Workers fetch these URLs now, so they stay as they are."""


@record
class RetriedSlice(Retried):
    """The result of one slice of a retry."""

    last: int
    """The id of the slice's last URL."""


async def retry_urls(connection: Connection, url_ids: Collection[int], priority: int, now: datetime) -> set[int]:
    """Queue URLs again. Hosts that were given up get a new chance. Return the ids of the queued URLs."""
    await hosts.revive_hosts(connection, url_ids)
    return await frontier.retry_urls(connection, url_ids, priority, now)


async def retry_all(
    database: Database,
    now: datetime,
    filters: UrlFilter,
    priority: int = PRIORITY,
    after: int = 0,
    *,
    is_allowed: Callable[[Connection], Awaitable[bool]] | None = None,
) -> AsyncIterator[RetriedSlice]:
    """Queue all URLs again that match, from an id on, slice by slice, for as long as `is_allowed` returns True."""
    while True:

        async def work(connection: Connection, after: int = after) -> RetriedSlice | None:
            if is_allowed and not await is_allowed(connection):
                return None
            urls = await frontier.list_urls(connection, filters, now=now, after=after, limit=SLICE)
            if not urls:
                return None
            queued = await retry_urls(connection, [url.id for url in urls], priority, now)
            fetching = sum(url.status is FrontierStatus.FETCHING for url in urls)
            return RetriedSlice(len(queued), fetching, urls[-1].id)

        retried = await database.transact(work)
        if retried is None:
            return
        after = retried.last
        yield retried
