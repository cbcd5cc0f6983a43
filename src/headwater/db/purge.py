"""Deletes sources with all that belongs to them: typed functions over queries/purge.sql."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg

from headwater.db.pool import Connection
from headwater.db.sql import query


class PurgedSource(NamedTuple):
    """A source whose purge has not ended."""

    id: int
    name: str


class PurgeExtent(NamedTuple):
    """The number of items and URLs to delete."""

    items: int
    urls: int


class PurgedUrl(NamedTuple):
    """A URL of a purged source. If another source lists it, that source gets it."""

    id: int
    url: str
    host: str
    raw_path: str | None
    owner_id: int | None
    owner_name: str | None


async def begin_purge(connection: Connection, source_id: int, now: datetime) -> None:
    """Remove a locked source, and mark it so that maintenance purges it."""
    await connection.execute(query("begin_purge"), source_id, now)


async def find_purge(connection: Connection, after: int = 0) -> PurgedSource | None:
    """Return the next source whose purge has not ended, by id."""
    row = await connection.fetchrow(query("next_purge"), after)
    return PurgedSource(**row) if row else None


async def find_name_in_purge(connection: Connection, names: Collection[str]) -> str | None:
    """Return one of these names that a source has whose purge has not ended."""
    value: str | None = await connection.fetchval(query("is_in_purge"), list(names))
    return value


async def count_purge(connection: Connection, source_id: int) -> PurgeExtent:
    """Count the items and URLs of a source."""
    row = await connection.fetchrow(query("count_purge"), source_id)
    assert row is not None
    return PurgeExtent(**row)


async def purge_handoffs(connection: Connection, source_id: int, limit: int) -> int:
    """Delete hand-offs of a source. Return their number. There are none without their migration."""
    try:
        async with connection.transaction():
            return _count(await connection.execute(query("purge_handoffs"), source_id, limit))
    except asyncpg.UndefinedTableError:
        return 0


async def purge_jobs(connection: Connection, source_id: int, limit: int) -> int:
    """Delete jobs of a source. Return their number."""
    return _count(await connection.execute(query("purge_jobs"), source_id, limit))


async def purge_items(connection: Connection, source_id: int, limit: int) -> int:
    """Delete items of a source, with their observations and days. Return their number."""
    return _count(await connection.execute(query("purge_items"), source_id, limit))


async def purge_sightings(connection: Connection, source_id: int, limit: int) -> int:
    """Delete sightings of a source. Return their number."""
    return _count(await connection.execute(query("purge_sightings"), source_id, limit))


async def list_url_ids(connection: Connection, source_id: int, after: int, limit: int) -> list[int]:
    """Return a page of the ids of the URLs of a source."""
    return [row["id"] for row in await connection.fetch(query("url_ids_to_purge"), source_id, after, limit)]


async def read_urls(connection: Connection, source_id: int, locked: Collection[int]) -> list[PurgedUrl]:
    """Return those locked URLs that belong to a source. Their documents and owners do not change meanwhile."""
    return [PurgedUrl(**row) for row in await connection.fetch(query("urls_to_purge"), source_id, list(locked))]


async def hand_over(connection: Connection, urls: Sequence[PurgedUrl], paths: Sequence[str | None]) -> None:
    """Give locked URLs and their documents to their other sources. Each raw file must be at its new path too."""
    ids, owners = [url.id for url in urls], [url.owner_id for url in urls]
    await connection.execute(query("hand_over_urls"), ids, owners)
    await connection.execute(query("hand_over_documents"), ids, owners, paths)


async def purge_urls(connection: Connection, url_ids: Collection[int], source_id: int) -> int:
    """Delete those ended URLs of a source that are free of documents and raw files. Return their number."""
    locked = [row["id"] for row in await connection.fetch(query("lock_purged_urls"), list(url_ids), source_id)]
    unused = [row["id"] for row in await connection.fetch(query("unused_urls"), locked)]
    await connection.execute(query("unlink_urls"), unused)
    await connection.execute(query("purge_urls"), unused)
    return len(unused)


async def purge_source(connection: Connection, source_id: int) -> bool:
    """Delete a source if it has no rows left. Return whether it was deleted."""
    return bool(await connection.fetchval(query("purge_source"), source_id))


async def has_source(connection: Connection, source_id: int) -> bool:
    """Return whether there is a source with an id."""
    value: bool = await connection.fetchval(query("has_source"), source_id)
    return value


def _count(status: str) -> int:
    return int(status.removeprefix("DELETE "))
