"""Typed functions over queries/watches.sql."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from headwater.core.reasons import Reason
from headwater.core.refetch import RefetchPolicy, RefetchState, parse_policy
from headwater.db.pool import Connection
from headwater.db.sql import query, to_record


@dataclass(frozen=True, slots=True)
class WatchRow:
    """A page with its re-fetch policy. `state` is None if the page has no row in `watches`."""

    url_id: int
    url: str
    source: str
    status: str
    reason: Reason | None
    last_fetched_at: datetime | None
    own_policy: str | None
    source_policy: str
    is_active: bool  # its source is neither disabled nor removed
    has_document: bool
    next_at: datetime | None
    state: RefetchState | None

    @property
    def policy(self) -> RefetchPolicy | None:
        """The policy that holds. None: never."""
        return parse_policy(self.own_policy or self.source_policy)


class WatchPlan(NamedTuple):
    """When a page is queued again, and what was learned about it."""

    url_id: int
    next_at: datetime | None
    state: RefetchState


async def get_watches(connection: Connection, url_ids: Collection[int]) -> list[WatchRow]:
    """Return pages by id with their re-fetch policies."""
    return [_read_watch(row) for row in await connection.fetch(query("get_watches"), list(url_ids))]


async def list_watches(connection: Connection, *, with_sources: bool, after: int, limit: int) -> list[WatchRow]:
    """List pages with a policy of their own, or also those that their source watches. Call it in a transaction."""
    await connection.execute(query("plan_for_values"))
    rows = await connection.fetch(query("list_watches"), with_sources, after, limit)
    return await get_watches(connection, [row["url_id"] for row in rows])


async def save_plans(connection: Connection, plans: Collection[WatchPlan]) -> None:
    """Save plans. A policy of a page itself stays."""
    if plans:
        await connection.execute(query("save_plans"), *zip(*map(_flatten, plans), strict=True))


async def set_policy(connection: Connection, policy: str | None, plan: WatchPlan) -> None:
    """Set the policy of a page with its plan. None: the policy of its source."""
    url_id, *rest = _flatten(plan)
    await connection.execute(query("set_policy"), url_id, policy, *rest)


async def end_watches(connection: Connection, url_ids: Collection[int]) -> None:
    """Forget the policies of pages and what was learned about them."""
    await connection.execute(query("end_watches"), list(url_ids))


async def move_watches(connection: Connection, moved: Mapping[int, int], now: datetime) -> None:
    """Move the policies of pages that have moved, given as old to new."""
    await connection.execute(query("move_watches"), list(moved), list(moved.values()), now)


async def take_due_watches(connection: Connection, now: datetime, limit: int) -> tuple[int, list[int]]:
    """Take due pages. Return their number, and the ids of those that must be queued."""
    rows = await connection.fetch(query("take_due_watches"), now, limit)
    return len(rows), [row["url_id"] for row in rows if row["is_queueable"]]


async def lock_replanned_source(connection: Connection) -> tuple[int, int] | None:
    """Lock a source whose policy has changed. Return its id and the last document that has the new policy."""
    row = await connection.fetchrow(query("lock_replanned_source"))
    return (row["id"], row["replanned_to"]) if row else None


async def documents_to_replan(connection: Connection, source_id: int, after: int, limit: int) -> dict[int, int]:
    """Return the next documents of a source, as document id to url id."""
    rows = await connection.fetch(query("documents_to_replan"), source_id, after, limit)
    return {row["id"]: row["url_id"] for row in rows}


async def set_replanned(connection: Connection, source_id: int, last: int | None) -> None:
    """Save the last document of a source that has the new policy. None: all have it."""
    await connection.execute(query("set_replanned"), source_id, last)


def _flatten(plan: WatchPlan) -> tuple[object, ...]:
    return plan.url_id, plan.next_at, plan.state.interval, plan.state.quiet, plan.state.failures


def _read_watch(row: Mapping[str, Any]) -> WatchRow:
    learned = {"interval": row["learned_interval"], "quiet": row["quiet"], "failures": row["failures"]}
    return to_record(WatchRow, row, state=learned if row["learned_interval"] is not None else None)
