"""Typed functions over queries/hosts.sql."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from headwater.model.frontier import HostRecord, HostRelease
from headwater.model.lease import Lease
from headwater.model.reasons import Reason
from headwater.store.pool import Connection
from headwater.store.sql import query


def host_record(row: Mapping[str, Any]) -> HostRecord:
    """Read what is known of a host from a row that carries its columns."""
    return HostRecord(
        host=row["host"],
        crawl_delay_ms=row["crawl_delay_ms"],
        backoff_ms=row["backoff_ms"],
        robots_txt=row["robots_txt"],
        robots_fetched_at=row["robots_fetched_at"],
    )


async def hold_host(
    connection: Connection, host: str, lease: Lease, now: datetime, default_delay_ms: int
) -> HostRecord | None:
    """Lease a host for a request of its own; None when it may not be asked yet."""
    row = await connection.fetchrow(
        query("hold_host"), host, now, lease.holder, lease.token, lease.until, default_delay_ms
    )
    return host_record(row) if row else None


async def reserve_host(
    connection: Connection, host: str, now: datetime, beyond: timedelta
) -> tuple[datetime, bool, Reason | None]:
    """Ask claims to let us go first; answer when the host may be asked, whether it is in use, why it is blocked."""
    row = await connection.fetchrow(query("reserve_host"), host, now, beyond)
    assert row is not None, "a host that cannot be held has a row"
    return row["not_before"], row["is_held"], _reason(row)


async def release_hosts(connection: Connection, releases: Collection[tuple[UUID, HostRelease]]) -> None:
    """Give hosts back, each fenced by its token. Must run inside a transaction."""
    tokens = [token for token, _ in releases]
    await connection.fetch(query("lock_held_hosts"), tokens)
    await connection.execute(
        query("release_hosts"),
        tokens,
        [release.not_before for _, release in releases],
        [release.backoff_ms for _, release in releases],
        [release.blocked_reason for _, release in releases],
    )


async def rest_hosts(connection: Connection, hosts: Collection[str]) -> None:
    """Set when hosts that are not held have work next. Must run inside a transaction."""
    await connection.fetch(query("lock_hosts"), list(hosts))
    await connection.execute(query("rest_hosts"), list(hosts))


async def forgotten_hosts(connection: Connection, limit: int) -> list[str]:
    """Name hosts that have work but would never be looked at."""
    return [row["host"] for row in await connection.fetch(query("forgotten_hosts"), limit)]


async def expired_holds(connection: Connection, now: datetime, limit: int) -> list[tuple[UUID, HostRelease]]:
    """Lock hosts whose holder is late; answer how each is given back."""
    rows = await connection.fetch(query("expired_holds"), now, limit)
    return [
        (
            row["lease_token"],
            HostRelease(row["not_before"], row["backoff_ms"], _reason(row)),
        )
        for row in rows
    ]


async def save_robots(
    connection: Connection, host: str, text: str | None, crawl_delay_ms: int | None, now: datetime
) -> None:
    """Keep a host's robots.txt and the delay it asks for."""
    await connection.execute(query("save_robots"), host, text, crawl_delay_ms, now)


async def next_ready(connection: Connection, now: datetime) -> datetime | None:
    """Tell when the next queued URL may be claimed; None when nothing is queued."""
    ready_at: datetime | None = await connection.fetchval(query("next_ready"), now)
    return ready_at


async def count_hosts(connection: Connection, now: datetime) -> tuple[int, int]:
    """Count the hosts that are known, and those of them that are blocked for now."""
    row = await connection.fetchrow(query("count_hosts"), now)
    assert row is not None
    return row["known"], row["blocked"]


def _reason(row: Mapping[str, Any]) -> Reason | None:
    return Reason.of(row["blocked_reason"]) if row["blocked_reason"] else None
