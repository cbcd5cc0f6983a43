"""A backlog of millions of URLs. The server generates it, and the bench does not measure that."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from bench.server import Connection, connect, settle
from bench.sql import read_queries

HOT_HOST = "hot.example"
CHUNK = 100_000
_QUERIES = read_queries("backlog.sql")


@dataclass(slots=True)
class Backlog:
    """URLs in a migrated database. Six of ten are on one host."""

    dsn: str
    source_id: int
    hosts: int
    now: datetime
    size: int = 0

    async def grow(self, size: int, advance: Callable[[int], None]) -> None:
        """Enlarge the backlog to `size` URLs. Each step calls `advance`."""
        async with connect(self.dsn) as connection:
            # The rows are correct by construction, so no foreign key has to be checked.
            await connection.execute("SET session_replication_role = replica; SET maintenance_work_mem = '256MB'")
            if not self.size:
                await connection.execute(_QUERIES["add_hosts"], self.hosts, self.now)
            indexes = await connection.fetch(_QUERIES["indexes"])
            for index in indexes:
                await connection.execute(
                    f"ALTER TABLE {index['table_name']} DROP CONSTRAINT {index['constraint_name']}"
                    if index["constraint_name"]
                    else f"DROP INDEX {index['index_name']}"
                )
            while self.size < size:
                await self._load(connection, min(CHUNK, size - self.size), advance)
            for index in indexes:
                await connection.execute(
                    f"ALTER TABLE {index['table_name']} ADD CONSTRAINT {index['constraint_name']} "
                    f"{index['constraint_definition']}"
                    if index["constraint_name"]
                    else index["index_definition"]
                )
            await settle(connection)

    async def _load(self, connection: Connection, count: int, advance: Callable[[int], None]) -> None:
        first, last = self.size + 1, self.size + count
        await connection.execute(_QUERIES["add_urls"], first, last, self.hosts, self.source_id, self.now)
        self.size = last
        advance(count)

    async def cool_down_hot_host(self, until: datetime) -> None:
        """Close the hot host until a time."""
        async with connect(self.dsn) as connection:
            await connection.execute(_QUERIES["cool_down"], HOT_HOST, until)
