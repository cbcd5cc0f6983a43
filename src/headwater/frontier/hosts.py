"""Changes that an operator makes to hosts: close, release, group, keep trailing slashes."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime

from headwater.core.errors import BadRequest, InvalidURL, OperatorError
from headwater.core.politeness import KeyOf, group_key, own_key
from headwater.core.reasons import Reason
from headwater.core.url_input import redact
from headwater.core.urls import host_of
from headwater.db import hosts
from headwater.db.pool import Connection, Database

_GROUP_NAME = re.compile(r"[a-z][a-z0-9._-]{0,63}")
_KEY = re.compile(rf"group:{_GROUP_NAME.pattern}|domain:[a-z0-9-]+(\.[a-z0-9-]+)+")
# How long a change waits for a host in use, and how often it tries. Most leases of hosts end within a second.
_PATIENCE_SECONDS, _RETRY_SECONDS = 5.0, 0.05
_BATCH = 500


def read_host(text: str) -> str:
    """Return the host in a host name, with its port, or in a URL; or the key of a shared turn, unchanged."""
    if _KEY.fullmatch(text):
        return text
    try:
        return host_of(text if "//" in text else f"https://{text}")
    except InvalidURL as error:
        raise OperatorError(f"{redact(text)!r} is not a host: {error}", reason=Reason.UNKNOWN_HOST) from None


def require_hosts(*names: str) -> None:
    """Raise OperatorError if a name is the key of a shared turn, such as group:news."""
    for name in names:
        if _KEY.fullmatch(name):
            raise BadRequest(f"{name} is a turn that hosts share; name a host.")


async def close_host(connection: Connection, host: str, until: datetime, key_of: KeyOf = own_key) -> None:
    """Send no request to a host, or to hosts that share its turn, until a time. The host may be unknown so far."""
    await hosts.close_host(connection, await _get_or_create_key(connection, host, key_of), until)


async def open_host(connection: Connection, host: str, now: datetime, default_delay_ms: int) -> None:
    """Release a closed, blocked or slowed host."""
    await hosts.open_hosts(connection, [await _get_key(connection, host)], now, default_delay_ms)


async def open_all_hosts(database: Database, now: datetime, default_delay_ms: int) -> int:
    """Release all closed, blocked and slowed hosts, batch by batch. Return how many politeness keys were released."""
    count, held = 0, await database.run(hosts.find_held_hosts, "", now, _BATCH)
    while held:
        await database.transact(hosts.open_hosts, held, now, default_delay_ms)
        count += len(held)
        held = await database.run(hosts.find_held_hosts, held[-1], now, _BATCH)
    return count


async def keep_slash(connection: Connection, host: str, keeps: bool, key_of: KeyOf = own_key) -> None:
    """Make /a/ and /a two pages of a host, or one. Known URLs stay as they are."""
    require_hosts(host)
    await _get_or_create_key(connection, host, key_of)
    await hosts.set_slash(connection, host, keeps)


async def group_hosts(database: Database, name: str, members: Collection[str], key_of: KeyOf = own_key) -> None:
    """Give hosts one turn, with the delay of the slowest of them."""
    if not _GROUP_NAME.fullmatch(name):
        raise BadRequest(
            f"{redact(name)!r} cannot name a group: use up to 64 of a-z, 0-9, dot, dash, underscore, and begin "
            "with a letter."
        )
    require_hosts(*members)

    async def work(connection: Connection) -> None:
        key = group_key(name)
        await hosts.add_hosts(connection, {key: key})
        for host in sorted(members):
            await _get_or_create_key(connection, host, key_of)
        _require_all(members, await hosts.join_key(connection, members, key))

    await _retry_while_in_use(database, work)


async def ungroup_hosts(database: Database, members: Collection[str], key_of: KeyOf = own_key) -> None:
    """Give hosts the turn back that the settings say: their own, or their domain's."""
    require_hosts(*members)

    async def work(connection: Connection) -> None:
        for host in sorted(members):
            key = key_of(host)
            if await _get_key(connection, host) == key:
                continue
            await hosts.add_hosts(connection, {key: key})
            freed = hosts.leave_keys(connection, [host]) if key == host else hosts.join_key(connection, [host], key)
            _require_all([host], await freed)

    await _retry_while_in_use(database, work)


async def _get_or_create_key(connection: Connection, host: str, key_of: KeyOf) -> str:
    """Return the politeness key of a host, which may be new. A key itself must be known."""
    if _KEY.fullmatch(host):
        return await _get_key(connection, host)
    return (await hosts.get_or_create_host(connection, host, key_of(host))).politeness_key


async def _get_key(connection: Connection, host: str) -> str:
    key = await hosts.get_politeness_key(connection, host)
    if key is None:
        raise unknown_host(host)
    return key


def unknown_host(host: str) -> OperatorError:
    """Return the error for a host without a row."""
    return OperatorError(f"{host} has never been seen here.", reason=Reason.UNKNOWN_HOST)


async def _retry_while_in_use(database: Database, work: Callable[[Connection], Awaitable[None]]) -> None:
    give_up = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return await database.transact(work)
        except OperatorError as error:
            if error.reason is not Reason.HOST_IN_USE or time.monotonic() > give_up:
                raise
        await asyncio.sleep(_RETRY_SECONDS)


def _require_all(wanted: Collection[str], done: set[str]) -> None:
    """Raise OperatorError, which rolls the whole change back, if a part of it failed."""
    if left := sorted(set(wanted) - done):
        raise OperatorError(
            f"{', '.join(left)}: in use now, or the turn it shares is; try again in a moment.",
            reason=Reason.HOST_IN_USE,
        )
