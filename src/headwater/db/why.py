"""Everything that is stored about one URL, read as of one moment: typed functions over queries/why.sql."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import asyncpg

from headwater.core.frontier import Origin
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.core.source import Source
from headwater.db.hosts import HostFacts, get_host
from headwater.db.pool import Connection
from headwater.db.sql import query, to_record
from headwater.db.watches import WatchRow, get_watches

MAX_ROWS = 20  # of sightings, fetches, other addresses, hand-offs and jobs, each
MAX_COUNT = 1000  # counts end here


@record
class SourceSighting:
    """A source that has seen the URL. Address and title are those of its item, if it has one."""

    source: str
    url: str
    title: str | None
    first_seen_at: datetime
    last_seen_at: datetime


@record
class FetchAttempt:
    """An attempt to fetch the URL."""

    attempt: int
    holder: str
    sent_at: datetime | None
    finished_at: datetime
    http_status: int | None
    body_bytes: int | None
    elapsed_ms: int | None
    reason: Reason
    detail: str | None


@record
class QueueEntry:
    """The place of a URL that waits or is being fetched."""

    priority: int
    due_at: datetime
    attempts: int
    lease_holder: str | None
    lease_until: datetime | None
    ahead: int
    """How many URLs of its host come first, counted to 1,001 at most."""


@record
class DocumentFacts:
    """The document of the page."""

    id: int
    title: str
    revision: int
    fetched_at: datetime
    canonical_url: str | None
    """The address that the page names as its canonical one."""
    shared_with: int
    """How many other documents have the same text, counted to 1,001 at most."""


@record
class HandoffFacts:
    """A hand-off of an item that lists the URL."""

    handoff_id: int
    source: str
    scrape_run_id: int | None
    status: str
    reason: Reason
    attempts: int
    job_id: int | None
    updated_at: datetime


@record
class JobFacts:
    """A job that waits for the page, or waited for it."""

    job_id: int
    source: str
    status: str
    reason: Reason | None
    created_at: datetime
    settled_at: datetime | None


@record
class UrlFacts:
    """The stored facts of a URL."""

    url: str
    """The normalized address."""
    status: str
    """pending, fetching, fetched or dead."""
    reason: Reason | None
    last_fetched_at: datetime | None
    fetch_count: int
    discovered_at: datetime
    origin: Origin
    came_from: str | None
    """The page that redirected to it, or whose link the spider found."""
    same_as: str | None
    """The address of the same page that is fetched instead."""
    moved_to: str | None
    other_addresses: list[str]
    sightings: list[SourceSighting]
    sightings_total: int
    queued: QueueEntry | None
    fetches: list[FetchAttempt]
    """The last attempts, the oldest of them first."""
    fetches_total: int
    document: DocumentFacts | None
    handoffs: list[HandoffFacts]
    """Newest first. The list is empty if the hand-off migration is not applied."""
    jobs: list[JobFacts]
    """Newest first."""


class StoredUrl(NamedTuple):
    """A URL with its host, its source and its re-fetch policy."""

    facts: UrlFacts
    depth: int
    hops: int
    source: Source
    page_delay_ms: int | None
    host: HostFacts
    watch: WatchRow


async def read_url(connection: Connection, url_hash: bytes, now: datetime) -> StoredUrl | None:
    """Return everything that is stored about a URL, or None if it was never seen."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        row = await connection.fetchrow(query("why_url"), url_hash, now)
        return await _read_rest(connection, row) if row else None


async def trace_document(
    connection: Connection, document_id: int
) -> tuple[list[SourceSighting], int, list[HandoffFacts], list[JobFacts]] | None:
    """Return the sightings of a document with their number, its hand-offs and its jobs; None if it is unknown."""
    row = await connection.fetchrow(query("traced_url"), document_id)
    if row is None:
        return None
    listed = await _find_items(connection, row["url"])
    sightings = await connection.fetch(query("why_sightings"), row["id"], row["url"], MAX_ROWS, listed)
    jobs = await connection.fetch(query("why_jobs"), row["id"], MAX_ROWS, listed)
    handoffs = await _read_handoffs(connection, row["id"], listed)
    return (
        [to_record(SourceSighting, sighting) for sighting in sightings],
        sightings[0]["total"] if sightings else 0,
        [to_record(HandoffFacts, handoff) for handoff in handoffs],
        [to_record(JobFacts, job) for job in jobs],
    )


async def _read_rest(connection: Connection, row: Mapping[str, Any]) -> StoredUrl:
    page_id = row["page_id"] or row["id"]
    host = await get_host(connection, row["host"])
    assert host is not None, "each URL has a host"
    addresses = await connection.fetch(query("why_addresses"), row["id"], MAX_ROWS)
    listed = await _find_items(connection, row["url"])
    sightings = await connection.fetch(query("why_sightings"), row["id"], row["url"], MAX_ROWS, listed)
    fetches = await connection.fetch(query("why_fetches"), row["id"], MAX_ROWS)
    document = await connection.fetchrow(query("why_document"), page_id)
    jobs = await connection.fetch(query("why_jobs"), page_id, MAX_ROWS, listed)
    handoffs = await _read_handoffs(connection, page_id, listed)
    facts = to_record(
        UrlFacts,
        row,
        moved_to=next((address["url"] for address in addresses if not address["is_same_page"]), None),
        other_addresses=[address["url"] for address in addresses if address["is_same_page"]],
        queued=dict(row) if row["due_at"] else None,
        sightings=list(map(dict, sightings)),
        sightings_total=sightings[0]["total"] if sightings else 0,
        fetches=list(map(dict, reversed(fetches))),
        fetches_total=fetches[0]["total"] if fetches else 0,
        document=document and dict(document),
        handoffs=list(map(dict, handoffs)),
        jobs=list(map(dict, jobs)),
    )
    source = Source(
        row["source_id"], row["source_name"], row["kind"], row["settings"], row["enabled"], row["created_at"]
    )
    (watch,) = await get_watches(connection, [page_id])
    return StoredUrl(facts, row["depth"], row["hops"], source, row["page_delay_ms"], host, watch)


async def _find_items(connection: Connection, url: str) -> list[str]:
    return [row["id"] for row in await connection.fetch(query("why_listed"), url)]


async def _read_handoffs(connection: Connection, page_id: int, listed: list[str]) -> list[Any]:
    try:
        async with connection.transaction():
            return await connection.fetch(query("why_handoffs"), page_id, MAX_ROWS, listed)
    except asyncpg.UndefinedTableError:
        return []
