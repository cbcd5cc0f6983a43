"""The way to the database: a pool, transactions that survive a deadlock, and errors an operator can act on."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import asyncpg
import msgspec
import structlog
from asyncpg.pool import PoolConnectionProxy

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db.embedded.server import EmbeddedServer, open_server
from headwater.db.sql import query

log = structlog.get_logger()
Connection: TypeAlias = "PoolConnectionProxy[Any] | asyncpg.Connection[Any]"
T = TypeVar("T")

OLDEST_SERVER = 15
_CONNECT_SECONDS = 10.0
# Two transactions that met in an unlucky order: nothing was changed, and the same work goes through when done again.
_UNLUCKY = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_TRIES = 5


class Database:
    """A pool of connections to one PostgreSQL database."""

    def __init__(self, pool: "asyncpg.Pool[Any]", embedded_in: Path | None = None) -> None:
        self._pool = pool
        self._embedded_in = embedded_in

    async def revive(self) -> None:
        """Start the embedded server again if it has died; a server of somebody else's is theirs to start."""
        if self._embedded_in is None:
            return
        try:
            share = await asyncio.to_thread(open_server, self._embedded_in)
        except OperatorError as error:
            log.error("database.not_revived", error=str(error))
        else:
            share.close()  # ours, from before, still counts

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection; each statement on it commits by itself."""
        async with self._pool.acquire() as connection:
            yield connection

    async def ping(self) -> None:
        """Raise when the server does not answer."""
        await self._pool.fetchval(query("server_time"))

    async def transact(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work` in one transaction, and again from its start if it fell victim to a deadlock."""
        return await self.run(work, in_transaction=True)

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, in_transaction: bool = False) -> T:
        """Do the same with work that is a single statement, and so a transaction by itself."""
        for tries_left in reversed(range(_TRIES)):
            async with self._pool.acquire() as connection:
                try:
                    async with connection.transaction() if in_transaction else contextlib.nullcontext():
                        return await work(connection)
                except _UNLUCKY:
                    if not tries_left:
                        raise
        raise AssertionError("unreachable")


@contextlib.asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """Open the configured database, or the embedded one in the data folder.

    That its disk is full leaves the block as an OperatorError.
    """
    with _full_disk_told_to_operator(settings):
        if settings.database_url:
            async with _pool(settings.database_url, settings.database_connections) as pool:
                yield Database(pool)
            return
        server = await _open_embedded(settings.data_dir)
        try:
            async with _pool(server.dsn, settings.database_connections) as pool:
                yield Database(pool, settings.data_dir)
        finally:
            await asyncio.shield(asyncio.to_thread(server.close))


@contextlib.contextmanager
def _full_disk_told_to_operator(settings: Settings) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        said = said_of_full_disk(error)
        if said is None:
            raise
        raise OperatorError(
            f"The disk of {place_of(settings)} has no space left: {said}. Free some space there and try again.",
            reason=Reason.FOLDER_UNUSABLE,
        ) from error


async def _open_embedded(data_dir: Path) -> EmbeddedServer:
    """Open the server in a thread; if we are stopped meanwhile, it is not left running."""
    opening = asyncio.ensure_future(asyncio.to_thread(open_server, data_dir))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        (await opening).close()
        raise


@contextlib.asynccontextmanager
async def _pool(dsn: str, size: int) -> AsyncIterator["asyncpg.Pool[Any]"]:
    try:
        pool = await asyncpg.create_pool(
            dsn,
            min_size=1,
            max_size=size,
            timeout=_CONNECT_SECONDS,
            command_timeout=60,
            init=_prepare,
            reset=_leave_as_it_is,
            server_settings=_SESSION,
        )
    except _CANNOT_CONNECT as error:
        raise _refused(dsn, error, _CONNECT_SECONDS) from None
    try:
        async with pool.acquire() as connection:
            await _require_fit(dsn, connection)
        yield pool
    finally:
        try:
            await asyncio.wait_for(pool.close(), timeout=1)
        except TimeoutError:
            pool.terminate()


@contextlib.asynccontextmanager
async def open_connection(dsn: str, *, seconds: float) -> AsyncIterator[Connection]:
    """Open one connection of its own, for one who is in a hurry: each step on it takes `seconds` at most."""
    try:
        connection = await asyncpg.connect(dsn, timeout=seconds, command_timeout=seconds, server_settings=_SESSION)
    except _CANNOT_CONNECT as error:
        raise _refused(dsn, error, seconds) from None
    try:
        await _require_fit(dsn, connection)
        yield connection
    finally:
        with contextlib.suppress(*_CANNOT_CONNECT):
            await connection.close(timeout=1)


async def _require_fit(dsn: str, connection: Connection) -> None:
    version = connection.get_server_version().major
    if version < OLDEST_SERVER:
        raise OperatorError(
            f"The database at {shown(dsn)} is PostgreSQL {version}. Headwater needs {OLDEST_SERVER} or newer.",
            reason=Reason.DATABASE_UNREACHABLE,
        )
    encoding = await connection.fetchval(query("server_encoding"))
    if encoding != "UTF8":
        raise OperatorError(
            f"The database at {shown(dsn)} has the encoding {encoding}; make one with UTF8 (CREATE DATABASE ... "
            "ENCODING 'UTF8' TEMPLATE template0).",
            reason=Reason.DATABASE_UNREACHABLE,
        )


_CANNOT_CONNECT = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, TimeoutError)
_SESSION = {
    "application_name": "headwater",
    "timezone": "UTC",
    "statement_timeout": "60s",
    "jit": "off",
    # A claim would be planned each time, for as long as it takes to carry it out. Lists with filters ask for a plan of
    # their own (`plan_anew`).
    "plan_cache_mode": "force_generic_plan",
}


# Arrays by their numbers and those of their elements, which are the same on every server. What asyncpg is not told it
# asks each connection for, with a query that takes longer than most of ours.
_ARRAYS = {
    "bool": (1000, 16),
    "bytea": (1001, 17),
    "int2": (1005, 21),
    "int4": (1007, 23),
    "int8": (1016, 20),
    "date": (1182, 1082),
    "timestamptz": (1185, 1184),
    "interval": (1187, 1186),
    "uuid": (2951, 2950),
    "jsonb": (3807, 3802),
}
_NOT_OF_ARRAYS = dict.fromkeys(("basetype", "range_subtype", "attrtypoids"))


async def _prepare(connection: "asyncpg.Connection[Any]") -> None:
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        # As PostgreSQL sends and takes it, after a byte for the version: as text it would be decoded and encoded anew.
        encoder=lambda value: b"\x01" + msgspec.json.encode(value),
        decoder=lambda sent: msgspec.json.decode(memoryview(sent)[1:]),
        format="binary",
    )
    connection.get_settings().register_data_types(
        {"oid": oid, "ns": "pg_catalog", "name": f"_{name}", "elemtype": element, "elemdelim": ",", **_NOT_OF_ARRAYS}
        for name, (oid, element) in _ARRAYS.items()
    )


async def _leave_as_it_is(_: "asyncpg.Connection[Any]") -> None:
    """Spare the round trip that would undo SET, LISTEN and session locks at each return: who uses one closes the pool.

    A transaction left open is rolled back all the same.
    """


AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that broke between two messages
)


def is_down(error: BaseException) -> bool:
    """Tell whether an error means that the database is away for now, and not that it refused what was asked."""
    return isinstance(error, AWAY)


def is_passing(error: BaseException) -> bool:
    """Tell whether the same may go through when done again: the database is away, or others were in the way."""
    return is_down(error) or isinstance(error, (*_UNLUCKY, asyncpg.LockNotAvailableError))


def said_of_full_disk(error: BaseException) -> str | None:
    """Return what the database says of its full disk, where an error, or each in a group of tasks' errors, is that.

    Where it cannot write its log it dies: that is then the cause of a lost connection.
    """
    if isinstance(error, BaseExceptionGroup):
        said = list(map(said_of_full_disk, error.exceptions))
        return said[0] if all(said) else None
    if isinstance(error, asyncpg.ConnectionDoesNotExistError) and error.__cause__:
        return said_of_full_disk(error.__cause__)
    return _first_line(error) if isinstance(error, asyncpg.DiskFullError) else None


def is_refusal(error: BaseException) -> bool:
    """Tell whether an error is the database's own answer to what was asked."""
    return isinstance(error, asyncpg.PostgresError)


def _refused(dsn: str, error: BaseException, seconds: float) -> OperatorError:
    return OperatorError(
        f"The database at {shown(dsn)} cannot be used: {_why(error, dsn, seconds)}. "
        "Check HEADWATER_DATABASE_URL and that the server runs, or unset it to use the embedded one.",
        reason=Reason.DATABASE_UNREACHABLE,
    )


def _why(error: BaseException, dsn: str, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"it did not answer within {seconds:g} seconds"
    if (isinstance(error, ValueError) and not isinstance(error, OSError)) or _is_garbled(dsn):
        return "the URL cannot be read; special characters in the password must be escaped (@ as %40, / as %2F)"
    return _first_line(error)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def place_of(settings: Settings) -> str:
    """Say which database the settings name, to stand in a sentence."""
    if settings.database_url:
        return f"the database at {shown(settings.database_url)}"
    return f"the database in {settings.data_dir / 'postgres'}"


def shown(dsn: str) -> str:
    """Name a server without its password."""
    if _is_garbled(dsn):
        return "the given address"
    parts = urlsplit(dsn)
    given = dict(parse_qsl(parts.query))
    host = unquote(parts.hostname or given.get("host", "")) or os.environ.get("PGHOST") or "localhost"
    port = parts.port or given.get("port")
    place = "local socket" if host.startswith("/") else host
    return f"{place}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def _is_garbled(dsn: str) -> bool:
    """Tell whether a part of the password may have slipped into another part of the URL."""
    try:
        parts = urlsplit(dsn)
        return parts.netloc.count("@") > 1 or "@" in parts.path + parts.query + parts.fragment or (parts.port or 0) < 0
    except ValueError:
        return True
