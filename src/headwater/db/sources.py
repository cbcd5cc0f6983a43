"""Typed functions over queries/sources.sql."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import asyncpg
import msgspec

from headwater.core.lease import Lease, read_lease
from headwater.core.poll import AdaptiveInterval, PollPlan
from headwater.core.reasons import Reason
from headwater.core.source import FetchProfile, Method, Source
from headwater.db.pool import Connection
from headwater.db.sql import query


@dataclass(frozen=True, slots=True)
class PollClaim:
    """A source that is ours to poll until the lease ends."""

    source: Source
    method: Method
    lease: Lease
    state: Mapping[str, Any]
    consecutive_errors: int
    last_success_at: datetime | None
    adaptive_interval: AdaptiveInterval | None
    backfill_since: datetime | None
    fetch_profile: Mapping[str, Any]
    first_request_at: datetime | None  # the moment of its first request, if that is reserved already


@dataclass(frozen=True, slots=True)
class PollOutcome:
    """How a poll ends; `error` is None when it went well, and `plan` if it is not polled again by itself."""

    plan: PollPlan | None
    reason: Reason
    error: str | None
    consecutive_errors: int
    item_count: int | None
    state: Mapping[str, Any]
    brought_new: bool = False
    is_unfinished: bool = False  # a backfill goes on with the next


def source_of(row: Mapping[str, Any]) -> Source:
    """Read a source from a row that carries its columns."""
    return Source(row["id"], row["name"], row["kind"], row["settings"], row["enabled"], row["created_at"])


@lru_cache(maxsize=4096)
def parse_fetch_profile(source: str, fetch_profile: str) -> FetchProfile:
    """Return for whom the pages of a source are asked for, as its row says in JSON; most pages are of few sources."""
    told = msgspec.json.decode(fetch_profile)
    return FetchProfile(
        source,
        told.get("user_agent", "honest"),
        frozenset(told.get("api_hosts", ())),
        told.get("budget"),
        told.get("needs_browser", False),
        told.get("stealth", "full"),
    )


async def prevent_removal(connection: Connection, source_id: int) -> bool:
    """Let nobody remove a source before the transaction ends; False where somebody has."""
    return bool(await connection.fetchval(query("prevent_removal"), source_id))


async def save_fetch_profile(connection: Connection, source_id: int, fetch_profile: Mapping[str, Any]) -> None:
    """Keep how a source's requests are made and its pages read, for the pages of its items and its next poll."""
    await connection.execute(query("save_fetch_profile"), source_id, fetch_profile)


async def add_source(
    connection: Connection,
    name: str,
    kind: str,
    settings: Mapping[str, Any],
    *,
    now: datetime,
    due: Mapping[Method, datetime | None],
) -> Source | None:
    """Add a source, with its passes and when each is due, if it is; None when the name or the feed is taken.

    A name that was removed is free again, and its source has what it brought.
    """
    row = await connection.fetchrow(query("add_source"), name, kind, settings, now)
    if row is None:
        try:
            async with connection.transaction():
                row = await connection.fetchrow(query("restore_source"), name, kind, settings, now)
        except asyncpg.UniqueViolationError:
            return None
    if row:
        await save_methods(connection, row["id"], due)
    return source_of(row) if row else None


async def find_removed_names(connection: Connection, names: Collection[str]) -> set[str]:
    """Tell which names are of sources that were removed."""
    return {row["name"] for row in await connection.fetch(query("find_removed_names"), list(names))}


async def save_methods(connection: Connection, source_id: int, due: Mapping[Method, datetime | None]) -> None:
    """Let a source have these passes and no others; those that it had are due when they were."""
    await connection.execute(query("save_methods"), source_id, list(due), list(due.values()))


async def replace_settings(connection: Connection, source_id: int, settings: Mapping[str, Any]) -> bool:
    """Replace a source's settings; False when another source reads that feed."""
    try:
        async with connection.transaction():
            await connection.execute(query("replace_settings"), source_id, settings)
    except asyncpg.UniqueViolationError:
        return False
    return True


async def merge_settings(connection: Connection, source_id: int, settings: Mapping[str, Any]) -> None:
    """Put settings that were found out in place of those a source had."""
    await connection.execute(query("merge_settings"), source_id, settings)


async def make_method_due(
    connection: Connection, source_id: int, method: Method, *, now: datetime, rest: timedelta, why: str
) -> bool:
    """Let a pass be due at once, but no sooner than a rest after the last; False where the source has no such pass."""
    return bool(await connection.fetchval(query("make_method_due"), source_id, method, now, rest, why))


async def replan_methods(
    connection: Connection,
    source_id: int,
    gaps: Mapping[Method, timedelta | None],
    *,
    changed: Collection[Method],
    now: datetime,
    afresh: bool,
) -> None:
    """Bring the passes that a source has in line with new settings.

    `changed` are those whose interval is another now; `afresh`: it reads something else.
    """
    has_changed = [method in changed for method in gaps]
    await connection.execute(
        query("replan_methods"), source_id, list(gaps), list(gaps.values()), has_changed, now, afresh
    )


async def set_source_enabled(connection: Connection, source_id: int, *, enabled: bool) -> None:
    """Let a source be polled, or not."""
    await connection.execute(query("set_source_enabled"), source_id, enabled)


async def lock_source(connection: Connection, name: str) -> tuple[Source, bool] | None:
    """Keep everybody else from a source until the transaction ends; return it and whether it was removed."""
    await connection.execute(query("lock_methods"), name)
    row = await connection.fetchrow(query("lock_source"), name)
    return (source_of(row), row["is_removed"]) if row else None


async def delete_unused_source(connection: Connection, source_id: int) -> bool:
    """Delete a source that has brought nothing yet; False where it has."""
    return bool(await connection.fetchval(query("delete_unused_source"), source_id))


async def mark_source_removed(connection: Connection, source_id: int, now: datetime) -> None:
    """Read a source no more; what it has brought stays."""
    await connection.execute(query("mark_source_removed"), source_id, now)


async def end_removed_urls(connection: Connection, source_id: int, after: int, limit: int) -> list[int]:
    """End what a removed source still has in the queue, from an id on; return the ids."""
    return [row["id"] for row in await connection.fetch(query("end_removed_urls"), source_id, after, limit)]


async def request_backfill(connection: Connection, source_id: int, since: datetime, now: datetime) -> bool:
    """Let the next reading of a source's sitemaps go back to a time; False where it has none, or is being read."""
    return bool(await connection.fetchval(query("request_backfill"), source_id, since, now))


async def get_source(connection: Connection, name: str) -> Source | None:
    """Find a source by name."""
    row = await connection.fetchrow(query("get_source"), name)
    return source_of(row) if row else None


async def get_all_sources(connection: Connection) -> list[Source]:
    """Return every source."""
    return [source_of(row) for row in await connection.fetch(query("get_all_sources"))]


async def get_browser_sources(connection: Connection) -> list[str]:
    """Name the sources whose pages are asked for by a browser."""
    return [row["name"] for row in await connection.fetch(query("get_browser_sources"))]


async def find_feed_owner(connection: Connection, feed_url: str) -> str | None:
    """Name the source that reads this feed already, if there is one."""
    name: str | None = await connection.fetchval(query("find_feed_owner"), feed_url)
    return name


async def list_sources(connection: Connection, name: str | None = None) -> list[dict[str, Any]]:
    """List all sources, or one, with the state of their polls and what they have brought."""
    return [dict(row) for row in await connection.fetch(query("list_sources"), name)]


async def list_methods(connection: Connection, source_id: int | None = None) -> list[dict[str, Any]]:
    """List the passes of all sources, or of one, with how each stands."""
    return [dict(row) for row in await connection.fetch(query("list_methods"), source_id)]


async def count_source_urls(connection: Connection, source_id: int) -> dict[str, int]:
    """Count the URLs that a source has brought, by status."""
    return {row["status"]: row["urls"] for row in await connection.fetch(query("count_source_urls"), source_id)}


async def last_items(connection: Connection, source_id: int, limit: int) -> list[dict[str, Any]]:
    """List a source's newest items."""
    return [dict(row) for row in await connection.fetch(query("last_items"), source_id, limit)]


async def claim_polls(
    connection: Connection,
    *,
    now: datetime,
    until: datetime,
    holder: str,
    limit: int,
    methods: Collection[Method] = (Method.FEED,),
    name: str | None = None,
) -> list[PollClaim]:
    """Claim passes that are due, or those of a source, due or not; one that somebody is at is left alone."""
    rows = await connection.fetch(query("claim_polls"), now, limit, holder, until, name, list(methods))
    return [
        PollClaim(
            source_of(row),
            Method(row["method"]),
            read_lease(row),
            row["state"],
            row["consecutive_errors"],
            row["last_success_at"],
            AdaptiveInterval.from_json(row["adaptive_interval"]),
            row["backfill_since"],
            row["fetch_profile"],
            row["moment"],
        )
        for row in rows
    ]


async def renew_poll(connection: Connection, claim: PollClaim, until: datetime) -> bool:
    """Keep a poll's lease until then; False when it is somebody else's by now."""
    return bool(await connection.fetchval(query("renew_poll"), claim.source.id, claim.lease.token, until))


async def reserve_request(
    connection: Connection, source_id: int, now: datetime, gap: timedelta, unused: datetime | None = None
) -> datetime:
    """Return when the next request of a source may be sent; a moment that was reserved and not used is given back."""
    moment: datetime = await connection.fetchval(query("reserve_request"), source_id, now, gap, unused)
    return moment


async def lock_poll(connection: Connection, claim: PollClaim) -> bool:
    """Tell whether the poll is still its holder's, and lock it until the transaction ends."""
    return bool(await connection.fetchval(query("lock_poll"), claim.source.id, claim.lease.token))


async def save_state(connection: Connection, claim: PollClaim, state: Mapping[str, Any]) -> None:
    """Keep what a poll has learned so far."""
    await connection.execute(query("save_state"), claim.source.id, claim.lease.token, state)


async def save_wait_reason(connection: Connection, claim: PollClaim, why: str) -> None:
    """Say for those who look on what a poll waits for."""
    await connection.execute(query("save_wait_reason"), claim.source.id, claim.lease.token, why)


async def finish_polls(
    connection: Connection, endings: Sequence[tuple[PollClaim, PollOutcome]], now: datetime, *, unhurried: bool = False
) -> list[bool]:
    """End polls; tell of each whether it was still its holder's: otherwise nothing of it was changed.

    Polls that have nothing to save are ended unhurried: what a dying server forgets of them is only that they were.
    """
    plans = [ending.plan for _, ending in endings]
    rows = await connection.fetch(
        query("finish_polls"),
        [claim.source.id for claim, _ in endings],
        [claim.lease.token for claim, _ in endings],
        [plan and plan.at for plan in plans],
        [plan and plan.why for plan in plans],
        [plan and plan.adaptive_interval for plan in plans],
        [ending.reason for _, ending in endings],
        [ending.error for _, ending in endings],
        [ending.consecutive_errors for _, ending in endings],
        [ending.item_count for _, ending in endings],
        [ending.state for _, ending in endings],
        [ending.brought_new for _, ending in endings],
        now,
        unhurried,
        [ending.is_unfinished for _, ending in endings],
    )
    settled = {row["token"] for row in rows}
    return [claim.lease.token in settled for claim, _ in endings]


async def release_poll(
    connection: Connection, claim: PollClaim, next_poll_at: datetime | None, why: str | None
) -> None:
    """Give a poll back undone, at no cost."""
    await connection.execute(query("release_poll"), claim.source.id, claim.lease.token, next_poll_at, why)


async def release_expired_polls(connection: Connection, now: datetime) -> int:
    """Take polls back from holders that are late; return how many."""
    return len(await connection.fetch(query("release_expired_polls"), now))
