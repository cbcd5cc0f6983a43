"""Dump all rows of a database and load them into another: one file for each table, in the text format of COPY.

We do not use pg_dump. The one in the wheel of the embedded PostgreSQL has no TLS, and each refuses a newer server. The
dump needs no schema, because the migrations make it. Every server reads the text format of COPY.
"""

import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import asyncpg
import msgspec

from headwater.core.errors import BadRequest, OperatorError, SchemaMismatch
from headwater.db import migrate
from headwater.db.pool import Connection, Database
from headwater.db.sql import query

# In the order of their foreign keys.
TABLES = (
    "schema_migrations",
    "sources",
    "poll_state",
    "source_permits",
    "host_state",
    "url_frontier",
    "watches",
    "site_memory",
    "sightings",
    "frontier_queue",
    "frontier_counts",
    "source_urls",
    "ended_urls",
    "fetch_log",
    "items",
    "item_observations",
    "texts",
    "documents",
    "document_revisions",
    "document_search",
    "search_configurations",
    "search_state",
    "search_index",
    "index_changes",
    "unused_raw_files",
    "source_sizes",
    "daily_index",
    "days_read",
    "runs",
    "history",
    "history_marks",
    "poll_log",
    "source_days",
    "started_programs",
    "ingestion_jobs",
    "job_counts",
    "ingestion_handoffs",
    "handoff_counts",
    "budgets",
    "budget_spending",
    "category_links",
    "canonical_attempts",
    "canonical_state",
    "alarms",
    "extraction_days",
    "alarm_state",
    "change_state",
    "changes",
    "saved_searches",
    "feed_addresses",
    "story_documents",
    "story_keys",
    "story_state",
    "webhooks",
    "reported_documents",
    "deliveries",
    "delivery_log",
    "api_tokens",
)
_ESCAPE = re.compile(rb"\\(.)")
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_TIMEOUT_SECONDS = 7 * 86_400.0  # longer than the largest dump takes


class Table(msgspec.Struct, frozen=True):
    """The file of a table: its columns, the number of rows, the size in bytes, and the hash."""

    name: str
    columns: list[str]
    rows: int
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        """The name of the file in the folder of the dump."""
        return f"{self.name}.copy"


@contextlib.asynccontextmanager
async def open_snapshot(database: Database) -> AsyncIterator[Connection]:
    """Open a connection that sees the database as of now, whatever other connections commit later."""
    async with (
        database.connection() as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        await connection.execute(query("set_dump_formats"))
        yield connection


async def list_tables(connection: Connection) -> list[str]:
    """List the tables to dump. The tables of a migration that was taken back are left out."""
    present = {row["relname"] for row in await connection.fetch(query("existing_tables"))}
    return [name for name in TABLES if name in present]


async def dump_table(connection: Connection, name: str, folder: Path) -> Table:
    """Write the file of a table."""
    with (folder / f"{name}.copy").open("xb") as file:

        async def write(chunk: bytes) -> None:
            file.write(chunk)

        return await read_table(connection, name, write)


async def read_table(connection: Connection, name: str, receive: Callable[[bytes], Awaitable[None]]) -> Table:
    """Read all rows of a table, and pass them on in chunks."""
    columns = await read_columns(connection, name)
    digest, size = hashlib.sha256(), 0

    async def pass_on(chunk: bytes) -> None:
        nonlocal size
        digest.update(chunk)
        size += len(chunk)
        await receive(chunk)

    status = await connection.copy_from_table(name, columns=columns, output=pass_on, timeout=_TIMEOUT_SECONDS)
    return Table(name, columns, _count(status), size, digest.hexdigest())


async def read_columns(connection: Connection, name: str) -> list[str]:
    """Return the columns of a table that are copied."""
    return [row["attname"] for row in await connection.fetch(query("columns_to_copy"), name)]


async def read_sequences(connection: Connection) -> dict[str, int]:
    """Return the last value of each sequence."""
    return {row["name"]: row["last"] for row in await connection.fetch(query("sequences"))}


async def count_documents(connection: Connection) -> int:
    """Count the documents."""
    value: int = await connection.fetchval(query("count_documents"), timeout=_TIMEOUT_SECONDS)
    return value


async def read_raw_files(connection: Connection, page: int) -> AsyncIterator[list[tuple[str, bytes, int]]]:
    """Yield path, hash and size of the raw file of each document, in pages."""
    after = 0
    while rows := await connection.fetch(query("raw_files"), after, page, timeout=_TIMEOUT_SECONDS):
        yield [tuple(row)[1:] for row in rows]
        after = rows[-1]["id"]


def read_raw_files_in(folder: Path, tables: Sequence[Table]) -> Iterator[tuple[str, bytes, int]]:
    """Yield path, hash and size of the raw file of each document in a dump. Blocks on the disk."""
    (documents,) = (table for table in tables if table.name == "documents")
    columns = [documents.columns.index(name) for name in ("raw_path", "raw_hash", "raw_bytes")]
    with (folder / documents.file_name).open("rb") as file:
        for line in file:
            fields = line.removesuffix(b"\n").split(b"\t")
            path, digest, size = (_unescape(fields[column]).decode() for column in columns)
            yield path, bytes.fromhex(digest.removeprefix("\\x")), int(size)


async def read_raw_files_at(connection: Connection, path_hashes: Sequence[bytes]) -> list[tuple[str, bytes, int]]:
    """Return path, hash and size of raw files, by the SHA-256 of their paths."""
    return [
        tuple(row)
        for row in await connection.fetch(query("raw_files_by_path_hash"), path_hashes, timeout=_TIMEOUT_SECONDS)
    ]


async def read_raw_files_in_fetch(connection: Connection) -> list[tuple[str, bytes, int]]:
    """Return path, hash and size of the raw files of pages that a worker fetches now."""
    return [tuple(row) for row in await connection.fetch(query("raw_files_in_fetch"))]


async def refuse_occupied(connection: Connection, place: str) -> None:
    """Refuse a database that has tables already."""
    present = [row["relname"] for row in await connection.fetch(query("existing_tables"))]
    if present:
        names = ", ".join(present[:3]) + (f" and {len(present) - 3} more" if len(present) > 3 else "")
        raise BadRequest(
            f"There are tables in {place} already (the tables {names}). Nothing was changed. Restore into a new "
            "database (CREATE DATABASE, then HEADWATER_DATABASE_URL), or without that setting into a data folder that "
            "is not there yet (HEADWATER_DATA_DIR)."
        )


@contextlib.asynccontextmanager
async def loading(database: Database, place: str) -> AsyncIterator[Connection]:
    """Open a connection that fills an empty database in one transaction. Other migrations wait for its end."""
    async with database.connection() as connection, connection.transaction():
        await connection.execute(query("set_dump_formats"))
        await connection.execute(query("lock_migrations"), timeout=_TIMEOUT_SECONDS)
        await refuse_occupied(connection, place)
        yield connection


async def load(
    connection: Connection,
    schema: int,
    tables: Sequence[Table],
    sequences: Mapping[str, int],
    folder: Path,
    on_table: Callable[[int], None],
) -> None:
    """Make the schema with a number, fill it from files, and bring it up to date.

    `on_table` receives how many tables are filled.
    """
    with report_misfits("The backup"):
        indexes = await make_empty_tables(connection, schema)
        for number, table in enumerate(tables):
            on_table(number)
            rows = await fill_table(connection, table.name, table.columns, folder / table.file_name)
            if rows != table.rows:
                raise _does_not_fit("The backup", f"{table.file_name} has {rows:,} rows and should have {table.rows:,}")
        await finish_tables(connection, indexes, sequences)
        await migrate.apply_missing(connection, restore_optional=False, seconds=_TIMEOUT_SECONDS)
        await analyze(connection)


async def make_empty_tables(connection: Connection, schema: int) -> list[str]:
    """Make the tables of a schema version, without triggers and indexes. Returns the statements for the indexes."""
    await migrate.apply_missing(connection, through=schema, seconds=_TIMEOUT_SECONDS)
    indexes = [row[0] for row in await connection.fetch(query("indexes_to_rebuild"))]
    await connection.execute(query("clear_for_loading"), timeout=_TIMEOUT_SECONDS)
    return indexes


async def fill_table(
    connection: Connection, name: str, columns: Sequence[str], source: Path | AsyncIterator[bytes]
) -> int:
    """Fill a table from a file or from chunks. Returns the number of rows."""
    return _count(await connection.copy_to_table(name, columns=list(columns), source=source, timeout=_TIMEOUT_SECONDS))


async def finish_tables(connection: Connection, indexes: Sequence[str], sequences: Mapping[str, int]) -> None:
    """Make the indexes and triggers of filled tables, and set the sequences."""
    for index in indexes:
        await connection.execute(index, timeout=_TIMEOUT_SECONDS)
    await connection.execute(query("enable_triggers"), timeout=_TIMEOUT_SECONDS)
    for name, last in sequences.items():
        await connection.execute(query("set_sequence"), name, last)
    await migrate.drop_unapplied_optional(connection)


async def analyze(connection: Connection) -> None:
    """Make the planner's statistics of all tables."""
    await connection.execute(query("analyze"), timeout=_TIMEOUT_SECONDS)


@contextlib.contextmanager
def report_misfits(what: str) -> Iterator[None]:
    """Turn the database's refusals into an error that names the source of the rows."""
    try:
        yield
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.SyntaxOrAccessError) as error:
        raise _does_not_fit(what, str(error)) from None


def _does_not_fit(what: str, why: str) -> OperatorError:
    return SchemaMismatch(f"{what} cannot be loaded into this database: {why}. Nothing was changed there.")


def _unescape(field: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), field)


def _count(status: str) -> int:
    return int(status.removeprefix("COPY "))
