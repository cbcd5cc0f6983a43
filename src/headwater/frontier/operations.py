"""Operations on the frontier: submit, list, count and retry URLs; list and change hosts. They use only the database."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from headwater.core.errors import BadRequest, InvalidURL, OperatorError
from headwater.core.frontier import Candidate, FrontierStatus, HostState, Origin, UrlFilter
from headwater.core.politeness import KEYS
from headwater.core.reasons import Reason
from headwater.core.record import extend, record
from headwater.core.source import Source
from headwater.core.text import make_storable
from headwater.core.url_input import explain_unstorable, redact
from headwater.core.urls import identify, url_hash
from headwater.db import frontier, hosts, sources
from headwater.db.context import DatabaseContext
from headwater.db.frontier import UrlLine
from headwater.db.hosts import FOREVER, HostCounts
from headwater.db.pool import Connection, has_fetcher
from headwater.frontier import hosts as host_changes
from headwater.frontier.host_lines import HostDetails as HostDetails
from headwater.frontier.host_lines import HostLine as HostLine
from headwater.frontier.host_lines import describe_host
from headwater.frontier.hosts import read_host, require_hosts, unknown_host
from headwater.frontier.retry import PRIORITY, Retried, RetriedSlice, retry_all, retry_urls
from headwater.frontier.submit import priority, submit

LARGEST_BATCH = 10_000
BATCH = 1000
MANUAL = "manual"  # the source of submitted URLs without another source
_ENDED = (FrontierStatus.FETCHED, FrontierStatus.DEAD)
_MOST_NAMES = 20
_CREATE_SOURCE = "`headwater source add NAME --kind manual`"
_ANY = UrlFilter()
SavePageItems = Callable[[Connection, Collection[int], str, datetime], Awaitable[None]]


@record
class SubmittedUrl:
    """The result of submitting one URL."""

    given: str
    """As it was given, without a password and cut if it is long."""
    url: str | None
    """Its normalized form; null if it was refused."""
    is_new: bool = False
    refusal: str | None = None
    """Why it was refused."""


@record
class UrlPage:
    """A page of URLs by id."""

    urls: list[UrlLine]
    next: int | None
    """The `after` of the next page; null on the last page."""


@record
class HostPage:
    """A page of hosts by name."""

    hosts: list[HostLine]
    next: str | None
    """The `after` of the next page; null on the last page."""


@record
class ReleasedHosts:
    """The result of releasing all hosts."""

    released: int
    """Hosts that share a turn count as one."""


@record
class FrontierStats:
    """The number of URLs and hosts, from counters that each change keeps up to date."""

    urls: dict[FrontierStatus, int]
    reasons: dict[FrontierStatus, dict[str, int]]
    """The fetched and the dead URLs by reason."""
    hosts: HostCounts
    oldest_due_at: datetime | None
    """The earliest time at which a host may be asked for a queued URL. In the past: a URL waits for a worker."""


@record
class RetriedUrls:
    """The result of a retry by URL."""

    queued: list[str]
    fetching: list[str]
    """Workers fetch these URLs now, so they stay as they are."""


@record
class RetriedPage(Retried):
    """The result of one request for a retry."""

    next: int | None
    """The `after` of the next request; null if all matching URLs are queued."""


class FrontierOperations:
    """Operations on the frontier.

    `save_page_items` saves the items of stored pages (documents/page_items.py), which are above this package.
    """

    def __init__(
        self, context: DatabaseContext, get_priority: Callable[[Source], int], save_page_items: SavePageItems
    ) -> None:
        self._context = context
        self._get_priority = get_priority
        self._save_page_items = save_page_items
        self._database = context.database
        self._clock = context.clock
        self._key_of = KEYS[context.settings.politeness_scope]

    async def submit(
        self, urls: Sequence[str], source: str | None = None, priority: int | None = None
    ) -> list[SubmittedUrl]:
        """Submit URLs for a source in batches. Return the result of each, in their order.

        A known URL becomes a sighting of the source. If its page is stored, the source has it as an item at once.
        """
        submitted: list[SubmittedUrl] = []
        for start in range(0, len(urls), BATCH):
            submitted += await self._submit_batch(urls[start : start + BATCH], source or MANUAL, priority)
        return submitted

    async def has_fetcher(self) -> bool:
        """Return whether a process that fetches pages runs on this database."""
        return await self._database.run(has_fetcher)

    async def _submit_batch(self, urls: Sequence[str], source: str, chosen: int | None) -> list[SubmittedUrl]:
        now = self._clock.now()
        refused = {url: why for url in urls if (why := explain_unstorable(url))}

        async def work(connection: Connection) -> list[SubmittedUrl]:
            source_id, usual = await self._lock_source(connection, source, now)
            rank = chosen or usual
            batch = [Candidate(url, source_id, Origin.MANUAL, rank) for url in urls if url not in refused]
            submitted = await submit(connection, batch, now, self._key_of)
            refusals = submitted.refused | refused
            new = {known.id for known in submitted.known.values() if known.is_new}
            earlier = dict.fromkeys({known.id for known in submitted.known.values()} - new)
            if earlier:
                first_seen = await frontier.record_sightings(
                    connection, earlier, source_id, Origin.MANUAL, fetched_before=now, priority=rank, now=now
                )
                await self._save_page_items(connection, first_seen, self._context.settings.timezone, now)
            results = []
            for url in urls:
                if url in refusals:
                    results.append(SubmittedUrl(redact(url), None, refusal=refusals[url]))
                    continue
                known = submitted.known[url]
                results.append(SubmittedUrl(url, known.url, known.id in new))
                new.discard(known.id)  # a URL that is given twice is new once
            return results

        return await self._database.transact(work)

    async def _lock_source(self, connection: Connection, name: str, now: datetime) -> tuple[int, int]:
        """Return a source's id and the priority of the URLs submitted for it."""
        if name != MANUAL:
            await _require_source(connection, name, f" {_CREATE_SOURCE} creates one for the URLs that you submit.")
        source = await sources.get_source(connection, name)
        if source is None:
            await sources.add_source(connection, MANUAL, MANUAL, {}, now=now, due={})
            source = await sources.get_source(connection, MANUAL)
        if source is None or not await sources.prevent_removal(connection, source.id):
            raise OperatorError(f"The source {name} was removed just now.", reason=Reason.UNKNOWN_SOURCE)
        return source.id, priority(self._get_priority(source), Origin.MANUAL)

    async def list_urls(self, filters: UrlFilter = _ANY, *, limit: int = 10_000, after: int = 0) -> UrlPage:
        """List matching URLs by id, each with its end or its wait."""

        async def work(connection: Connection) -> list[UrlLine]:
            checked = await _check(connection, filters)
            return await frontier.list_urls(connection, checked, now=self._clock.now(), after=after, limit=limit)

        urls = await self._database.transact(work)
        return UrlPage(urls, urls[-1].id if len(urls) == limit else None)

    async def count_urls(self, filters: UrlFilter) -> int | None:
        """Count the matching URLs if counters have the number; else return None."""
        if filters.host or filters.source:
            return None
        async with self._database.connection() as connection:
            await _check(connection, filters)
            counts = await frontier.count_urls(connection)
        return sum(
            urls
            for status, reason, urls in counts
            if filters.status in (None, status) and filters.reason in (None, reason)
        )

    async def get_stats(self) -> FrontierStats:
        """Count URLs by status and reason, and hosts by state. This scans no table."""
        async with self._database.connection() as connection:
            fetching = await frontier.count_leased_urls(connection)
            counts = await frontier.count_urls(connection)
            now = self._clock.now()
            by_host = await hosts.count_hosts(connection, now)
            oldest = await hosts.get_next_ready(connection, now)
        urls = dict.fromkeys(FrontierStatus, 0)
        for status, _, count in counts:
            urls[FrontierStatus(status)] += count
        # One query follows the other, so more URLs may be leased than pending.
        urls[FrontierStatus.FETCHING] = fetching
        urls[FrontierStatus.PENDING] = max(0, urls[FrontierStatus.PENDING] - fetching)
        reasons = {
            ended: {reason: count for status, reason, count in counts if status == ended and reason} for ended in _ENDED
        }
        return FrontierStats(urls, reasons, by_host, oldest if oldest is None or oldest < FOREVER else None)

    async def retry(self, urls: Sequence[str], priority: int = PRIORITY) -> RetriedUrls:
        """Queue known URLs again, whatever their end."""
        async with self._database.connection() as connection:
            keeps_slash = await hosts.list_slash_hosts(connection)
            try:
                digests = {url: url_hash(identify(url, keeps_slash=keeps_slash)[0]) for url in urls}
            except InvalidURL as error:
                given = f"{redact(error.url)}: " if error.url else ""
                raise InvalidURL(f"{given}{error} Nothing was queued.", url=error.url) from None
            found = await frontier.find_urls(connection, digests.values())
        unknown = [url for url, digest in digests.items() if digest not in found]
        if unknown:
            raise OperatorError(
                f"{redact(unknown[0])} has never been seen here; nothing was queued.", reason=Reason.UNKNOWN_URL
            )
        ids = {url: found[digest] for url, digest in digests.items()}
        now = self._clock.now()
        queued = await self._database.transact(retry_urls, ids.values(), priority, now)
        return RetriedUrls([url for url in ids if ids[url] in queued], [url for url in ids if ids[url] not in queued])

    async def retry_all(
        self, filters: UrlFilter, priority: int = PRIORITY, after: int = 0
    ) -> AsyncIterator[RetriedSlice]:
        """Queue all ended URLs again that match at least one filter, from an id on, slice by slice."""
        if filters == _ANY:
            raise BadRequest("Choose the URLs to retry: by status, reason, host or source.")
        if filters.status not in (None, *_ENDED):
            raise BadRequest("Only ended URLs can be retried: fetched or dead.")
        checked = await self._database.run(_check, filters)
        async for retried in retry_all(self._database, self._clock.now(), checked, priority, after):
            yield retried

    async def retry_page(self, filters: UrlFilter, priority: int, after: int) -> RetriedPage:
        """Queue about LARGEST_BATCH matching URLs again, from an id on."""
        queued = fetching = 0
        async for retried in self.retry_all(filters, priority, after):
            queued += retried.queued
            fetching += retried.fetching
            if queued + fetching >= LARGEST_BATCH:
                return RetriedPage(queued, fetching, retried.last)
        return RetriedPage(queued, fetching, None)

    async def list_hosts(self, *, state: str | None = None, after: str = "", limit: int = 50) -> HostPage:
        """List hosts by name, each with its state and the reason of it."""
        _require_one_of("state", state, HostState)
        lines = await self._list_hosts(state=state, after=make_storable(after), limit=limit)
        return HostPage(lines, lines[-1].host if len(lines) == limit else None)

    async def get_host(self, host: str) -> HostLine:
        """Return a host."""
        name = read_host(host)
        for line in await self._list_hosts(only=name, limit=1):
            return line
        raise unknown_host(name)

    async def show_host(self, host: str) -> HostDetails:
        """Return a host with its robots.txt."""
        line = await self.get_host(host)
        facts = await self._database.run(hosts.get_host, line.host)
        return extend(line, HostDetails, robots_txt=facts.robots_txt if facts else None)

    async def _list_hosts(
        self, *, state: str | None = None, after: str = "", limit: int, only: str | None = None
    ) -> list[HostLine]:
        now, delay_ms = self._clock.now(), self._context.settings.host_delay_ms
        rows = await self._database.transact(
            hosts.list_hosts, now, delay_ms, state=state, after=after, limit=limit, only=only
        )
        return [describe_host(row, now) for row in rows]

    async def close_host(self, host: str, lasting: timedelta | None = None) -> HostLine:
        """Send no request to a host for some time, or until it is released."""
        until = self._clock.now() + lasting if lasting else FOREVER
        await self._database.transact(host_changes.close_host, read_host(host), until, self._key_of)
        return await self.get_host(host)

    async def open_host(self, host: str) -> HostLine:
        """Release a closed, blocked or slowed host."""
        delay_ms = self._context.settings.host_delay_ms
        await self._database.transact(host_changes.open_host, read_host(host), self._clock.now(), delay_ms)
        return await self.get_host(host)

    async def open_all_hosts(self) -> ReleasedHosts:
        """Release all closed, blocked and slowed hosts."""
        delay_ms = self._context.settings.host_delay_ms
        return ReleasedHosts(await host_changes.open_all_hosts(self._database, self._clock.now(), delay_ms))

    async def group_hosts(self, group: str, members: Collection[str]) -> list[HostLine]:
        """Give hosts one turn, with the delay of the slowest of them."""
        names = [read_host(host) for host in members]
        await host_changes.group_hosts(self._database, group, names, self._key_of)
        return [await self.get_host(name) for name in names]

    async def ungroup_hosts(self, members: Collection[str]) -> list[HostLine]:
        """Give hosts the turn back that the settings say."""
        names = [read_host(host) for host in members]
        await host_changes.ungroup_hosts(self._database, names, self._key_of)
        return [await self.get_host(name) for name in names]

    async def keep_slash(self, host: str, keeps: bool) -> HostLine:
        """Make /a/ and /a two pages of a host, or one. Known URLs stay as they are."""
        await self._database.transact(host_changes.keep_slash, read_host(host), keeps, self._key_of)
        return await self.get_host(host)


async def _check(connection: Connection, filters: UrlFilter) -> UrlFilter:
    """Return the filters with the host's name as it is stored. Refuse values that no URL can have."""
    _require_one_of("status", filters.status, FrontierStatus)
    if filters.reason is not None:
        await _require_reason(connection, filters.reason, filters.status)
    if filters.source is not None:
        await _require_source(connection, filters.source)
    if filters.host is None:
        return filters
    name = read_host(filters.host)
    require_hosts(name)
    if await hosts.get_politeness_key(connection, name) is None:
        raise unknown_host(name)
    return replace(filters, host=name)


def _require_one_of(what: str, value: str | None, choices: Iterable[str]) -> None:
    if value is not None and value not in list(choices):
        raise BadRequest(f"There is no {what} {redact(value)!r}: choose one of {', '.join(choices)}.")


async def _require_reason(connection: Connection, reason: str, status: str | None) -> None:
    if status in (FrontierStatus.PENDING, FrontierStatus.FETCHING):
        raise BadRequest(f"A URL that is {status} has no reason yet: leave one of the two filters out.")
    if reason not in list(Reason):
        known = sorted({found for _, found, _ in await frontier.count_urls(connection) if found})
        raise BadRequest(f"There is no reason {redact(reason)!r}. URLs have ended here with {_join(known)}.")


async def _require_source(connection: Connection, name: str, advice: str = "") -> None:
    if await sources.get_source(connection, name) is None:
        names = [source.name for source in await sources.get_all_sources(connection)]
        raise OperatorError(
            f"There is no source named {redact(name)}. There are {_join(names)}.{advice}", reason=Reason.UNKNOWN_SOURCE
        )


def _join(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return (", ".join(names[:_MOST_NAMES]) or "none so far") + (f" and {more} more" if more > 0 else "")
