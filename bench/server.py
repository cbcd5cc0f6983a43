"""The databases of a bench on the server of its run."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"


@contextlib.asynccontextmanager
async def connect(dsn: str) -> AsyncIterator[Connection]:
    """Open a connection for statements of the bench that may take long."""
    connection = await asyncpg.connect(dsn, command_timeout=600)
    try:
        yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def new_database(server_dsn: str, name: str) -> AsyncIterator[str]:
    """Make an empty database, and drop it at the end."""
    async with connect(server_dsn) as admin:
        await admin.execute(f"CREATE DATABASE {name}")
        try:
            yield urlsplit(server_dsn)._replace(path=f"/{name}").geturl()
        finally:
            await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def settle(connection: Connection) -> None:
    """Update the statistics and write the checkpoint now, so that neither happens during a measurement."""
    await connection.execute("VACUUM (ANALYZE)")
    await connection.execute("CHECKPOINT")
