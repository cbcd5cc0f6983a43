"""Hosts and their turns: queries/hosts.sql as typed functions."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from headwater.core.frontier import HostRecord, HostRelease, HostState
from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.db.pool import Connection
from headwater.db.sql import query, to_record

FOREVER = datetime(9999, 12, 31, tzinfo=UTC)  # the driver reads the last moment of PostgreSQL without a time zone


@record
class HostRow:
    """A host, or a turn that several hosts share (`group:`, `domain:`)."""

    host: str
    state: HostState
    next_turn_at: datetime | None
    """Null if it is in use, idle, or closed until it is released."""
    delay_ms: int
    """The delay between two requests, unless a source sets another."""
    crawl_delay_ms: int | None
    """The Crawl-delay of its robots.txt, capped."""
    backoff_ms: int
    """The least delay after the host throttled us; 0: it did not."""
    blocked_reason: str | None
    """Null unless it is blocked now."""
    silent_since: datetime | None
    """When the first request was sent that it did not answer. Null if it answered the last one."""
    failure: str | None
    """Why its last request failed. Null if it was answered."""
    failed_at: datetime | None
    queued: int | None
    """Counted to 1,001 at most; null if it shares another turn."""
    shares_turn_of: str | None
    keeps_slash: bool
    """Whether /a/ and /a are two pages."""
    robots_fetched_at: datetime | None
    in_use_by: str | None


@record
class HostCounts:
    """The number of hosts in some states. A host may be in several."""

    with_work: int
    in_use: int
    blocked: int
    closed: int


@record
class HostFacts:
    """A host, and the turn that its URLs wait for."""

    host: str
    politeness_key: str
    not_before: datetime
    crawl_delay_ms: int | None
    backoff_ms: int
    last_throttled_at: datetime | None
    blocked_reason: Reason | None
    closed_until: datetime | None
    robots_txt: str | None
    robots_fetched_at: datetime | None
    lease_holder: str | None
    silent_since: datetime | None
    failures: int
    failure: Reason | None
    failed_at: datetime | None
    retry_at: datetime | None


def read_host_record(row: Mapping[str, Any]) -> HostRecord:
    """Read the record of a host from a row with its columns."""
    known = dict(zip(HostRecord.__slots__, map(row.__getitem__, HostRecord.__slots__), strict=True))
    return HostRecord(**{**known, "failure": known["failure"] and Reason.of(known["failure"])})


async def get_or_create_host(connection: Connection, host: str, new_key: str) -> HostRecord:
    """Return a host's politeness key and robots.txt. A new host gets the politeness key `new_key`."""
    row = await connection.fetchrow(query("get_or_create_host"), host, new_key)
    if row is None:  # another process created it at the same moment
        return await get_or_create_host(connection, host, new_key)
    return read_host_record({"crawl_delay_ms": None, "backoff_ms": 0, "last_throttled_at": None, **row, "host": host})


async def add_hosts(connection: Connection, new_keys: Mapping[str, str]) -> None:
    """Create the hosts that have no row yet, each with the politeness key given for it."""
    await connection.execute(query("add_hosts"), list(new_keys), list(new_keys.values()))


async def lease_hosts(
    connection: Connection, leases: Sequence[tuple[str, Lease]], now: datetime, default_delay_ms: int
) -> list[tuple[HostRecord | None, bool]]:
    """Lease hosts for polls. Return the record of each known host, and whether it is leased now.

    The leases differ only in their tokens.
    """
    lease = leases[0][1]
    rows = await connection.fetch(
        query("lease_hosts"),
        [host for host, _ in leases],
        [lease.token for _, lease in leases],
        now,
        lease.holder,
        lease.until,
        default_delay_ms,
    )
    answers = {row["token"]: (read_host_record(row), row["is_leased"]) for row in rows}
    return [answers.get(lease.token, (None, False)) for _, lease in leases]


async def reserve_host(
    connection: Connection, key: str, now: datetime, beyond: timedelta
) -> tuple[datetime, bool, Reason | None]:
    """Make claims leave a host to a waiting poll. Return its next turn, whether it is in use, and why it is blocked."""
    row = await connection.fetchrow(query("reserve_host"), key, now, beyond)
    assert row is not None, "a host without a lease for us has a row"
    blocked = Reason.of(row["blocked_reason"]) if row["blocked_reason"] else None
    return row["not_before"], row["is_leased"], blocked


async def release_hosts(connection: Connection, releases: Collection[HostRelease]) -> set[str]:
    """Release the hosts of claimed URLs. Return the released politeness keys. Must run inside a transaction."""
    columns = list(zip(*releases, strict=True))
    await connection.execute(query("lock_hosts"), columns[0])
    return {row["host"] for row in await connection.fetch(query("release_hosts"), *columns)}


async def release_polled_hosts(connection: Connection, releases: Collection[HostRelease], *, is_lazy: bool) -> None:
    """Release the hosts of polls. This is one statement, and so a transaction by itself.

    A lazy release does not wait for the disk. If the server dies before the write, the leases still end in time.
    """
    await connection.execute(query("release_polled_hosts"), *zip(*releases, strict=True), is_lazy)


async def set_next_work(connection: Connection, hosts: Collection[str]) -> None:
    """Set when hosts without a lease have work next. Must run inside a transaction."""
    await connection.fetch(query("lock_hosts"), list(hosts))
    await connection.execute(query("set_next_work"), list(hosts))


async def find_forgotten_hosts(connection: Connection, after: str, limit: int) -> tuple[list[str], str | None]:
    """Among the next hosts by name, return those with work that no claim would find, and the last host checked."""
    row = await connection.fetchrow(query("find_forgotten_hosts"), after, limit)
    assert row is not None
    return row["forgotten"], row["last"]


async def lock_expired_hosts(connection: Connection, now: datetime, limit: int) -> list[HostRelease]:
    """Lock hosts whose lease has ended. Return how to release each."""
    return [HostRelease(*row) for row in await connection.fetch(query("lock_expired_hosts"), now, limit)]


async def save_robots(
    connection: Connection, host: HostRecord, text: str | None, crawl_delay_ms: int | None, now: datetime
) -> int | None:
    """Save a host's robots.txt and Crawl-delay. Return the delay in force, which is its group's if it has one."""
    row = await connection.fetchrow(query("save_robots"), host.host, text, crawl_delay_ms, now)
    return row["crawl_delay_ms"] if row else crawl_delay_ms


async def save_failure(connection: Connection, host: HostRecord) -> None:
    """Save the failures of a host."""
    await connection.execute(
        query("save_failure"), host.host, host.silent_since, host.failures, host.failure, host.failed_at, host.retry_at
    )


async def revive_hosts(connection: Connection, url_ids: Collection[int]) -> None:
    """Forget the failures of the hosts of URLs that ended because their host was gone."""
    await connection.execute(query("revive_hosts"), list(url_ids))


async def get_next_ready(connection: Connection, now: datetime) -> datetime | None:
    """Return when the next queued URL may be claimed; None if the queue is empty."""
    value: datetime | None = await connection.fetchval(query("get_next_ready"), now)
    return value


async def count_hosts(connection: Connection, now: datetime) -> HostCounts:
    """Count the hosts by state."""
    row = await connection.fetchrow(query("count_hosts"), now)
    assert row is not None
    return HostCounts(**row)


async def list_slash_hosts(connection: Connection) -> frozenset[str]:
    """Return the hosts that keep trailing slashes."""
    return frozenset(row["host"] for row in await connection.fetch(query("list_slash_hosts")))


async def list_hosts(
    connection: Connection, now: datetime, delay_ms: int, *, state: str | None, after: str, limit: int, only: str | None
) -> list[HostRow]:
    """List hosts by name. Must run inside a transaction."""
    await connection.execute(query("plan_for_values"))
    rows = await connection.fetch(query("list_hosts"), state, after, limit, now, only, delay_ms, FOREVER)
    return [HostRow(**{**row, "state": HostState(row["state"])}) for row in rows]


async def get_host(connection: Connection, host: str) -> HostFacts | None:
    """Return a host, with the turn of its politeness key."""
    row = await connection.fetchrow(query("get_host"), host)
    if row is None:
        return None
    # The driver returns infinite times without a time zone.
    times = {name: row[name] and row[name].replace(tzinfo=UTC) for name in ("not_before", "closed_until")}
    return to_record(HostFacts, row, **times)


async def get_politeness_key(connection: Connection, host: str) -> str | None:
    """Return the politeness key of a host; None for an unknown host."""
    known = await get_host(connection, host)
    return known.politeness_key if known else None


async def close_host(connection: Connection, key: str, until: datetime) -> None:
    """Close a host until a time, in place of an earlier one. Must run inside a transaction."""
    await connection.execute(query("close_host"), key, until)
    await set_next_work(connection, [key])


async def find_held_hosts(connection: Connection, after: str, now: datetime, limit: int) -> list[str]:
    """Return the next politeness keys by name that are closed, blocked or slowed."""
    return [row["host"] for row in await connection.fetch(query("find_held_hosts"), after, now, limit)]


async def open_hosts(connection: Connection, keys: Collection[str], now: datetime, default_delay_ms: int) -> None:
    """Release closed, blocked or slowed hosts. Must run inside a transaction."""
    await connection.fetch(query("lock_hosts"), list(keys))
    await connection.execute(query("open_hosts"), list(keys), now, default_delay_ms)
    await set_next_work(connection, keys)


async def set_slash(connection: Connection, host: str, keeps: bool) -> None:
    """Set whether a host keeps trailing slashes."""
    await connection.execute(query("set_slash"), host, keeps)


async def join_key(connection: Connection, hosts: Collection[str], key: str) -> set[str]:
    """Give hosts the turn of an existing key. Return those that were not in use. Must run inside a transaction."""
    left = await _lock_with_keys(connection, [*hosts, key])
    await connection.execute(query("adopt_delays"), list(hosts), key)
    joined = {row["host"] for row in await connection.fetch(query("join_hosts"), list(hosts), key)}
    if joined == set(hosts):  # else the caller rolls back
        await _settle_keys(connection, hosts, left)
    return joined


async def leave_keys(connection: Connection, hosts: Collection[str]) -> set[str]:
    """Give hosts a turn of their own. Return those whose key was not in use. Must run inside a transaction."""
    left = await _lock_with_keys(connection, hosts)
    gone = {row["host"] for row in await connection.fetch(query("leave_keys"), list(hosts))}
    if gone == set(hosts):
        await _settle_keys(connection, hosts, left)
    return gone


async def _lock_with_keys(connection: Connection, hosts: Collection[str]) -> list[str]:
    keys = await _keys_of(connection, hosts)
    await connection.fetch(query("lock_hosts"), [*hosts, *keys])
    return keys


async def _settle_keys(connection: Connection, hosts: Collection[str], left: Collection[str]) -> None:
    """Move the queue of hosts to their new keys, and set delay and next work of the keys they left."""
    await connection.execute(query("set_slowest_delay"), list(left))
    await wake_hosts(connection, [*hosts, *left])


async def wake_hosts(connection: Connection, hosts: Collection[str]) -> None:
    """Move the URLs of hosts to their keys, and set when those keys have work next. Must run inside a transaction."""
    await connection.execute(query("move_queue"), list(hosts))
    await set_next_work(connection, [*hosts, *await _keys_of(connection, hosts)])


async def _keys_of(connection: Connection, hosts: Collection[str]) -> list[str]:
    return [row["politeness_key"] for row in await connection.fetch(query("keys_of"), list(hosts))]
