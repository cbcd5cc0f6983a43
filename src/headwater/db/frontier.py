"""The queue of URLs: queries/frontier.sql as typed functions."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from uuid import uuid4

from headwater.core.frontier import (
    Claim,
    FetchOutcome,
    FrontierStatus,
    Origin,
    RequestRecord,
    Submission,
    UrlFilter,
    UrlStatus,
)
from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.db import sources
from headwater.db.hosts import FOREVER, read_host_record
from headwater.db.pool import Connection
from headwater.db.sources import find_source_id
from headwater.db.sql import query

_CLAIM_COLUMNS = ("url_id", "url", "source_id", "priority", "subpath", "depth", "hops", "etag", "last_modified")


@record
class UrlLine:
    """A URL in a list: how it ended, or why it still waits and until when."""

    id: int
    url: str
    status: FrontierStatus
    reason: str | None
    """How it ended; null before its end."""
    host: str
    source: str
    origin: str
    priority: int | None
    """1 (last) to 10 (first); null if it is not queued."""
    discovered_at: datetime
    last_fetched_at: datetime | None
    due_at: datetime | None
    """The earliest time of its fetch; null if it has ended, is being fetched, or waits until its host is released."""
    waiting_reason: str | None
    """Why it waits, if it waits for more than its turn."""
    kept_failing: str | None
    """How it failed, if it was given up after the last retry."""


async def submit_urls(
    connection: Connection, submissions: Mapping[bytes, Submission], now: datetime
) -> tuple[dict[bytes, int], set[bytes]]:
    """Submit URLs, given by their hashes. Return the id of each, and the hashes of the new ones."""
    rows = await connection.fetch(query("find_urls"), list(submissions))
    ids: dict[bytes, int] = {digest: url_id for digest, url_id, _ in rows}
    raised = sorted(
        (url_id, submissions[digest].candidate.priority)
        for digest, url_id, priority in rows
        if priority is not None and priority < submissions[digest].candidate.priority
    )
    if raised:
        await connection.execute(query("raise_priorities"), *zip(*raised, strict=True))
    added = await _add_urls(connection, [submissions[digest] for digest in sorted(submissions.keys() - ids)], now)
    ids |= added
    if len(ids) < len(submissions):  # another submit was quicker
        ids |= await find_urls(connection, submissions.keys() - ids)
    return ids, set(added)


async def find_urls(connection: Connection, hashes: Collection[bytes]) -> dict[bytes, int]:
    """Return the page ids of the known URLs among hashes."""
    return {digest: url_id for digest, url_id, _ in await connection.fetch(query("find_urls"), list(hashes))}


async def _add_urls(connection: Connection, new: list[Submission], now: datetime) -> dict[bytes, int]:
    """Insert URLs, wake their hosts and queue them. Return the ids of the inserted URLs.

    The hosts come late, so that other submits for the same hosts wait only briefly.
    """
    if not new:
        return {}
    urls, hashes, hosts, _, candidates = zip(*new, strict=True)
    _, source_ids, origins, _, depths, hops, parent_ids, subpaths, found_on = zip(*candidates, strict=True)
    rows = await connection.fetch(
        query("add_urls"), urls, hashes, hosts, source_ids, origins, depths, hops, parent_ids, subpaths, found_on, now
    )
    ids: dict[bytes, int] = {digest: url_id for url_id, digest in rows}
    queued = [submission for submission in new if submission.url_hash in ids]
    if not queued:
        return {}
    new_keys = dict(sorted({submission.host: submission.new_key for submission in queued}.items()))
    await connection.execute(query("wake_keys"), list(new_keys), list(new_keys.values()), now)
    await connection.execute(
        query("queue_urls"),
        [ids[submission.url_hash] for submission in queued],
        [submission.host for submission in queued],
        [submission.candidate.priority for submission in queued],
        now,
    )
    return ids


async def claim_urls(
    connection: Connection, *, now: datetime, until: datetime, holder: str, limit: int, default_delay_ms: int
) -> tuple[list[Claim], list[str]]:
    """Claim the best due URL of up to `limit` ready hosts. Return the claims and the hosts without a due URL."""
    claims: list[Claim] = []
    idle: list[str] = []
    token = uuid4()
    for row in await connection.fetch(query("claim_urls"), now, limit, holder, until, default_delay_ms, token):
        if row["url_id"] is None:
            idle.append(row["politeness_key"])
            continue
        claims.append(
            Claim(
                lease=Lease(holder, token, until, row["attempts"]),
                host=read_host_record(row),
                fetch_profile=sources.parse_fetch_profile(row["source_name"], row["fetch_profile"]),
                delay_ms=default_delay_ms if row["page_delay_ms"] is None else row["page_delay_ms"],
                origin=Origin(row["origin"]),
                selectors=row["selectors"] or {},
                **{name: row[name] for name in _CLAIM_COLUMNS},
            )
        )
    return claims, idle


async def give_back_claims(
    connection: Connection, claims: Collection[Claim], ready_at: Collection[datetime], now: datetime
) -> None:
    """End claims as if they had not been made. Their hosts are ready again at the given times."""
    await connection.execute(
        query("give_back_claims"),
        [claim.url_id for claim in claims],
        [claim.host.politeness_key for claim in claims],
        [claim.lease.token for claim in claims],
        ready_at,
        now,
    )


async def lock_claims(connection: Connection, claims: Collection[Claim]) -> dict[int, bool]:
    """Lock the claims that are still their holder's until the transaction ends.

    Return the ids of their URLs, and whether a re-fetch policy watches the page.
    """
    rows = await connection.fetch(
        query("lock_claims"), [claim.url_id for claim in claims], [claim.lease.token for claim in claims]
    )
    return {row["url_id"]: row["is_watched"] for row in rows}


async def settle_claims(
    connection: Connection, outcomes: Collection[tuple[int, FetchOutcome]], now: datetime
) -> set[str]:
    """Remove URLs from the queue or requeue them, by their outcomes. Return the keys of the requeued URLs."""
    ended = [(url_id, outcome) for url_id, outcome in outcomes if outcome.status is not UrlStatus.PENDING]
    if ended:
        ends = ((url_id, end.status, end.reason, end.etag, end.last_modified) for url_id, end in ended)
        await connection.execute(query("end_urls"), *zip(*ends, strict=True), now)
    requeued = [(url_id, outcome) for url_id, outcome in outcomes if outcome.status is UrlStatus.PENDING]
    if not requeued:
        return set()
    dues = ((url_id, outcome.due_at or now, outcome.is_counted) for url_id, outcome in requeued)
    return {row["politeness_key"] for row in await connection.fetch(query("requeue_urls"), *zip(*dues, strict=True))}


async def log_fetches(
    connection: Connection, fetches: Collection[tuple[int, Lease, FetchOutcome, RequestRecord | None]], now: datetime
) -> None:
    """Add a row for each attempt to the fetch log."""
    rows = (
        (url_id, lease.holder, lease.attempts, *(request or [None] * 4), outcome.reason, outcome.detail)
        for url_id, lease, outcome, request in fetches
    )
    await connection.execute(query("log_fetches"), *zip(*rows, strict=True), now)


async def save_aliases(
    connection: Connection, aliases: Collection[tuple[int, str, bytes]], now: datetime
) -> dict[int, int]:
    """Make other URLs (page id, URL, hash) aliases of pages. Return page ids by the ids of the new aliases."""
    rows = await connection.fetch(query("save_aliases"), *zip(*aliases, strict=True), now)
    page_ids = {row["id"]: row["alias_of"] for row in rows}
    await connection.execute(query("remove_from_queue"), list(page_ids))
    return page_ids


async def save_moves(connection: Connection, moved: Mapping[int, int]) -> None:
    """Save the ids of the pages that other pages, given by id, have moved to."""
    await connection.execute(query("save_moves"), list(moved), list(moved.values()))


async def lock_expired_claims(connection: Connection, now: datetime, limit: int) -> list[tuple[int, str, Lease]]:
    """Lock expired claims. Return the URL id, the politeness key and the lease of each."""
    return [
        (url_id, key, Lease(holder, token, now, attempts))
        for url_id, key, holder, token, attempts in await connection.fetch(query("lock_expired_claims"), now, limit)
    ]


async def count_unfinished_urls(connection: Connection) -> tuple[int, int, datetime | None]:
    """Return the number of queued URLs, the number of leased ones among them, and when the next is due."""
    row = await connection.fetchrow(query("count_unfinished_urls"))
    assert row is not None
    return row["queued"], row["leased"], row["next_due"]


async def list_urls(
    connection: Connection, filters: UrlFilter, *, now: datetime, after: int = 0, limit: int
) -> list[UrlLine]:
    """List URLs by id. Must run inside a transaction."""
    ids = await _choose_urls(connection, filters, after, limit)
    rows = await connection.fetch(query("describe_urls"), ids, now, FOREVER) if ids else []
    return [UrlLine(**{**row, "status": FrontierStatus(row["status"])}) for row in rows]


async def _choose_urls(connection: Connection, filters: UrlFilter, after: int, limit: int) -> list[int]:
    await connection.execute(query("plan_for_values"))  # each mix of filters finds an index of its own
    status, reason, host = filters.status, filters.reason, filters.host
    source = await find_source_id(connection, filters.source)
    is_queued = status in (FrontierStatus.PENDING, FrontierStatus.FETCHING)
    stored = FrontierStatus.PENDING if is_queued else status
    if is_queued and reason is not None:
        return []  # only an ended URL has a reason
    if source and stored and not await connection.fetchval(query("count_urls_of_source"), source, stored):
        return []
    if is_queued:
        is_fetching = status == FrontierStatus.FETCHING
        rows = await connection.fetch(query("choose_queued_urls"), is_fetching, host, source, after, limit)
    elif host is None and reason != Reason.STORED and (reason or status == FrontierStatus.DEAD):
        rows = await connection.fetch(query("choose_ended_urls"), status, reason, source, after, limit)
    else:
        rows = await connection.fetch(query("choose_urls"), status, reason, host, source, after, limit)
    return [row["id"] for row in rows]


async def retry_urls(connection: Connection, url_ids: Collection[int], priority: int, now: datetime) -> set[int]:
    """Queue URLs again, whatever their end. Return the ids of the queued URLs, without those being fetched."""
    rows = await connection.fetch(query("retry_urls"), list(url_ids), priority, now)
    return {row["url_id"] for row in rows}


async def find_path_conflicts(
    connection: Connection, source_id: int, subpaths: Collection[str]
) -> dict[str, list[tuple[str, str]]]:
    """Return the pages of a source that conflict with places for raw files, as place and URL, by place.

    A page conflicts if it has the same place, one of the folders above it, or a place below it.
    """
    taken: dict[str, list[tuple[str, str]]] = {}
    for row in await connection.fetch(query("find_path_conflicts"), source_id, list(subpaths)):
        taken.setdefault(row["place"], []).append((row["subpath"], row["url"]))
    return taken


async def record_sightings(
    connection: Connection,
    urls: Mapping[int, datetime | None],
    source_id: int,
    origin: Origin,
    *,
    fetched_before: datetime,
    priority: int,
    now: datetime,
) -> list[int]:
    """Record that a source lists known URLs, given by id with the date of their last change, and fetch some again.

    Return the URLs that the source had not seen before. A page is fetched again if it changed after its last fetch and
    that was before `fetched_before`, or if it ended only because its source was removed.
    """
    changed = {url_id: moment for url_id, moment in urls.items() if moment and moment <= now}
    if changed:
        rows = await connection.fetch(query("outdated_urls"), list(changed), list(changed.values()), fetched_before)
        if rows:
            await retry_urls(connection, [row["id"] for row in rows], priority, now)
    await adopt_urls(connection, urls, source_id, origin, priority, now)
    rows = await connection.fetch(query("note_sightings"), list(urls), source_id, origin, now)
    return [row["url_id"] for row in rows]


async def adopt_urls(
    connection: Connection, url_ids: Collection[int], source_id: int, origin: Origin, priority: int, now: datetime
) -> None:
    """Queue URLs again that ended because their source was removed. Unfetched ones now belong to this source."""
    rows = await connection.fetch(query("adopt_urls"), list(url_ids), source_id, origin)
    if rows:
        await retry_urls(connection, [row["id"] for row in rows], priority, now)


async def has_removed_source(connection: Connection, url_ids: Iterable[int]) -> bool:
    """Return whether one of the URLs ended because its source was removed."""
    return bool(await connection.fetchval(query("has_removed_source"), list(url_ids)))


async def count_urls(connection: Connection) -> list[tuple[str, str | None, int]]:
    """Count URLs by status and reason."""
    return [(row["status"], row["reason"], row["urls"]) for row in await connection.fetch(query("count_urls"))]


async def count_leased_urls(connection: Connection) -> int:
    """Return the number of URLs that are being fetched."""
    value: int = await connection.fetchval(query("count_leased_urls"))
    return value


async def merge_frontier_counts(connection: Connection) -> None:
    """Merge the rows of the URL counts, which each change adds to. Must run inside a transaction."""
    await connection.execute(query("merge_frontier_counts"))
    await connection.execute(query("merge_source_urls"))


async def prune_log(connection: Connection, before: datetime, limit: int) -> int:
    """Delete attempts that ended before a time. Return how many."""
    return int((await connection.execute(query("prune_log"), before, limit)).rpartition(" ")[2])


async def is_dead(connection: Connection, url_id: int) -> bool:
    """Return whether a URL has ended without a page."""
    return bool(await connection.fetchval(query("is_dead"), url_id))
