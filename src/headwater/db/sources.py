"""The tables of sources and of their polls: typed functions over queries/sources.sql."""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import asyncpg
import msgspec

from headwater.core.errors import OperatorError
from headwater.core.lease import Lease
from headwater.core.poll import AdaptiveInterval, PollPlan
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.core.source import DueTimes, FetchProfile, Intervals, Method, Source
from headwater.core.text import make_storable
from headwater.core.url_input import redact
from headwater.db.pool import Connection
from headwater.db.sql import query, read_lease

_ENDING_COLUMNS = ("reason", "error", "consecutive_errors", "item_count", "state", "brought_new")
_LOGGED_COLUMNS = ("is_unfinished", "new_items", "new_urls", "run_id")


@record
class PollState:
    """The state of polls. If a source has several methods, the source shows the state of its first method."""

    next_poll_at: datetime | None
    """When the source is polled next. None: it is disabled, or is polled only on request."""
    last_polled_at: datetime | None
    last_success_at: datetime | None
    last_reason: str | None
    last_error: str | None
    consecutive_errors: int
    failing_since: datetime | None
    """When the first of these errors came. Null if there is none."""
    polling: bool
    """A poll runs now."""


@record
class MethodState(PollState):
    """The state of one method of a source."""

    method: Method
    """`main` is the list of the source: a feed or an API."""
    next_poll_why: str | None
    last_new_at: datetime | None
    """When a poll last found something new."""
    last_item_count: int
    backfill_since: datetime | None
    """The next poll also takes older pages, back to this time."""


@record
class MethodRow(MethodState):
    """A method with what its kind remembers about problems, redirects and older pages."""

    source_id: int
    problems: Any
    redirect: Any
    flaws: Any
    older: Any


@record
class SourceRow(PollState):
    """A source with the state of its polls and the number of its items and documents."""

    id: int
    name: str
    """The unique name. It is also the name of the source's folder."""
    kind: str
    """The kind that reads the source."""
    enabled: bool
    created_at: datetime
    settings: Mapping[str, Any]
    """The settings that override the defaults of the kind."""
    usual_gap_seconds: float | None
    """The usual time between two of its items."""
    items: int
    documents: int


class SourceState(NamedTuple):
    """The part of a source that a list reads. `is_well`: it is on time, if its settings (JSON) can be used."""

    id: int
    name: str
    kind: str
    settings: str
    category: str
    is_well: bool


@record
class SourceItem:
    """One of the newest items of a source."""

    title: str
    url: str
    published_at: datetime
    published_is_sighting: bool
    """The source gave no date: `published_at` is when the item was first seen."""


@dataclass(frozen=True, slots=True)
class PollClaim:
    """The right to poll a source by one method until the lease ends."""

    source: Source
    method: Method
    lease: Lease
    state: Mapping[str, Any]
    consecutive_errors: int
    last_success_at: datetime | None
    adaptive_interval: AdaptiveInterval | None
    backfill_since: datetime | None
    fetch_profile: Mapping[str, Any]
    first_request_at: datetime | None  # the time of its first request, if that is reserved already


@dataclass(frozen=True, slots=True)
class PollOutcome:
    """The end of a poll. `error` is None after a success. `plan` is None if no poll follows by itself."""

    plan: PollPlan | None
    reason: Reason
    error: str | None
    consecutive_errors: int
    item_count: int | None
    state: Mapping[str, Any]
    brought_new: bool = False
    is_unfinished: bool = False  # the next poll continues the backfill
    new_items: int = 0
    new_urls: int = 0
    run_id: int | None = None


def _read_source(row: Mapping[str, Any]) -> Source:
    return Source(row["id"], row["name"], row["kind"], row["settings"], row["enabled"], row["created_at"])


@lru_cache(maxsize=4096)  # most pages belong to few sources
def parse_fetch_profile(source: str, stored: str) -> FetchProfile:
    """Return the fetch profile of a source from its JSON."""
    return msgspec.convert(msgspec.json.decode(stored) | {"source": source}, FetchProfile)


async def save_fetch_profile(connection: Connection, source_id: int, profile: Mapping[str, Any]) -> None:
    """Save a fetch profile: its pages and the next poll use it."""
    await connection.execute(query("save_fetch_profile"), source_id, profile)
    if (concurrency := profile.get("concurrency")) is not None:
        await connection.execute(query("save_permits"), source_id, concurrency)


def unknown_source(name: str) -> OperatorError:
    """Return the error for a name that no source has."""
    return OperatorError(
        f"There is no source named {redact(name)}; `headwater source list` lists them.", reason=Reason.UNKNOWN_SOURCE
    )


async def get_source(connection: Connection, name: str) -> Source | None:
    """Return a source by name."""
    row = await connection.fetchrow(query("get_source"), make_storable(name))
    return _read_source(row) if row else None


async def find_source_id(connection: Connection, name: str | None) -> int | None:
    """Return the id of a source, also of a removed one: 0, which no source has, if none has the name. None for None."""
    if name is None:
        return None
    return await connection.fetchval(query("find_source_id"), make_storable(name)) or 0


async def require_source(connection: Connection, name: str) -> Source:
    """Return a source by name. Raises OperatorError if there is none."""
    if source := await get_source(connection, name):
        return source
    raise unknown_source(name)


async def get_all_sources(connection: Connection) -> list[Source]:
    """Return every source."""
    return [_read_source(row) for row in await connection.fetch(query("get_all_sources"))]


async def get_sources_of_kinds(connection: Connection, kinds: Collection[str]) -> list[Source]:
    """Return the sources of some kinds."""
    return [_read_source(row) for row in await connection.fetch(query("get_sources_of_kinds"), list(kinds))]


async def list_enabled(connection: Connection, names: Collection[str], before: datetime) -> list[str]:
    """Return the names of the enabled sources among some that were added before a moment."""
    return [row["name"] for row in await connection.fetch(query("list_enabled"), list(names), before)]


async def get_browser_sources(connection: Connection) -> list[str]:
    """Return the names of enabled sources whose pages a browser fetches."""
    return [row["name"] for row in await connection.fetch(query("get_browser_sources"))]


async def find_feed_owner(connection: Connection, feed_url: str) -> str | None:
    """Return the name of the source that reads a feed."""
    value: str | None = await connection.fetchval(query("find_feed_owner"), feed_url)
    return value


async def find_removed_names(connection: Connection, names: Collection[str]) -> set[str]:
    """Return those of the names that removed sources have."""
    return {row["name"] for row in await connection.fetch(query("find_removed_names"), list(names))}


async def list_sources(
    connection: Connection, name: str | None = None, *, ids: Collection[int] | None = None
) -> list[SourceRow]:
    """List all sources, the one of a name, or those of some ids."""
    storable = make_storable(name) if name is not None else None
    rows = await connection.fetch(query("list_sources"), storable, list(ids) if ids is not None else None)
    return [SourceRow(**row) for row in rows]


async def list_source_states(connection: Connection, now: datetime, quiet: timedelta) -> list[SourceState]:
    """List all sources. One that is well was read without a flaw, and had something new within `quiet`."""
    return [SourceState(*row.values()) for row in await connection.fetch(query("list_source_states"), now, quiet)]


async def list_methods(connection: Connection, ids: Collection[int] | None = None) -> list[MethodRow]:
    """List the methods of all sources, or of some."""
    rows = await connection.fetch(query("list_methods"), list(ids) if ids is not None else None)
    return [MethodRow(**{**row, "method": Method(row["method"])}) for row in rows]


async def count_source_urls(connection: Connection, source_id: int) -> dict[str, int]:
    """Count the URLs of a source by status."""
    return {row["status"]: row["urls"] for row in await connection.fetch(query("count_source_urls"), source_id)}


async def list_last_items(connection: Connection, source_id: int, limit: int) -> list[SourceItem]:
    """List the newest items of a source."""
    return [SourceItem(**row) for row in await connection.fetch(query("list_last_items"), source_id, limit)]


async def add_source(
    connection: Connection, name: str, kind: str, settings: Mapping[str, Any], *, now: datetime, due: DueTimes
) -> Source | None:
    """Add a source with its methods, each with its first poll. Returns None if another has the name or the feed.

    A source of the same name that was removed returns, with its items.
    """
    row = await connection.fetchrow(query("add_source"), name, kind, settings, now)
    if row is None:
        with contextlib.suppress(asyncpg.UniqueViolationError):
            async with connection.transaction():
                row = await connection.fetchrow(query("restore_source"), name, kind, settings, now)
    if row is None:
        return None
    await save_methods(connection, row["id"], due)
    return _read_source(row)


async def save_methods(connection: Connection, source_id: int, due: DueTimes) -> None:
    """Make these the methods of a source. A method that it had stays due when it was."""
    await connection.execute(query("save_methods"), source_id, list(due), list(due.values()))


async def replace_settings(connection: Connection, source_id: int, settings: Mapping[str, Any]) -> bool:
    """Replace the settings of a source. Returns False if another source reads that feed."""
    try:
        async with connection.transaction():
            await connection.execute(query("replace_settings"), source_id, settings)
    except asyncpg.UniqueViolationError:
        return False
    return True


async def merge_settings(connection: Connection, source_id: int, settings: Mapping[str, Any]) -> None:
    """Add settings that a kind learned; they replace those of the same names."""
    await connection.execute(query("merge_settings"), source_id, settings)


async def make_method_due(
    connection: Connection, source_id: int, method: Method, *, now: datetime, rest: timedelta, why: str
) -> bool:
    """Make a method due now, or `rest` after its last poll. Returns False if the source does not have the method."""
    return bool(await connection.fetchval(query("make_method_due"), source_id, method, now, rest, why))


async def replan_methods(
    connection: Connection, source_id: int, gaps: Intervals, *, changed: Collection[Method], now: datetime, reset: bool
) -> None:
    """Plan the methods of a source after a change of its settings.

    The interval of the methods in `changed` has changed. With `reset`, the source reads something else and forgets its
    state.
    """
    has_changed = [method in changed for method in gaps]
    await connection.execute(
        query("replan_methods"), source_id, list(gaps), list(gaps.values()), has_changed, now, reset
    )


async def set_source_enabled(connection: Connection, source_id: int, *, enabled: bool) -> None:
    """Enable or disable the polls of a source."""
    await connection.execute(query("set_source_enabled"), source_id, enabled)


async def lock_source(connection: Connection, name: str) -> tuple[Source, bool]:
    """Lock a known source until the transaction ends. Returns the source and whether it was removed before."""
    storable = make_storable(name)
    await connection.execute(query("lock_methods"), storable)
    row = await connection.fetchrow(query("lock_source"), storable)
    if row is None:
        raise unknown_source(name)
    return _read_source(row), row["is_removed"]


async def prevent_removal(connection: Connection, source_id: int) -> bool:
    """Prevent the removal of a source until the transaction ends. Returns False if it was removed already."""
    return bool(await connection.fetchval(query("prevent_removal"), source_id))


async def delete_unused_source(connection: Connection, source_id: int) -> bool:
    """Delete a source that has neither items nor URLs. Returns False if it has some."""
    return bool(await connection.fetchval(query("delete_unused_source"), source_id))


async def mark_source_removed(connection: Connection, source_id: int, now: datetime) -> None:
    """Mark a source as removed: its polls end, its items and documents stay."""
    await connection.execute(query("mark_source_removed"), source_id, now)


async def end_removed_urls(connection: Connection, source_id: int, after: int, limit: int) -> list[int]:
    """End queued URLs of a removed source, in the order of their ids after an id. Returns the ids."""
    return [row["id"] for row in await connection.fetch(query("end_removed_urls"), source_id, after, limit)]


async def request_backfill(connection: Connection, source_id: int, since: datetime, now: datetime) -> bool:
    """Make the next poll of a source's sitemaps go back to a time.

    Returns False if the source has no sitemaps, or if a poll of them runs.
    """
    return bool(await connection.fetchval(query("request_backfill"), source_id, since, now))


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
    """Claim methods that are due, or those of a named source. A method that another process polls is left out."""
    rows = await connection.fetch(query("claim_polls"), now, limit, holder, until, name, list(methods))
    return [
        PollClaim(
            _read_source(row),
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
    """Extend the lease of a poll. Returns False if the lease is lost."""
    return bool(await connection.fetchval(query("renew_poll"), claim.source.id, claim.lease.token, until))


async def reserve_request(
    connection: Connection, source_id: int, now: datetime, gap: timedelta, unused: datetime | None = None
) -> datetime:
    """Reserve the time of the next request of a source. `unused` is a reserved time that is returned."""
    value: datetime = await connection.fetchval(query("reserve_request"), source_id, now, gap, unused)
    return value


async def lock_poll(connection: Connection, claim: PollClaim) -> bool:
    """Lock a poll until the transaction ends. Returns False if its lease is lost."""
    return bool(await connection.fetchval(query("lock_poll"), claim.source.id, claim.lease.token))


async def save_state(connection: Connection, claim: PollClaim, state: Mapping[str, Any]) -> None:
    """Save what a running poll remembers so far."""
    await connection.execute(query("save_state"), claim.source.id, claim.lease.token, state)


async def save_wait_reason(connection: Connection, claim: PollClaim, why: str) -> None:
    """Save the reason why a running poll waits. `source show` shows it."""
    await connection.execute(query("save_wait_reason"), claim.source.id, claim.lease.token, why)


async def finish_polls(
    connection: Connection, endings: Sequence[tuple[PollClaim, PollOutcome]], now: datetime, *, unhurried: bool = False
) -> list[bool]:
    """End polls. Returns for each whether its lease was valid; otherwise nothing was changed.

    With `unhurried` the commit does not wait for the disk. A crash then only repeats polls that found nothing.
    """
    plans = [ending.plan for _, ending in endings]
    rows = await connection.fetch(
        query("finish_polls"),
        [claim.source.id for claim, _ in endings],
        [claim.lease.token for claim, _ in endings],
        [plan and plan.at for plan in plans],
        [plan and plan.why for plan in plans],
        [plan and plan.adaptive_interval for plan in plans],
        *([getattr(ending, name) for _, ending in endings] for name in _ENDING_COLUMNS),
        now,
        unhurried,
        *([getattr(ending, name) for _, ending in endings] for name in _LOGGED_COLUMNS),
    )
    settled = {row["token"] for row in rows}
    return [claim.lease.token in settled for claim, _ in endings]


async def release_poll(
    connection: Connection, claim: PollClaim, next_poll_at: datetime | None, why: str | None
) -> None:
    """Release a poll that was not done. It does not count as an attempt."""
    await connection.execute(query("release_poll"), claim.source.id, claim.lease.token, next_poll_at, why)


async def release_expired_polls(connection: Connection, now: datetime) -> int:
    """Release the polls whose leases have expired. Returns their number."""
    return len(await connection.fetch(query("release_expired_polls"), now))
