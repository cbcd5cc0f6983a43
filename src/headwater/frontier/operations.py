"""What a door may ask of the frontier: submit, list, count, retry, and what an operator says of hosts."""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headwater.core.errors import InvalidURL, OperatorError
from headwater.core.frontier import Origin
from headwater.core.politeness import KEYS
from headwater.core.reasons import Reason
from headwater.core.url_input import explain_unstorable, redact
from headwater.core.urls import identify, url_hash
from headwater.db import frontier, hosts, sources
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection
from headwater.frontier import hosts as operator_hosts
from headwater.frontier.host_messages import tell_host
from headwater.frontier.hosts import is_key, read_host
from headwater.frontier.retry import PRIORITY, Retried, retry_all, retry_ids
from headwater.frontier.submit import Candidate, Submitted, priority, submit
from headwater.sources.registry import get_kind

BATCH = 1000
MANUAL = "manual"  # the source of what a person hands in without naming one
STATUSES = ("pending", "fetching", "fetched", "dead")
ENDED = ("fetched", "dead")
# Not the last moment there is: the driver would read that back as infinity, which has no time zone.
FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
HOST_STATES = ("closed", "in_use", "blocked", "waiting", "idle")
_NAMES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Handed:
    """What became of one URL that was handed in."""

    given: str  # fit to be shown
    url: str | None  # what it is called here; None: it was refused
    is_new: bool = False
    why_refused: str | None = None


class FrontierOperations:
    """The frontier's part of the desk; it reaches nothing but the database."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context
        self._key_of = KEYS[context.settings.politeness_scope]

    async def submit(self, urls: Sequence[str], source: str | None = None) -> Submitted:
        """Put a batch of URLs into the frontier in one transaction; each is known or refused afterwards."""
        now = self._context.clock.now()
        unusable = {url: why for url in urls if (why := explain_unstorable(url))}

        async def work(connection: Connection) -> Submitted:
            source_id, rank = await self._source(connection, source or MANUAL, now)
            batch = [Candidate(url, source_id, Origin.MANUAL, rank) for url in urls if url not in unusable]
            return await submit(connection, batch, now, self._key_of)

        submitted = await self._context.database.transact(work)
        return replace(submitted, refused=submitted.refused | unusable)

    async def hand_in(self, urls: Sequence[str], source: str | None = None) -> list[Handed]:
        """Submit URLs, a batch at a time; tell what became of each, in their order."""
        handed: list[Handed] = []
        for start in range(0, len(urls), BATCH):
            batch = urls[start : start + BATCH]
            handed += _tell_each(batch, await self.submit(batch, source))
        return handed

    async def _source(self, connection: Connection, name: str, now: datetime) -> tuple[int, int]:
        """Return a source's id and the priority of what is handed in for it."""
        if name != MANUAL:
            await _require_source(connection, name)
        source = await sources.get_source(connection, name)
        if source is None:
            await sources.add_source(connection, MANUAL, MANUAL, {}, now=now, due={})
            source = await sources.get_source(connection, MANUAL)
        if source is None or not await sources.prevent_removal(connection, source.id):
            raise OperatorError(f"The source {name} was removed just now.", reason=Reason.UNKNOWN_SOURCE)
        return source.id, priority(get_kind(source).priority, Origin.MANUAL)

    async def urls(self, *, limit: int = 10_000, after: int = 0, **filters: str | None) -> list[dict[str, Any]]:
        """List URLs by pages (`status`, `reason`, `host`, `source`, `after` an id), each with its end or its wait."""
        now = self._context.clock.now()

        async def work(connection: Connection) -> list[dict[str, Any]]:
            chosen = await _checked(connection, filters)
            return await frontier.list_urls(connection, now=now, limit=limit, after=after, **chosen)

        return [_with_end_of_wait(row) for row in await self._context.database.transact(work)]

    async def count(self, **filters: str | None) -> int | None:
        """Count the URLs that filters choose, where that is known without looking at each; else None."""
        if filters.get("host") or filters.get("source"):
            return None
        async with self._context.database.connection() as connection:
            chosen = await _checked(connection, filters)
            counts = await frontier.url_counts(connection)
        return sum(
            urls
            for status, reason, urls in counts
            if chosen.get("status") in (None, status) and chosen.get("reason") in (None, reason)
        )

    async def stats(self) -> dict[str, Any]:
        """Count URLs by status and reason, and hosts by what keeps them; nothing is scanned for it."""
        async with self._context.database.connection() as connection:
            fetching = await frontier.leased_urls(connection)
            counts = await frontier.url_counts(connection)
            by_host = await hosts.count_hosts(connection, self._context.clock.now())
        by_status = dict.fromkeys(STATUSES, 0)
        for status, _, urls in counts:
            by_status[status] += urls
        # Looked at one after the other, so that more may be leased than are pending.
        by_status |= {"fetching": fetching, "pending": max(0, by_status["pending"] - fetching)}
        reasons = {status: {reason: n for s, reason, n in counts if s == status} for status in ENDED}
        return {"urls": by_status, "reasons": reasons, "hosts": by_host}

    async def retry(self, urls: Sequence[str], priority: int = PRIORITY) -> tuple[list[str], list[str]]:
        """Queue URLs again; return those that are queued now and those that are being fetched. All must be known."""
        async with self._context.database.connection() as connection:
            keeps_slash = await hosts.slash_hosts(connection)
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
        queued = await retry_ids(self._context.database, ids.values(), self._context.clock.now(), priority)
        return [url for url in ids if ids[url] in queued], [url for url in ids if ids[url] not in queued]

    async def retry_all(
        self, filters: dict[str, str | None], priority: int = PRIORITY, after: int = 0
    ) -> AsyncIterator[Retried]:
        """Queue all URLs again that filters choose, of which there must be one, from an id on, a slice at a time."""
        if not any(filters.values()):
            raise OperatorError(
                "Choose what to fetch again: by status, reason, host or source.", reason=Reason.BAD_REQUEST
            )
        if filters.get("status") not in (None, *ENDED):
            raise OperatorError("Only what ended can be chosen: fetched or dead.", reason=Reason.BAD_REQUEST)
        async with self._context.database.connection() as connection:
            chosen = await _checked(connection, filters)
        async for retried in retry_all(
            self._context.database, self._context.clock.now(), chosen, priority=priority, after=after
        ):
            yield retried

    async def hosts(self, *, state: str | None = None, after: str = "", limit: int = 50) -> list[dict[str, Any]]:
        """List hosts by name, by pages, each with its state and why it is so."""
        if state is not None:
            _require_one_of("state", state, HOST_STATES)
        return await self._hosts(state=state, after=_storable(after), limit=limit)

    async def host(self, host: str) -> dict[str, Any]:
        """Return one host, in the same words."""
        name = read_host(host)
        for row in await self._hosts(only=name, limit=1):
            return row
        raise OperatorError(f"{name} has never been seen here.", reason=Reason.UNKNOWN_HOST)

    async def _hosts(self, **chosen: Any) -> list[dict[str, Any]]:
        now = self._context.clock.now()
        rows = await self._context.database.transact(lambda connection: hosts.list_hosts(connection, now=now, **chosen))
        return [tell_host(row, now, self._context.settings.host_delay_ms, FOREVER) for row in rows]

    async def close_host(self, host: str, lasting: timedelta | None = None) -> str:
        """Ask nothing of a host for so long, or until it is opened again; return its name."""
        name = read_host(host)
        until = self._context.clock.now() + lasting if lasting else FOREVER
        await operator_hosts.close_host(self._context.database, name, until, self._key_of)
        return name

    async def open_host(self, host: str) -> str:
        """Take back what closed or slowed a host; return its name."""
        name = read_host(host)
        delay_ms = self._context.settings.host_delay_ms
        await operator_hosts.open_host(self._context.database, name, self._context.clock.now(), delay_ms)
        return name

    async def group_hosts(self, group: str, members: Collection[str]) -> list[str]:
        """Let hosts share one turn; return their names."""
        names = [read_host(host) for host in members]
        await operator_hosts.group_hosts(self._context.database, group, names, self._key_of)
        return names

    async def ungroup_hosts(self, members: Collection[str]) -> list[str]:
        """Let hosts have the turn again that the settings give them; return their names."""
        names = [read_host(host) for host in members]
        await operator_hosts.ungroup_hosts(self._context.database, names, self._key_of)
        return names

    async def keep_slash(self, host: str, keeps: bool) -> str:
        """Let /a/ and /a be two pages of a host, or one; return its name."""
        name = read_host(host)
        await operator_hosts.keep_slash(self._context.database, name, keeps, self._key_of)
        return name


def _tell_each(urls: Sequence[str], submitted: Submitted) -> list[Handed]:
    """Tell what became of each URL; what was given twice is new once."""
    told: list[Handed] = []
    seen: set[int] = set()
    for url in urls:
        if why := submitted.refused.get(url):
            told.append(Handed(redact(url), None, why_refused=why))
            continue
        identity = submitted.known[url]
        told.append(Handed(url, identity.url, identity.is_new and identity.id not in seen))
        seen.add(identity.id)
    return told


def _with_end_of_wait(row: dict[str, Any]) -> dict[str, Any]:
    """Leave out when a URL is due that waits until somebody opens its host."""
    return row | {"due_at": None} if row["due_at"] == FOREVER else row


async def _checked(connection: Connection, filters: dict[str, str | None]) -> dict[str, str]:
    """Return the filters that are set; refuse what nothing can match, naming what there is."""
    chosen = {name: value for name, value in filters.items() if value is not None}
    if status := chosen.get("status"):
        _require_one_of("status", status, STATUSES)
    if reason := chosen.get("reason"):
        await _require_reason(connection, reason, status)
    if source := chosen.get("source"):
        await _require_source(connection, source)
    if host := chosen.get("host"):
        chosen["host"] = await _known_host(connection, host)
    return chosen


def _require_one_of(what: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise OperatorError(
            f"There is no {what} {redact(value)!r}: choose one of {', '.join(choices)}.", reason=Reason.BAD_REQUEST
        )


async def _require_reason(connection: Connection, reason: str, status: str | None) -> None:
    if status in ("pending", "fetching"):
        raise OperatorError(
            f"What is {status} has not ended, so it has no reason yet: leave one of the two out.",
            reason=Reason.BAD_REQUEST,
        )
    if reason not in list(Reason):
        there_are = sorted({found for _, found, _ in await frontier.url_counts(connection) if found})
        raise OperatorError(
            f"There is no reason {redact(reason)!r}. URLs have ended here with {_listed(there_are)}.",
            reason=Reason.BAD_REQUEST,
        )


async def _require_source(connection: Connection, name: str) -> None:
    names = [source.name for source in await sources.get_all_sources(connection)]
    if name not in names:
        raise OperatorError(
            f"There is no source named {redact(name)}. There are {_listed(names)}.", reason=Reason.UNKNOWN_SOURCE
        )


async def _known_host(connection: Connection, text: str) -> str:
    name = read_host(text)
    if is_key(name):
        raise OperatorError(f"{name} is a turn that hosts share; name a host.", reason=Reason.BAD_REQUEST)
    if await hosts.get_host(connection, name) is None:
        raise OperatorError(f"{name} has never been seen here.", reason=Reason.UNKNOWN_HOST)
    return name


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return (", ".join(names[:_NAMES_SHOWN]) or "none so far") + (f" and {more} more" if more > 0 else "")


def _storable(text: str) -> str:
    """Leave out of a question what no stored text can hold."""
    return text.replace("\0", "").encode(errors="replace").decode()
