"""The requests that all processes together spend of a shared key: queries/budgets.sql as typed functions."""

from datetime import datetime

from headwater.core import api_budget
from headwater.core.api_budget import Spent, Split
from headwater.core.record import record
from headwater.db.pool import Connection
from headwater.db.sql import query

_KEPT = 2 * api_budget.HOUR  # longer than a bucket counts, for a process whose clock is late


@record
class SourceBudget:
    """The budget of one source, or of the reserve, at a host."""

    source: str
    drawn_by: list[str]
    share: int
    spent: int
    left: int
    next_free: datetime | None


@record
class HostBudget:
    """The budget of a key at a host."""

    host: str
    hourly_limit: int
    limit_seen_at: datetime | None
    exhausted_until: datetime | None
    sources: list[SourceBudget]


async def spend(
    connection: Connection, fingerprint: str, host: str, child: str, split: Split, now: datetime
) -> datetime | None:
    """Count a request of a child, or return when it may try again. Must run inside a transaction."""
    row = await connection.fetchrow(query("lock_budget"), fingerprint, host)
    if row is None:
        await connection.execute(query("add_budget"), fingerprint, host, api_budget.DEFAULT_LIMIT)
        row = await connection.fetchrow(query("lock_budget"), fingerprint, host)
    assert row is not None
    spent = await _read_spending(connection, fingerprint, host, child, now)
    again = split.allowance(child, row["hourly_limit"], row["exhausted_until"]).free_at(spent, now)
    if again is None:
        bucket = api_budget.bucket_of(now)
        await connection.execute(query("spend"), fingerprint, host, child, bucket, bucket - _KEPT)
    return again


async def save_limit(connection: Connection, fingerprint: str, host: str, limit: int, now: datetime) -> None:
    """Save the limit that a host announced. The shares of its sources follow it.

    A host that raises its limit for a key shows that other limits of the key may be old. They are learned again.
    """
    if await connection.fetchval(query("save_limit"), fingerprint, host, limit, now):
        await connection.execute(query("forget_lower_limits"), fingerprint, host, limit, api_budget.DEFAULT_LIMIT)


async def exhaust(connection: Connection, fingerprint: str, host: str, until: datetime) -> None:
    """Refuse all requests to a host until a time."""
    await connection.execute(query("exhaust_budget"), fingerprint, host, until, api_budget.DEFAULT_LIMIT)


async def list_budgets(connection: Connection, fingerprint: str, split: Split, now: datetime) -> list[HostBudget]:
    """List the hosts that a key was used at, with the budget of each source."""
    budgets = []
    for row in await connection.fetch(query("list_budgets"), fingerprint):
        host, limit, limit_seen_at, exhausted_until = row
        paying = [source["name"] for source in await connection.fetch(query("list_paying_sources"), host)]
        sources = []
        for child in split.children:
            allowance = split.allowance(child, limit, exhausted_until)
            spent = await _read_spending(connection, fingerprint, host, child, now)
            sources.append(
                SourceBudget(
                    source=child,
                    drawn_by=split.drawn_by(child, paying),
                    share=allowance.share,
                    spent=api_budget.spent_lately(spent, now)[1],
                    left=allowance.left(spent, now),
                    next_free=allowance.free_at(spent, now),
                )
            )
        budgets.append(HostBudget(host, limit, limit_seen_at, exhausted_until, sources))
    return budgets


async def sources_that_need_key(connection: Connection) -> list[str]:
    """Return the names of the sources that cannot be read without the key."""
    return [row["name"] for row in await connection.fetch(query("list_sources_that_need_key"))]


async def _read_spending(connection: Connection, fingerprint: str, host: str, child: str, now: datetime) -> list[Spent]:
    rows = await connection.fetch(query("read_spending"), fingerprint, host, child, api_budget.oldest_counted(now))
    return [Spent(*row) for row in rows]
