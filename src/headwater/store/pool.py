"""The way to the database: a pool, transactions that survive a deadlock, and errors an operator can act on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import asyncpg
import msgspec
from asyncpg.pool import PoolConnectionProxy

from headwater.config import Settings
from headwater.errors import OperatorError
from headwater.model.reasons import Reason
from headwater.store.embedded import open_server

Connection: TypeAlias = "PoolConnectionProxy[Any]"
T = TypeVar("T")

OLDEST_SERVER = 15
# Two transactions that met in an unlucky order: nothing was changed, and the same work goes through when done again.
_UNLUCKY = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_TRIES = 5


class Database:
    """A pool of connections to one PostgreSQL database."""

    def __init__(self, pool: "asyncpg.Pool[Any]") -> None:
        self._pool = pool

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection; each statement on it commits by itself."""
        async with self._pool.acquire() as connection:
            yield connection

    async def transact(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work` in one transaction, and again from its start if it fell victim to a deadlock."""
        for tries_left in reversed(range(_TRIES)):
            async with self._pool.acquire() as connection:
                try:
                    async with connection.transaction():
                        return await work(connection)
                except _UNLUCKY:
                    if not tries_left:
                        raise
        raise AssertionError("unreachable")


@contextlib.asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """Open the configured database, or the embedded one in the data folder."""
    if settings.database_url:
        async with _pool(settings.database_url, settings.database_connections) as database:
            yield database
        return
    server = await asyncio.to_thread(open_server, settings.data_dir)
    try:
        async with _pool(server.dsn, settings.database_connections) as database:
            yield database
    finally:
        await asyncio.to_thread(server.close)


@contextlib.asynccontextmanager
async def _pool(dsn: str, size: int) -> AsyncIterator[Database]:
    try:
        pool = await asyncpg.create_pool(
            dsn, min_size=1, max_size=size, timeout=10, command_timeout=300, init=_prepare, server_settings=_SESSION
        )
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, TimeoutError) as error:
        raise OperatorError(
            f"The database at {_shown(dsn)} cannot be used: {_why(error)}. "
            "Check HEADWATER_DATABASE_URL and that the server runs, or unset it to use the embedded one.",
            reason=Reason.DATABASE_UNREACHABLE,
        ) from None
    try:
        version = await pool.fetchval("SELECT current_setting('server_version_num')::int")
        if version < OLDEST_SERVER * 10000:
            raise OperatorError(
                f"The database at {_shown(dsn)} is PostgreSQL {version // 10000}. "
                f"Headwater needs {OLDEST_SERVER} or newer.",
                reason=Reason.DATABASE_UNREACHABLE,
            )
        yield Database(pool)
    finally:
        try:
            await asyncio.wait_for(pool.close(), timeout=5)
        except TimeoutError:
            pool.terminate()


_SESSION = {"application_name": "headwater", "timezone": "UTC", "statement_timeout": "300s", "jit": "off"}


async def _prepare(connection: "asyncpg.Connection[Any]") -> None:
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda value: msgspec.json.encode(value).decode(),
        decoder=lambda text: msgspec.json.decode(text),
    )


def is_down(error: BaseException) -> bool:
    """Tell whether an error means that the database is away for now, and not that it refused what was asked."""
    away = (
        OSError,
        TimeoutError,
        asyncpg.PostgresConnectionError,
        asyncpg.OperatorInterventionError,
        asyncpg.InsufficientResourcesError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,  # a connection that broke between two messages
    )
    return isinstance(error, away)


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer within 10 seconds"
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _shown(dsn: str) -> str:
    """Name a server without its password."""
    try:
        parts = urlsplit(dsn)
        host, port = parts.hostname or "local socket", parts.port
    except ValueError:
        return "the given address"
    return f"{host}{f':{port}' if port else ''}{parts.path}"
