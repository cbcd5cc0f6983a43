"""All that is stored about one URL, read as of one moment: typed functions over queries/why.sql."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import asyncpg

from headwater.core.frontier import Origin
from headwater.core.reasons import Reason
from headwater.core.source import Source
from headwater.db import hosts
from headwater.db.pool import Connection
from headwater.db.sql import query

MOST = 20  # sightings, fetches and other addresses that are returned, of each
COUNTED = 1000  # what there may be more of than anybody wants to know is counted no further


@dataclass(frozen=True, slots=True)
class Sighting:
    """A source that has seen the URL: under this address and title where it lists it as an item."""

    source: str
    url: str
    title: str | None
    first_seen_at: datetime
    last_seen_at: datetime


@dataclass(frozen=True, slots=True)
class Fetch:
    """A row of the fetch log."""

    attempt: int
    holder: str
    sent_at: datetime | None
    finished_at: datetime
    http_status: int | None
    body_bytes: int | None
    elapsed_ms: int | None
    reason: Reason
    detail: str | None


@dataclass(frozen=True, slots=True)
class Queued:
    """Where a pending URL stands; `ahead` counts those that go first of its host."""

    priority: int
    due_at: datetime
    attempts: int
    lease_holder: str | None
    lease_until: datetime | None
    ahead: int


@dataclass(frozen=True, slots=True)
class KeptDocument:
    """What is stored of the page; `shared_with` counts the other documents with the same text.

    `canonical_url` is the address that the page names as its own, which may be another's than it was fetched from.
    """

    id: int
    title: str
    revision: int
    fetched_at: datetime
    canonical_url: str | None
    shared_with: int


@dataclass(frozen=True, slots=True)
class HandedOff:
    """A payload of an item that lists the URL, on its way to a job."""

    handoff_id: int
    source: str
    scrape_run_id: int | None
    status: str
    reason: Reason
    attempts: int
    job_id: int | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """Work that waits for the page, or did."""

    job_id: int
    source: str
    status: str
    reason: Reason | None
    created_at: datetime
    settled_at: datetime | None


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A host, with the turn it waits for."""

    host: str
    politeness_key: str
    not_before: datetime
    crawl_delay_ms: int | None
    backoff_ms: int
    last_throttled_at: datetime | None
    blocked_reason: Reason | None
    closed_until: datetime | None
    robots_txt: str | None
    robots_fetched_at: datetime | None
    lease_holder: str | None


@dataclass(frozen=True, slots=True)
class Known:
    """All of it. `same_as` is the address that the page is kept under, if another."""

    url: str
    status: str
    reason: Reason | None
    origin: Origin
    depth: int
    hops: int
    discovered_at: datetime
    last_fetched_at: datetime | None
    fetch_count: int
    source: Source
    page_delay_ms: int | None
    came_from: str | None
    same_as: str | None
    moved_to: str | None
    other_addresses: tuple[str, ...]
    queued: Queued | None
    host: HostFacts
    sightings: tuple[Sighting, ...]
    sightings_total: int
    fetches: tuple[Fetch, ...]  # the latest, oldest of them first
    fetches_total: int
    document: KeptDocument | None
    handoffs: tuple[HandedOff, ...]  # the latest first; none where hand-offs are taken back
    jobs: tuple[WaitingJob, ...]  # likewise


async def read_all(connection: Connection, url_hash: bytes, now: datetime) -> Known | None:
    """Return all that is known of a URL; None when it was never seen."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        row = await connection.fetchrow(query("why_url"), url_hash, now)
        return await _complete(connection, row) if row else None


async def _complete(connection: Connection, row: Mapping[str, Any]) -> Known:
    page_id = row["page_id"] or row["id"]
    host = await hosts.get_host(connection, row["host"])
    assert host is not None, "a URL's host has a row"
    addresses = await connection.fetch(query("why_addresses"), row["id"], MOST)
    sightings = await connection.fetch(query("why_sightings"), row["id"], row["url"], MOST)
    fetches = await connection.fetch(query("why_fetches"), row["id"], MOST)
    document = await connection.fetchrow(query("why_document"), page_id)
    jobs = await connection.fetch(query("why_jobs"), page_id, row["url"], MOST)
    handoffs = await _handoffs(connection, page_id, row["url"])
    return Known(
        url=row["url"],
        status=row["status"],
        reason=_reason(row["reason"]),
        origin=Origin(row["origin"]),
        depth=row["depth"],
        hops=row["hops"],
        discovered_at=row["discovered_at"],
        last_fetched_at=row["last_fetched_at"],
        fetch_count=row["fetch_count"],
        source=Source(
            row["source_id"], row["source_name"], row["kind"], row["settings"], row["enabled"], row["created_at"]
        ),
        page_delay_ms=row["page_delay_ms"],
        came_from=row["came_from"],
        same_as=row["same_as"],
        moved_to=next((address["url"] for address in addresses if not address["is_same_page"]), None),
        other_addresses=tuple(address["url"] for address in addresses if address["is_same_page"]),
        queued=_pick(Queued, row) if row["due_at"] else None,
        host=_host(host),
        sightings=tuple(_pick(Sighting, found) for found in sightings),
        sightings_total=sightings[0]["total"] if sightings else 0,
        fetches=tuple(_pick(Fetch, {**found, "reason": Reason.of(found["reason"])}) for found in reversed(fetches)),
        fetches_total=fetches[0]["total"] if fetches else 0,
        document=_pick(KeptDocument, document) if document else None,
        handoffs=tuple(_pick(HandedOff, {**found, "reason": Reason.of(found["reason"])}) for found in handoffs),
        jobs=tuple(_pick(WaitingJob, {**found, "reason": _reason(found["reason"])}) for found in jobs),
    )


async def _handoffs(connection: Connection, page_id: int, url: str) -> list[Any]:
    try:
        async with connection.transaction():
            return await connection.fetch(query("why_handoffs"), page_id, url, MOST)
    except asyncpg.UndefinedTableError:
        return []


def _host(row: dict[str, Any]) -> HostFacts:
    """Read a host; the driver gives infinite times without a time zone."""
    times = {name: row[name] and row[name].replace(tzinfo=UTC) for name in ("not_before", "closed_until")}
    facts: HostFacts = _pick(HostFacts, row | times | {"blocked_reason": _reason(row["blocked_reason"])})
    return facts


def _pick(shape: type[Any], row: Mapping[str, Any]) -> Any:
    """Make a dataclass from the columns it names."""
    return shape(**{name: row[name] for name in shape.__dataclass_fields__})


def _reason(code: str | None) -> Reason | None:
    return Reason.of(code) if code else None
