"""What an operator may say of a host: closed, open again, grouped with others, with slashes that matter."""

import re
from collections.abc import Collection
from datetime import datetime

from headwater.errors import InvalidURL, OperatorError
from headwater.model.reasons import Reason
from headwater.policy.politeness import KeyOf, group_key, own_key
from headwater.policy.urls import host_of
from headwater.store import hosts
from headwater.store.pool import Connection, Database

_GROUP_NAME = re.compile(r"[a-z][a-z0-9._-]{0,63}")


def read_host(text: str) -> str:
    """Read a host as a person writes it, with a port or as a whole address too; a group's key is taken as it is."""
    if text.startswith(("group:", "domain:")):
        return text
    try:
        return host_of(text if "//" in text else f"https://{text}")
    except InvalidURL as error:
        raise OperatorError(f"{text!r} is not a host: {error}", reason=Reason.UNKNOWN_HOST) from None


async def close_host(database: Database, host: str, until: datetime, key_of: KeyOf = own_key) -> None:
    """Ask nothing of a host, and of whoever shares its turn, until then; one that was never seen is closed as well."""

    async def work(connection: Connection) -> None:
        met = await hosts.meet_host(connection, host, key_of(host))
        await hosts.close_host(connection, met.politeness_key, until)

    await database.transact(work)


async def open_host(database: Database, host: str, now: datetime, default_delay_ms: int) -> None:
    """Take back what closed or slowed a host."""

    async def work(connection: Connection) -> None:
        await hosts.open_host(connection, await _key(connection, host), now, default_delay_ms)

    await database.transact(work)


async def keep_slash(database: Database, host: str, keeps: bool, key_of: KeyOf = own_key) -> None:
    """Let /a/ and /a be two pages of a host, or one. What is known of it already keeps its name."""

    async def work(connection: Connection) -> None:
        await hosts.meet_host(connection, host, key_of(host))
        await hosts.set_slash(connection, host, keeps)

    await database.transact(work)


async def group_hosts(database: Database, name: str, members: Collection[str]) -> None:
    """Let hosts share one turn, and be as slow as the slowest of them."""
    if not _GROUP_NAME.fullmatch(name):
        raise OperatorError(
            f"{name!r} cannot name a group: use up to 64 of a-z, 0-9, dot, dash, underscore, and begin with a letter.",
            reason=Reason.BAD_REQUEST,
        )

    async def work(connection: Connection) -> None:
        await hosts.meet_hosts(connection, [*members, group_key(name)])
        _require_all(members, await hosts.join_key(connection, members, group_key(name)))

    await database.transact(work)


async def ungroup_hosts(database: Database, members: Collection[str]) -> None:
    """Let hosts have their own turn again."""

    async def work(connection: Connection) -> None:
        grouped = [host for host in members if await _key(connection, host) != host]
        _require_all(grouped, await hosts.leave_keys(connection, grouped))

    await database.transact(work)


async def _key(connection: Connection, host: str) -> str:
    known = await hosts.get_host(connection, host)
    if known is None:
        raise OperatorError(f"{host} has never been seen here.", reason=Reason.UNKNOWN_HOST)
    return str(known["politeness_key"])


def _require_all(wanted: Collection[str], done: set[str]) -> None:
    """Refuse the whole change, by undoing it, when a part could not be made."""
    if left := sorted(set(wanted) - done):
        raise OperatorError(
            f"{', '.join(left)}: being asked just now; try again in a moment.", reason=Reason.HOST_IN_USE
        )
