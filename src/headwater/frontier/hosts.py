"""What an operator may say of a host: closed, open again, grouped with others, with slashes that matter."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime

from headwater.core.errors import InvalidURL, OperatorError
from headwater.core.politeness import KeyOf, group_key, own_key
from headwater.core.reasons import Reason
from headwater.core.url_input import redact
from headwater.core.urls import host_of
from headwater.db import hosts
from headwater.db.pool import Connection, Database

_GROUP_NAME = re.compile(r"[a-z][a-z0-9._-]{0,63}")
_KEY = re.compile(rf"group:{_GROUP_NAME.pattern}|domain:[a-z0-9-]+(\.[a-z0-9-]+)+")
# How long a change waits for a host in use, and how often it looks: most are given back within a second.
_PATIENCE_SECONDS, _LOOK_SECONDS = 5.0, 0.05


def read_host(text: str) -> str:
    """Read a host as a person writes it, with a port or as a whole address too; or the key of a shared turn."""
    if is_key(text):
        return text
    try:
        return host_of(text if "//" in text else f"https://{text}")
    except InvalidURL as error:
        raise OperatorError(f"{redact(text)!r} is not a host: {error}", reason=Reason.UNKNOWN_HOST) from None


def is_key(host: str) -> bool:
    """Tell whether a name is not a host but the turn that several share, such as group:news."""
    return _KEY.fullmatch(host) is not None


async def close_host(database: Database, host: str, until: datetime, key_of: KeyOf = own_key) -> None:
    """Ask nothing of a host, and of whoever shares its turn, until then; one that was never seen is closed as well."""

    async def work(connection: Connection) -> None:
        await hosts.close_host(connection, await _meet(connection, host, key_of), until)

    await database.transact(work)


async def open_host(database: Database, host: str, now: datetime, default_delay_ms: int) -> None:
    """Take back what closed or slowed a host."""

    async def work(connection: Connection) -> None:
        await hosts.open_host(connection, await _key(connection, host), now, default_delay_ms)

    await database.transact(work)


async def keep_slash(database: Database, host: str, keeps: bool, key_of: KeyOf = own_key) -> None:
    """Let /a/ and /a be two pages of a host, or one. What is known of it already keeps its name."""
    _require_hosts([host])

    async def work(connection: Connection) -> None:
        await _meet(connection, host, key_of)
        await hosts.set_slash(connection, host, keeps)

    await database.transact(work)


async def group_hosts(database: Database, name: str, members: Collection[str], key_of: KeyOf = own_key) -> None:
    """Let hosts share one turn, and be as late and as slow as the slowest of them."""
    if not _GROUP_NAME.fullmatch(name):
        raise OperatorError(
            f"{redact(name)!r} cannot name a group: use up to 64 of a-z, 0-9, dot, dash, underscore, and begin "
            "with a letter.",
            reason=Reason.BAD_REQUEST,
        )
    _require_hosts(members)

    async def work(connection: Connection) -> None:
        await hosts.add_hosts(connection, {group_key(name): group_key(name)})
        for host in sorted(members):
            await _meet(connection, host, key_of)
        _require_all(members, await hosts.join_key(connection, members, group_key(name)))

    await _when_free(database, work)


async def ungroup_hosts(database: Database, members: Collection[str], key_of: KeyOf = own_key) -> None:
    """Let hosts have the turn again that the settings give them: their own, or their domain's."""
    _require_hosts(members)

    async def work(connection: Connection) -> None:
        for host in sorted(members):
            key = key_of(host)
            if await _key(connection, host) == key:
                continue
            await hosts.add_hosts(connection, {key: key})
            freed = hosts.leave_keys(connection, [host]) if key == host else hosts.join_key(connection, [host], key)
            _require_all([host], await freed)

    await _when_free(database, work)


async def _meet(connection: Connection, host: str, key_of: KeyOf) -> str:
    """Return the key whose turn a host waits for, be it known or new; a key that is named itself must be known."""
    if is_key(host):
        return await _key(connection, host)
    return (await hosts.get_or_create_host(connection, host, key_of(host))).politeness_key


async def _key(connection: Connection, host: str) -> str:
    known = await hosts.get_host(connection, host)
    if known is None:
        raise OperatorError(f"{host} has never been seen here.", reason=Reason.UNKNOWN_HOST)
    return str(known["politeness_key"])


async def _when_free(database: Database, work: Callable[[Connection], Awaitable[None]]) -> None:
    """Make a change for which hosts must not be in use, as soon as they are not."""
    give_up = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return await database.transact(work)
        except OperatorError as error:
            if error.reason is not Reason.HOST_IN_USE or time.monotonic() > give_up:
                raise
        await asyncio.sleep(_LOOK_SECONDS)


def _require_hosts(names: Collection[str]) -> None:
    if keys := [name for name in names if is_key(name)]:
        raise OperatorError(f"{keys[0]} is a turn that hosts share; name a host.", reason=Reason.BAD_REQUEST)


def _require_all(wanted: Collection[str], done: set[str]) -> None:
    """Refuse the whole change, by undoing it, when a part could not be made."""
    if left := sorted(set(wanted) - done):
        raise OperatorError(
            f"{', '.join(left)}: being asked just now, or the turn it shares is; try again in a moment.",
            reason=Reason.HOST_IN_USE,
        )
