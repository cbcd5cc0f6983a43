"""Typed functions over queries/budgets.sql: what all processes together spend of a key that they share."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headwater.core import api_budget
from headwater.core.api_budget import Spent, Split
from headwater.db.pool import Connection
from headwater.db.sql import query

# Kept for longer than it counts, so that a process whose clock is behind does not miss it.
_KEPT = 2 * api_budget.HOUR


async def spend(
    connection: Connection, fingerprint: str, host: str, child: str, split: Split, now: datetime
) -> datetime | None:
    """Take a request from a child and its parent, or tell when to come back. Must run inside a transaction."""
    row = await connection.fetchrow(query("lock_budget"), fingerprint, host)
    if row is None:
        await connection.execute(query("meet_budget"), fingerprint, host, api_budget.DEFAULT_LIMIT)
        row = await connection.fetchrow(query("lock_budget"), fingerprint, host)
    assert row is not None, "it has just been met"
    spent = await _read_spending(connection, fingerprint, host, child, now)
    again = split.allowance(child, row["hourly_limit"], row["exhausted_until"]).free_at(spent, now)
    if again is None:
        bucket = api_budget.bucket_of(now)
        await connection.execute(query("spend"), fingerprint, host, child, bucket, bucket - _KEPT)
    return again


async def save_limit(connection: Connection, fingerprint: str, host: str, limit: int, now: datetime) -> None:
    """Keep the limit that a host has told; the shares of its sources follow."""
    await connection.execute(query("observe_limit"), fingerprint, host, limit, now)


async def exhaust(connection: Connection, fingerprint: str, host: str, until: datetime) -> None:
    """Let nothing go to a host until then."""
    await connection.execute(query("exhaust_budget"), fingerprint, host, until, api_budget.DEFAULT_LIMIT)


async def list_budgets(connection: Connection, fingerprint: str, split: Split, now: datetime) -> list[dict[str, Any]]:
    """List the hosts that a key has been used at, each with what its sources may spend and have spent."""
    rows = await connection.fetch(query("list_budgets"), fingerprint)
    return [dict(row) | {"sources": await _list_sources(connection, fingerprint, row, split, now)} for row in rows]


async def sources_that_need_key(connection: Connection) -> list[str]:
    """Name the sources that cannot be read without the key."""
    return [row["name"] for row in await connection.fetch(query("sources_that_need_key"))]


async def _list_sources(
    connection: Connection, fingerprint: str, row: Mapping[str, Any], split: Split, now: datetime
) -> list[dict[str, Any]]:
    paying = [source["name"] for source in await connection.fetch(query("sources_that_pay"), row["host"])]
    listed = []
    for child in split.children:
        allowance = split.allowance(child, row["hourly_limit"], row["exhausted_until"])
        spent = await _read_spending(connection, fingerprint, row["host"], child, now)
        listed.append(
            {
                "source": child,
                "drawn_by": split.drawn_by(child, paying),
                "share": allowance.share,
                "spent": api_budget.spent_lately(spent, now)[1],
                "left": allowance.left(spent, now),
                "next_free": allowance.free_at(spent, now),
            }
        )
    return listed


async def _read_spending(connection: Connection, fingerprint: str, host: str, child: str, now: datetime) -> list[Spent]:
    rows = await connection.fetch(query("read_spending"), fingerprint, host, child, api_budget.oldest_counted(now))
    return [Spent(row["bucket"], row["by_all"], row["by_child"]) for row in rows]
