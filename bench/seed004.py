"""The queue of seed document 004 with its own claim, on the same server and the same URLs."""

from uuid import UUID

from bench.server import Connection, connect, new_database, settle
from bench.sql import read_queries
from bench.steps import Steps
from bench.timing import Stopwatch

_QUERIES = read_queries("seed004.sql")


async def measure_seed004(server: str, steps: Steps, rows: int, hosts: int, claims: int) -> float:
    """Return the claimed URLs per second while a closed host has most of the backlog."""
    async with new_database(server, "bench_seed004") as dsn, connect(dsn) as connection:
        with steps.step(f"004: load {rows:,} URLs", None):
            await connection.execute(_QUERIES["schema"])
            await connection.execute(_QUERIES["add_hosts"], hosts)
            await connection.execute(_QUERIES["add_urls"], rows, hosts)
            await settle(connection)
        watch = Stopwatch()
        with steps.step("004: claim beside the hot host", claims) as advance:
            for _ in range(claims):
                await watch.time(_claim(connection))
                advance(1)
    return claims / watch.seconds


async def _claim(connection: Connection) -> UUID:
    async with connection.transaction():
        row = await connection.fetchrow(_QUERIES["claim"])
        assert row, "hosts are ready"
        await connection.execute(_QUERIES["mark_fetching"], row["id"])
        claimed: UUID = row["id"]
        return claimed
