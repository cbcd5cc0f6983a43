"""Makes and drops the databases of tests on one connection."""

import asyncio
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from headwater.core.settings import Settings
from headwater.db import migrate
from headwater.db.pool import open_database


class Admin:
    """Connects to a server at the first statement, on an event loop that runs only during statements."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def address(self, name: str) -> str:
        """Return the DSN of a database."""
        return urlsplit(self._dsn)._replace(path=f"/{name}").geturl()

    def create(self, name: str, *, with_schema: bool) -> None:
        """Make a database as a copy of one, because making the schema takes long."""
        self._execute(
            f"CREATE DATABASE {name} TEMPLATE {self._model if with_schema else 'template1'} STRATEGY file_copy"
        )

    def drop(self, name: str) -> None:
        """Drop a database and its connections."""
        self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def close(self) -> None:
        """Close the connection. The server may have ended already."""
        if "_connection" in vars(self):
            self._connection.terminate()
            self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()

    @cached_property
    def _connection(self) -> "asyncpg.Connection[Any]":
        return self._loop.run_until_complete(asyncpg.connect(self._dsn))

    @cached_property
    def _model(self) -> str:
        """The database that is copied."""
        name = "with_schema"
        self._execute(f"CREATE DATABASE {name} STRATEGY file_copy")

        async def make() -> None:
            async with open_database(Settings(database_url=self.address(name))) as opened:
                await migrate.up(opened)

        self._loop.run_until_complete(make())
        return name

    def _execute(self, statement: str) -> None:
        self._loop.run_until_complete(self._connection.execute(statement))
