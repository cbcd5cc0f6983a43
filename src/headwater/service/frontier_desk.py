"""What a door may ask of the frontier: submit, list, count, retry, and what an operator says of hosts."""

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from headwater.errors import OperatorError
from headwater.frontier import hosts as operator_hosts
from headwater.frontier.hosts import read_host
from headwater.frontier.retry import PRIORITY, retry_all, retry_ids
from headwater.frontier.submit import Candidate, Submitted, find, submit
from headwater.model.frontier import Origin
from headwater.model.reasons import Reason
from headwater.policy.politeness import KEYS
from headwater.policy.priority import priority
from headwater.service.parts import Records
from headwater.sources.registry import kind_of
from headwater.store import frontier, hosts, sources
from headwater.store.pool import Connection

BATCH = 1000
MANUAL = "manual"  # the source of what a person hands in without naming one
STATUSES = ("pending", "fetching", "fetched", "dead")
# Not the last moment there is: the driver would read that back as infinity, which has no time zone.
FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
HOST_STATES = ("closed", "in_use", "blocked", "waiting", "idle")


class FrontierDesk:
    """The frontier's part of the desk; it reaches nothing but the database."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._key_of = KEYS[records.settings.politeness_by]

    async def submit(self, urls: Sequence[str], source: str | None = None) -> Submitted:
        """Put a batch of URLs into the frontier in one transaction; each is known or refused afterwards."""
        now = self._records.clock.now()

        async def work(connection: Connection) -> Submitted:
            source_id, rank = await self._source(connection, source or MANUAL, now)
            batch = [Candidate(url, source_id, Origin.MANUAL, rank) for url in urls]
            return await submit(connection, batch, now, self._key_of)

        return await self._records.database.transact(work)

    async def _source(self, connection: Connection, name: str, now: datetime) -> tuple[int, int]:
        """Return a source's id and the priority of what is handed in for it."""
        if name == MANUAL:
            await sources.add_source(connection, MANUAL, MANUAL, {}, now=now, next_poll_at=None)
        source = await sources.get_source(connection, name)
        if source is None:
            raise OperatorError(f"There is no source named {name}.", reason=Reason.UNKNOWN_SOURCE)
        return source.id, priority(kind_of(source).priority, Origin.MANUAL)

    async def urls(self, *, limit: int = 10_000, **filters: Any) -> list[dict[str, Any]]:
        """List URLs by pages (`status`, `reason`, `host`, `source`, `after` an id), each with its end or its wait."""
        now = self._records.clock.now()
        return await self._records.database.transact(
            lambda connection: frontier.list_urls(connection, now=now, limit=limit, **filters)
        )

    async def stats(self) -> dict[str, Any]:
        """Count URLs by status and reason, and hosts by what keeps them; nothing is scanned for it."""
        async with self._records.database.connection() as connection:
            counts = await frontier.url_counts(connection)
            fetching = await frontier.leased_urls(connection)
            by_host = await hosts.count_hosts(connection, self._records.clock.now())
        by_status = dict.fromkeys(STATUSES, 0) | {"fetching": fetching}
        for status, _, urls in counts:
            by_status[status] += urls
        by_status["pending"] -= fetching
        reasons = {status: {reason: n for s, reason, n in counts if s == status} for status in ("fetched", "dead")}
        return {"urls": by_status, "reasons": reasons, "hosts": by_host}

    async def retry(self, urls: Sequence[str], priority: int = PRIORITY) -> tuple[list[str], list[str]]:
        """Queue URLs again; return those that are queued now and those that are being fetched. All must be known."""
        async with self._records.database.connection() as connection:
            found = {url: await find(connection, url) for url in urls}
        unknown = [url for url, identity in found.items() if identity is None]
        if unknown:
            raise OperatorError(
                f"{unknown[0]} has never been seen here; nothing was queued.", reason=Reason.UNKNOWN_URL
            )
        ids = {url: identity.id for url, identity in found.items() if identity}
        queued = await retry_ids(self._records.database, ids.values(), self._records.clock.now(), priority)
        return [url for url in urls if ids[url] in queued], [url for url in urls if ids[url] not in queued]

    def retry_all(self, filters: dict[str, Any], priority: int = PRIORITY) -> AsyncIterator[int]:
        """Queue all URLs again that filters choose, a slice at a time; yield how many each slice had."""
        return retry_all(self._records.database, self._records.clock.now(), filters, priority)

    async def hosts(self, *, state: str | None = None, after: str = "", limit: int = 50) -> list[dict[str, Any]]:
        """List hosts by name, by pages."""
        async with self._records.database.connection() as connection:
            return await hosts.list_hosts(
                connection, now=self._records.clock.now(), state=state, after=after, limit=limit
            )

    async def close_host(self, host: str, lasting: timedelta | None = None) -> str:
        """Ask nothing of a host for so long, or until it is opened again; return its name."""
        name = read_host(host)
        until = self._records.clock.now() + lasting if lasting else FOREVER
        await operator_hosts.close_host(self._records.database, name, until, self._key_of)
        return name

    async def open_host(self, host: str) -> str:
        """Take back what closed or slowed a host; return its name."""
        name = read_host(host)
        delay_ms = self._records.settings.host_delay_ms
        await operator_hosts.open_host(self._records.database, name, self._records.clock.now(), delay_ms)
        return name

    async def group_hosts(self, group: str, members: Collection[str]) -> list[str]:
        """Let hosts share one turn; return their names."""
        names = [read_host(host) for host in members]
        await operator_hosts.group_hosts(self._records.database, group, names)
        return names

    async def ungroup_hosts(self, members: Collection[str]) -> list[str]:
        """Let hosts have their own turn again; return their names."""
        names = [read_host(host) for host in members]
        await operator_hosts.ungroup_hosts(self._records.database, names)
        return names

    async def keep_slash(self, host: str, keeps: bool) -> str:
        """Let /a/ and /a be two pages of a host, or one; return its name."""
        name = read_host(host)
        await operator_hosts.keep_slash(self._records.database, name, keeps, self._key_of)
        return name
