"""A database whose clock can jump for all its sessions at the same time."""

import asyncpg

# Sessions that start later find this function before PostgreSQL's own.
_MAKE = """
CREATE SCHEMA faults;
CREATE TABLE faults.clock AS SELECT interval '0' AS ahead, NULL::timestamptz AS stopped_at;
CREATE FUNCTION faults.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    RETURN (SELECT coalesce(stopped_at, pg_catalog.clock_timestamp()) + ahead FROM faults.clock);
DO 'BEGIN EXECUTE format($$ALTER DATABASE %I SET search_path = public, faults, pg_catalog$$, current_database()); END';
"""


async def make_clock(database_url: str) -> None:
    """Give a database a clock that can jump. Sessions that start later use it."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(_MAKE)
    await connection.close()


async def step_clock(database_url: str, seconds: float) -> None:
    """Move the clock."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE faults.clock SET ahead = ahead + $1 * interval '1 s'", seconds)
    await connection.close()


async def stop_clock(database_url: str, *, stopped: bool = True) -> None:
    """Stop the clock, or let it run again at the right time."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        "UPDATE faults.clock SET stopped_at = CASE WHEN $1 THEN pg_catalog.clock_timestamp() END", stopped
    )
    await connection.close()
