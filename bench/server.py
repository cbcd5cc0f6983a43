"""Databases of the bench's own on the one server of a run."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"


@contextlib.asynccontextmanager
async def connect(dsn: str) -> AsyncIterator[Connection]:
    """Open a connection for the bench's own work, which may take long."""
    connection = await asyncpg.connect(dsn, command_timeout=600)
    try:
        yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def new_database(server_dsn: str, name: str) -> AsyncIterator[str]:
    """Make an empty database, give its address, and drop it in the end."""
    async with connect(server_dsn) as admin:
        await admin.execute(f"CREATE DATABASE {name}")
        try:
            yield urlsplit(server_dsn)._replace(path=f"/{name}").geturl()
        finally:
            await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def settle(connection: Connection) -> None:
    """Let the server have its statistics and its disk in order, so that neither is done while something is timed."""
    await connection.execute("VACUUM (ANALYZE)")
    await connection.execute("CHECKPOINT")
