"""The connection to the database: a pool, transactions that survive a deadlock, and clear errors for operators."""

import asyncio
import contextlib
import os
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import asyncpg
import msgspec
import structlog
from asyncpg.pool import PoolConnectionProxy

from headwater.core.errors import DatabaseUnreachable, FolderUnusable, OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db.embedded.cluster import has_cluster, report_folder_errors
from headwater.db.embedded.server import EmbeddedServer, open_server
from headwater.db.sql import query

log = structlog.get_logger()
Connection: TypeAlias = "PoolConnectionProxy[Any] | asyncpg.Connection[Any]"
P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

OLDEST_SERVER = 15
_CONNECT_SECONDS = 10.0
# Two transactions met in a bad order. The database rolled one of them back, and it succeeds when it runs again.
_CONFLICTS = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_TRIES = 5


class Database:
    """A pool of connections to one PostgreSQL database."""

    def __init__(self, pool: "asyncpg.Pool[Any]", embedded_in: Path | None = None) -> None:
        self._pool = pool
        self._embedded_in = embedded_in

    async def revive(self) -> None:
        """Start the embedded server again if it has died. Other servers are not started."""
        if self._embedded_in is None:
            return
        try:
            share = await asyncio.to_thread(open_server, self._embedded_in)
        except OperatorError as error:
            log.error("database.restart_failed", error=str(error))
        else:
            share.close()  # the share of `open_database` keeps the server running

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection. Each statement on it is its own transaction."""
        async with self._pool.acquire() as connection:
            yield connection

    async def ping(self) -> None:
        """Raise an error if the server does not answer."""
        await self._pool.fetchval(query("server_time"))

    async def run(
        self, work: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call `work`, a single statement, with a connection. If a deadlock ends it, it runs again."""
        for tries_left in reversed(range(_TRIES)):
            async with self._pool.acquire() as connection:
                try:
                    return await work(connection, *args, **kwargs)
                except _CONFLICTS:
                    if not tries_left:
                        raise
        raise AssertionError("unreachable")

    async def transact(
        self, work: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call `work` with a connection in one transaction. If a deadlock ends it, it runs again."""

        async def run_in_transaction(connection: Connection) -> T:
            async with connection.transaction():
                return await work(connection, *args, **kwargs)

        return await self.run(run_in_transaction)


class Coalescer(Generic[T, R]):
    """Runs `work` for batches. A lone call runs at once; calls that arrive meanwhile form the next batch."""

    def __init__(self, work: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> None:
        self._work = work
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._running: asyncio.Task[None] | None = None

    def submit(self, argument: T) -> asyncio.Future[R]:
        """Add an argument to the next batch and return its future result. A cancelled caller does not stop the work."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((argument, result))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return result

    async def _run(self) -> None:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                try:
                    results = await self._work([argument for argument, _ in batch])
                except Exception as error:  # noqa: BLE001 (each caller gets it)
                    for _, result in batch:
                        if not result.done():
                            result.set_exception(error)
                            result.exception()  # a cancelled caller does not read it
                else:
                    for (_, result), value in zip(batch, results, strict=True):
                        if not result.done():
                            result.set_result(value)
        finally:
            self._running = None
            for _, result in batch:
                result.cancel()  # without effect on a result that is there


@contextlib.asynccontextmanager
async def open_database(
    settings: Settings, *, must_exist: bool = False, fetches: bool = False
) -> AsyncIterator[Database]:
    """Open the configured database, or the embedded one in the data folder, which is created unless it `must_exist`.

    Other programs see whether this one `fetches` pages.

    If the connection is lost or the database's disk is full, the block raises OperatorError.
    """
    connections = settings.database_connections
    with _report_outages(settings):
        if settings.database_url:
            async with open_database_at(settings.database_url, connections, fetches=fetches) as database:
                yield database
            return
        with report_folder_errors(settings.data_dir):
            if must_exist and not has_cluster(settings.data_dir):
                raise no_database(settings)
        server = await _open_embedded(settings.data_dir)
        try:
            place = settings.data_dir
            async with open_database_at(server.dsn, connections, fetches=fetches, embedded_in=place) as database:
                yield database
        finally:
            await asyncio.shield(asyncio.to_thread(server.close))


async def has_fetcher(connection: Connection) -> bool:
    """Return whether a program that fetches pages is connected to the database."""
    return bool(await connection.fetchval(query("has_fetcher"), _FETCHER))


def no_database(settings: Settings) -> OperatorError:
    """Return the error about a database that was never created."""
    if settings.database_url:
        place, other = without_password(settings.database_url), "HEADWATER_DATABASE_URL names another database"
    else:
        place, other = f"the data folder {settings.data_dir}", "HEADWATER_DATA_DIR names another folder"
    return OperatorError(
        f"There is no Headwater database in {place}. `headwater up` or `headwater add URL` makes one; {other}.",
        reason=Reason.NO_DATABASE,
    )


@contextlib.contextmanager
def _report_outages(settings: Settings) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if message := find_full_disk(error):
            raise FolderUnusable(
                f"The disk of {describe_place(settings)} has no space left: {message}. Free some space and try again."
            ) from error
        if not _is_lost_connection(error):
            raise
        raise OperatorError(
            f"The connection to {describe_place(settings)} was lost. Check that it runs, and run the command again.",
            reason=Reason.DATABASE_LOST,
        ) from error


def _is_lost_connection(error: Exception) -> bool:
    """Return whether the connection to the database broke. Errors of files and of other hosts pass no driver."""
    if isinstance(error, ExceptionGroup):
        return all(map(_is_lost_connection, error.exceptions))
    modules = (frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__))
    return is_down(error) and any(module.startswith("asyncpg.") for module in modules)


async def _open_embedded(data_dir: Path) -> EmbeddedServer:
    """Open the server in a thread. If the caller is cancelled meanwhile, the server is closed again."""
    opening = asyncio.ensure_future(asyncio.to_thread(open_server, data_dir))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        (await opening).close()
        raise


@contextlib.asynccontextmanager
async def open_database_at(
    dsn: str, connections: int = 1, *, fetches: bool = False, embedded_in: Path | None = None
) -> AsyncIterator[Database]:
    """Open the database at an address, with at most so many connections."""
    try:
        pool = await asyncpg.create_pool(
            dsn,
            min_size=1,
            max_size=connections,
            timeout=_CONNECT_SECONDS,
            command_timeout=60,
            init=_prepare,
            reset=_skip_reset,
            server_settings=_SESSION | ({"application_name": _FETCHER} if fetches else {}),
        )
    except _CONNECT_ERRORS as error:
        raise _connect_error(dsn, error, _CONNECT_SECONDS) from None
    try:
        async with pool.acquire() as connection:
            await _require_supported(dsn, connection)
        yield Database(pool, embedded_in)
    finally:
        try:
            await asyncio.wait_for(pool.close(), timeout=1)
        except TimeoutError:
            pool.terminate()


@contextlib.asynccontextmanager
async def open_connection(dsn: str, *, seconds: float) -> AsyncIterator[Connection]:
    """Open a single connection without a pool. Each step on it takes at most `seconds`."""
    try:
        connection = await asyncpg.connect(dsn, timeout=seconds, command_timeout=seconds, server_settings=_SESSION)
    except _CONNECT_ERRORS as error:
        raise _connect_error(dsn, error, seconds) from None
    try:
        await _require_supported(dsn, connection)
        yield connection
    finally:
        with contextlib.suppress(*_CONNECT_ERRORS):
            await connection.close(timeout=1)


async def _require_supported(dsn: str, connection: Connection) -> None:
    version, place = connection.get_server_version().major, without_password(dsn)
    if version < OLDEST_SERVER:
        raise DatabaseUnreachable(
            f"The database at {place} is PostgreSQL {version}. Headwater needs {OLDEST_SERVER} or newer."
        )
    encoding = await connection.fetchval(query("server_encoding"))
    if encoding != "UTF8":
        raise DatabaseUnreachable(
            f"The database at {place} has the encoding {encoding}; make one with UTF8 (CREATE DATABASE ... "
            "ENCODING 'UTF8' TEMPLATE template0)."
        )


_CONNECT_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, TimeoutError)
PROGRAM, _FETCHER = "headwater", "headwater fetcher"  # the names of a program, and of one that fetches pages
_SESSION = {
    "application_name": PROGRAM,
    "timezone": "UTC",
    "statement_timeout": "60s",
    "jit": "off",
    # Planning a claim takes as long as running it, so plans are kept. Lists with filters run `plan_for_values` first.
    "plan_cache_mode": "force_generic_plan",
}


# The ids of array types and of their elements, which are the same on every server. Without them asyncpg would ask for
# them on each connection, with a query that takes longer than most of ours.
_ARRAYS = {
    "bool": (1000, 16),
    "bytea": (1001, 17),
    "int2": (1005, 21),
    "int4": (1007, 23),
    "int8": (1016, 20),
    "float8": (1022, 701),
    "date": (1182, 1082),
    "timestamptz": (1185, 1184),
    "interval": (1187, 1186),
    "uuid": (2951, 2950),
    "jsonb": (3807, 3802),
}
_NO_ARRAY_FIELDS = dict.fromkeys(("basetype", "range_subtype", "attrtypoids"))


async def _prepare(connection: "asyncpg.Connection[Any]") -> None:
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        # The binary format is the JSON text after one byte for the version.
        encoder=lambda value: b"\x01" + msgspec.json.encode(value),
        decoder=lambda data: msgspec.json.decode(memoryview(data)[1:]),
        format="binary",
    )
    connection.get_settings().register_data_types(
        {"oid": oid, "ns": "pg_catalog", "name": f"_{name}", "elemtype": element, "elemdelim": ",", **_NO_ARRAY_FIELDS}
        for name, (oid, element) in _ARRAYS.items()
    )


async def _skip_reset(_: "asyncpg.Connection[Any]") -> None:
    """Save the round trip that would undo SET, LISTEN and session locks: code that uses these closes the pool.

    asyncpg still rolls back an open transaction.
    """


AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the connection broke between two messages
)


def is_down(error: BaseException) -> bool:
    """Return whether an error means that the database is away for now, and not that it refused the query."""
    return isinstance(error, AWAY)


def is_passing(error: BaseException) -> bool:
    """Return whether the same work may succeed later: the database is away, or another transaction was in conflict."""
    return is_down(error) or isinstance(error, (*_CONFLICTS, asyncpg.LockNotAvailableError))


def find_full_disk(error: BaseException) -> str | None:
    """Return the database's message about its full disk, if that is the error or every error of a group.

    A database that cannot write its log dies. The full disk is then the cause of a lost connection.
    """
    if isinstance(error, BaseExceptionGroup):
        messages = list(map(find_full_disk, error.exceptions))
        return messages[0] if all(messages) else None
    if isinstance(error, asyncpg.ConnectionDoesNotExistError) and error.__cause__:
        return find_full_disk(error.__cause__)
    return _first_line(error) if isinstance(error, asyncpg.DiskFullError) else None


def is_refusal(error: BaseException) -> bool:
    """Return whether an error is the database's answer to a query."""
    return isinstance(error, asyncpg.PostgresError)


def _connect_error(dsn: str, error: BaseException, seconds: float) -> OperatorError:
    return DatabaseUnreachable(
        f"The database at {without_password(dsn)} cannot be used: {_explain(error, dsn, seconds)}. "
        "Check HEADWATER_DATABASE_URL and that the server runs, or unset it to use the embedded one."
    )


def _explain(error: BaseException, dsn: str, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"it did not answer within {seconds:g} seconds"
    if (isinstance(error, ValueError) and not isinstance(error, OSError)) or _is_garbled(dsn):
        return "the URL cannot be read; special characters in the password must be escaped (@ as %40, / as %2F)"
    return _first_line(error)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def describe_place(settings: Settings) -> str:
    """Return a phrase that names the database of the settings."""
    if settings.database_url:
        return f"the database at {without_password(settings.database_url)}"
    return f"the database in {settings.data_dir / 'postgres'}"


def without_password(dsn: str) -> str:
    """Return the host, port and database of a server's address."""
    if _is_garbled(dsn):
        return "the given address"
    parts = urlsplit(dsn)
    given = dict(parse_qsl(parts.query))
    host = unquote(parts.hostname or given.get("host", "")) or os.environ.get("PGHOST") or "localhost"
    port = parts.port or given.get("port")
    place = "local socket" if host.startswith("/") else host
    return f"{place}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def _is_garbled(dsn: str) -> bool:
    """Return whether another part of the URL may contain a part of the password."""
    try:
        parts = urlsplit(dsn)
        return parts.netloc.count("@") > 1 or "@" in parts.path + parts.query + parts.fragment or (parts.port or 0) < 0
    except ValueError:
        return True
