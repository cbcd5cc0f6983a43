"""All rows, out of a database and into another: one file a table, as PostgreSQL's COPY writes it.

Not pg_dump: the one in the embedded PostgreSQL's wheel speaks no TLS, and any refuses a server that is newer than it.
The schema needs no copy, since migrations make it; and COPY's text is read by every server alike.
"""

import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import asyncpg
import msgspec

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.db import migrate
from headwater.db.pool import Connection, Database
from headwater.db.sql import query

# In an order in which every row finds the rows that it refers to.
TABLES = (
    "schema_migrations",
    "sources",
    "poll_state",
    "host_state",
    "url_frontier",
    "sightings",
    "frontier_queue",
    "frontier_counts",
    "fetch_log",
    "items",
    "item_observations",
    "texts",
    "documents",
    "document_revisions",
    "daily_index",
    "days_read",
    "runs",
    "ingestion_jobs",
    "ingestion_handoffs",
    "budgets",
    "budget_spending",
    "category_links",
    "canonical_attempts",
    "canonical_state",
    "change_state",
    "changes",
    "webhooks",
    "deliveries",
    "delivery_log",
)
_ESCAPED = re.compile(rb"\\(.)")
_MEANT = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_LONG = 7 * 86_400.0  # seconds: longer than any of this takes; the pool's own limit is meant for a query


class Table(msgspec.Struct, frozen=True):
    """A table's file: the columns in it, how many rows, how many bytes, and their hash."""

    name: str
    columns: list[str]
    rows: int
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        """The name of the file."""
        return f"{self.name}.copy"


@contextlib.asynccontextmanager
async def open_snapshot(database: Database) -> AsyncIterator[Connection]:
    """Lend a connection that sees the database as it is now, whatever others commit meanwhile."""
    async with (
        database.connection() as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        await connection.execute(query("speak_plainly"))
        yield connection


async def tables_there(connection: Connection) -> list[str]:
    """Name the tables to be written; what was taken back alone is not there."""
    there = {row["relname"] for row in await connection.fetch(query("tables_there"))}
    return [name for name in TABLES if name in there]


async def dump_table(connection: Connection, name: str, folder: Path) -> Table:
    """Write a table's file."""
    columns = [row["attname"] for row in await connection.fetch(query("columns_to_copy"), name)]
    digest, size = hashlib.sha256(), 0
    with (folder / f"{name}.copy").open("xb") as file:

        async def write(chunk: bytes) -> None:
            nonlocal size
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)

        status = await connection.copy_from_table(name, columns=columns, output=write, timeout=_LONG)
    return Table(name, columns, _count(status), size, digest.hexdigest())


async def sequences(connection: Connection) -> dict[str, int]:
    """Tell how far each sequence has counted."""
    return {row["name"]: row["last"] for row in await connection.fetch(query("sequences"))}


async def count_documents(connection: Connection) -> int:
    """Count the documents."""
    count: int = await connection.fetchval(query("count_documents"), timeout=_LONG)
    return count


async def raw_files(connection: Connection, page: int) -> AsyncIterator[list[tuple[str, bytes, int]]]:
    """Yield path, hash and size of every document's raw file, by pages."""
    after = 0
    while rows := await connection.fetch(query("raw_files"), after, page, timeout=_LONG):
        yield [tuple(row)[1:] for row in rows]
        after = rows[-1]["id"]


def raw_files_in(folder: Path, tables: Sequence[Table]) -> Iterator[tuple[str, bytes, int]]:
    """Yield the same, out of a table's file. Blocks on the disk."""
    (documents,) = (table for table in tables if table.name == "documents")
    places = [documents.columns.index(name) for name in ("raw_path", "raw_hash", "raw_bytes")]
    with (folder / documents.file_name).open("rb") as file:
        for line in file:
            fields = line.removesuffix(b"\n").split(b"\t")
            path, digest, size = (_unescaped(fields[place]).decode() for place in places)
            yield path, bytes.fromhex(digest.removeprefix("\\x")), int(size)


async def raw_files_at(connection: Connection, path_hashes: Sequence[bytes]) -> list[tuple[str, bytes, int]]:
    """Return the same for some paths, given by their SHA-256."""
    return [tuple(row) for row in await connection.fetch(query("raw_files_by_path_hash"), path_hashes, timeout=_LONG)]


async def raw_files_being_replaced(connection: Connection) -> list[tuple[str, bytes, int]]:
    """Return the same for pages that somebody is at."""
    return [tuple(row) for row in await connection.fetch(query("raw_files_being_replaced"))]


async def refuse_occupied(connection: Connection, where: str) -> None:
    """Refuse a database that something is in."""
    there = [row["relname"] for row in await connection.fetch(query("tables_there"))]
    if there:
        names = ", ".join(there[:3]) + (f" and {len(there) - 3} more" if len(there) > 3 else "")
        raise OperatorError(
            f"There is something in {where} already (the tables {names}). Nothing was changed. Restore into a new "
            "database (CREATE DATABASE, then HEADWATER_DATABASE_URL), or without that setting into a data folder that "
            "is not there yet (HEADWATER_DATA_DIR).",
            reason=Reason.BAD_REQUEST,
        )


@contextlib.asynccontextmanager
async def loading(database: Database, where: str) -> AsyncIterator[Connection]:
    """Lend a connection to fill an empty database on; nothing is there before this ends well, and then all is.

    Who would make the schema meanwhile waits, and finds it made.
    """
    async with database.connection() as connection, connection.transaction():
        await connection.execute(query("speak_plainly"))
        await connection.execute(query("lock_migrations"), timeout=_LONG)
        await refuse_occupied(connection, where)
        yield connection


async def load(
    connection: Connection,
    schema: int,
    tables: Sequence[Table],
    counted: Mapping[str, int],
    folder: Path,
    on_table: Callable[[int], None],
) -> None:
    """Make the schema of a number, fill it from files, bring it up to date; `on_table` hears how many are filled."""
    try:
        await migrate.apply_missing(connection, through=schema, seconds=_LONG)
        indexes = [row[0] for row in await connection.fetch(query("indexes_to_rebuild"))]
        await connection.execute(query("clear_for_loading"), timeout=_LONG)
        for number, table in enumerate(tables):
            on_table(number)
            source = folder / table.file_name
            status = await connection.copy_to_table(table.name, columns=table.columns, source=source, timeout=_LONG)
            if _count(status) != table.rows:
                raise _does_not_fit(f"{table.file_name} has {_count(status):,} rows and should have {table.rows:,}")
        for index in indexes:
            await connection.execute(index, timeout=_LONG)
        await connection.execute(query("loaded"), timeout=_LONG)
        for name, last in counted.items():
            await connection.execute(query("set_sequence"), name, last)
        await migrate.drop_unapplied_optional(connection)
        await migrate.apply_missing(connection, restore_optional=False, seconds=_LONG)
        await connection.execute(query("gather_statistics"), timeout=_LONG)
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.SyntaxOrAccessError) as error:
        raise _does_not_fit(str(error)) from None


def _does_not_fit(why: str) -> OperatorError:
    return OperatorError(
        f"The backup cannot be loaded into this database: {why}. Nothing was changed there.",
        reason=Reason.SCHEMA_MISMATCH,
    )


def _unescaped(field: bytes) -> bytes:
    """Undo what COPY does to the characters that have a meaning in its text."""
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1]), field)


def _count(status: str) -> int:
    return int(status.removeprefix("COPY "))
