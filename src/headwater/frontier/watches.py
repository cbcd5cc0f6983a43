"""Watched pages: they are fetched again by their re-fetch policies (spec 2.2, 11.2)."""

from collections.abc import Mapping
from datetime import datetime

from headwater.core.record import record
from headwater.core.refetch import FetchEnd, RefetchState, explain_refetch, learn, plan_refetch
from headwater.db import frontier, watches
from headwater.db.pool import Connection, Database
from headwater.db.watches import WatchPlan, WatchRow
from headwater.frontier.submit import LOWEST

_BATCH = 1000


@record
class Watch:
    """A page with its re-fetch policy, and when it is fetched again."""

    url: str
    source: str
    policy: str
    """`never`, `every 6h`, `adaptive`, or `adaptive 2h to 7d` with its bounds."""
    is_own: bool
    """The page has a policy of its own. False: the policy is that of its source."""
    status: str
    """pending, fetched or dead."""
    last_fetched_at: datetime | None
    next_at: datetime | None
    """When the page is queued again. Null: not by itself, or it is queued now."""
    why: str
    """The reason of that time, for a person."""


def describe_watch(row: WatchRow) -> Watch:
    """Return the policy of a page and the reason of its next fetch."""
    policy, is_queued = row.policy, row.status == "pending"
    if policy is None:
        why = "Not by itself: its policy is never."
    elif not row.is_active:
        why = "Not by itself: its source is disabled or removed."
    elif row.state is None:
        why = "The policy of its source holds when the page has a document."
    else:
        why = explain_refetch(policy, row.state, row.reason)
        why = f"It is queued now. After that: {why[0].lower()}{why[1:]}" if is_queued else why
    return Watch(
        url=row.url,
        source=row.source,
        policy=row.own_policy or row.source_policy,
        is_own=row.own_policy is not None,
        status=row.status,
        last_fetched_at=row.last_fetched_at,
        next_at=None if is_queued or not row.is_active else row.next_at,
        why=why,
    )


async def plan_after_fetches(connection: Connection, ends: Mapping[int, FetchEnd], now: datetime) -> None:
    """Plan the next fetches of watched pages, given by id, after the ends of their fetches."""
    rows = await watches.get_watches(connection, ends) if ends else []
    plans = (_plan_after(row, ends[row.url_id], now) for row in rows)
    await watches.save_plans(connection, [plan for plan in plans if plan])


def plan_anew(row: WatchRow, now: datetime) -> WatchPlan:
    """Plan a page after its policy has changed. The learned interval stays. Its failures do not count."""
    past, policy = row.state or RefetchState(), row.policy
    if policy is None:
        return WatchPlan(row.url_id, None, past)
    state = RefetchState(policy.limit(past.interval), past.quiet)
    fetched_at = row.last_fetched_at if row.status == "fetched" else None
    due = plan_refetch(policy, state, fetched_at) if fetched_at else now
    return WatchPlan(row.url_id, max(now, due), state)


async def queue_due_pages(database: Database, now: datetime) -> int:
    """Queue a batch of due pages, after all new pages. Return how many were due.

    Processes that do this at the same time take different pages.
    """

    async def work(connection: Connection) -> int:
        due, url_ids = await watches.take_due_watches(connection, now, _BATCH)
        if url_ids:
            await frontier.retry_urls(connection, sorted(url_ids), LOWEST, now)
        return due

    return await database.transact(work)


async def replan_pages(database: Database, now: datetime) -> int:
    """Plan a batch of documents of a source whose policy has changed. Return how many."""

    async def work(connection: Connection) -> int:
        source = await watches.lock_replanned_source(connection)
        if source is None:
            return 0
        source_id, last = source
        found = await watches.documents_to_replan(connection, source_id, last, _BATCH)
        rows = [row for row in await watches.get_watches(connection, found.values()) if not row.own_policy]
        await watches.save_plans(connection, [plan_anew(row, now) for row in rows if row.policy])
        await watches.end_watches(connection, [row.url_id for row in rows if not row.policy])
        await watches.set_replanned(connection, source_id, max(found) if len(found) == _BATCH else None)
        return len(found)

    return await database.transact(work)


def _plan_after(row: WatchRow, end: FetchEnd, now: datetime) -> WatchPlan | None:
    """Return the plan of a page. None: it is not watched, or only its source watches it and it has no document."""
    policy = row.policy
    if policy is None or not (row.own_policy or row.has_document):
        return None
    state = learn(policy, row.state or RefetchState(), end)
    return WatchPlan(row.url_id, None if end is FetchEnd.GONE else plan_refetch(policy, state, now), state)
