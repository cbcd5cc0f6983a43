"""Numbered migrations, each with its way back, run one at a time under an advisory lock."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import asyncpg

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.db.pool import Connection, Database
from headwater.db.sql import query

_FILE = re.compile(r"^(\d{3})_(\w+)\.(up|down)\.sql$")
OPTIONAL = frozenset({"handoffs"})  # what may be taken back alone: everything else runs without it (spec 7.5)


@dataclass(frozen=True, slots=True)
class Migration:
    """A step of the schema, and the step back."""

    number: int
    name: str
    up: str
    down: str


@functools.cache
def known() -> tuple[Migration, ...]:
    """Return the migrations this program ships, in order."""
    texts: dict[tuple[int, str], dict[str, str]] = {}
    for file in resources.files("headwater.db.migrations").iterdir():
        if match := _FILE.match(file.name):
            number, name, way = match.groups()
            texts.setdefault((int(number), name), {})[way] = file.read_text(encoding="utf-8")
    return tuple(Migration(number, name, ways["up"], ways["down"]) for (number, name), ways in sorted(texts.items()))


async def applied(connection: Connection) -> list[int]:
    """Return the numbers of the migrations in force, in order."""
    if not await connection.fetchval(query("migrations_table_exists")):
        return []
    return [row["number"] for row in await connection.fetch(query("applied_migrations"))]


async def may_migrate(connection: Connection) -> bool:
    """Tell whether this role may make tables."""
    return bool(await connection.fetchval(query("may_migrate")))


async def up(database: Database, *, asked: bool = True) -> list[Migration]:
    """Apply what is missing; return what was applied. Unless it was asked for, what was taken back alone stays so."""
    async with database.connection() as connection:
        numbers = await applied(connection)
    refuse_newer(numbers)
    if not missing_of(numbers, asked=asked):
        return []
    try:
        return await database.transact(lambda connection: apply(connection, asked=asked))
    except (asyncpg.InsufficientPrivilegeError, asyncpg.DuplicateObjectError, asyncpg.DuplicateTableError) as error:
        raise OperatorError(
            f"The schema cannot be made in this database: {error}. Give Headwater a database of its own, "
            "owned by the user it connects as.",
            reason=Reason.SCHEMA_MISMATCH,
        ) from None


async def apply(
    connection: Connection, through: int | None = None, *, asked: bool = True, seconds: float | None = None
) -> list[Migration]:
    """Apply what is missing, or only what is missing up to a number; return what was applied. In a transaction.

    `seconds` is how long one step may take; None: as long as any statement on the connection.
    """
    numbers = await _lock_and_read(connection)
    last = known()[-1].number if through is None else through
    missing = [migration for migration in missing_of(numbers, asked=asked) if migration.number <= last]
    for migration in missing:
        await connection.execute(migration.up, timeout=seconds)
        await connection.execute(query("record_migration"), migration.number, migration.name)
    return missing


async def down(database: Database, to: int) -> list[Migration]:
    """Take back every migration above number `to`, newest first; return what was taken back."""

    async def work(connection: Connection) -> list[Migration]:
        numbers = await _lock_and_read(connection)
        undone = [migration for migration in reversed(known()) if migration.number in numbers and migration.number > to]
        for migration in undone:
            await _take_back(connection, migration)
        return undone

    return await database.transact(work)


def require_optional(name: str) -> None:
    """Refuse what cannot be taken back alone."""
    if name not in OPTIONAL:
        alone = ", ".join(sorted(OPTIONAL))
        raise OperatorError(
            f"--only: {name!r} cannot be taken back alone, as what came after builds on it. What can: {alone}.",
            reason=Reason.BAD_REQUEST,
        )


async def down_only(database: Database, name: str) -> list[Migration]:
    """Take one migration back and leave all others in force; return it, or nothing where it was not in force."""
    require_optional(name)

    async def work(connection: Connection) -> list[Migration]:
        numbers = await _lock_and_read(connection)
        (migration,) = (one for one in known() if one.name == name)
        if migration.number not in numbers:
            return []
        await _take_back(connection, migration)
        return [migration]

    return await database.transact(work)


async def drop_unrecorded(connection: Connection) -> None:
    """Drop what optional migrations have made that are not in force by the record. In a transaction."""
    numbers = await applied(connection)
    for migration in known():
        if migration.name in OPTIONAL and migration.number not in numbers:
            await connection.execute(migration.down)


async def is_empty(database: Database) -> bool:
    """Tell whether nothing of ours is there yet."""
    async with database.connection() as connection:
        return not await applied(connection)


async def require_current(database: Database) -> None:
    """Refuse to work on a schema that is not exactly this program's."""
    async with database.connection() as connection:
        numbers = await applied(connection)
    refuse_newer(numbers)
    if any(migration.name not in OPTIONAL for migration in missing_of(numbers)):
        raise OperatorError(
            f"The database schema is at version {max(numbers, default=0)}, this program needs {known()[-1].number}. "
            "Run `headwater migrate up`.",
            reason=Reason.SCHEMA_MISMATCH,
        )


def refuse_newer(numbers: Sequence[int]) -> None:
    """Refuse a schema that a newer program made: nothing of it may be touched."""
    newest = known()[-1].number
    if max(numbers, default=0) > newest:
        raise OperatorError(
            f"The database schema is at version {max(numbers)}, newer than this program knows ({newest}). "
            "Use the version of Headwater that made it, or a newer one.",
            reason=Reason.SCHEMA_MISMATCH,
        )


def missing_of(numbers: Sequence[int], *, asked: bool = True) -> list[Migration]:
    """Return what is not in force. Unasked, what is optional comes only after something else that is missing.

    By itself it is missing because somebody has taken it back.
    """
    missing = [migration for migration in known() if migration.number not in numbers]
    if asked or not missing:
        return missing
    first = missing[0].number
    return [migration for migration in missing if migration.name not in OPTIONAL or migration.number > first]


async def _take_back(connection: Connection, migration: Migration) -> None:
    await connection.execute(migration.down)
    await connection.execute(query("forget_migration"), migration.number)


async def _lock_and_read(connection: Connection) -> list[int]:
    await connection.execute(query("lock_migrations"))
    await connection.execute(query("make_migrations_table"))
    numbers = await applied(connection)
    refuse_newer(numbers)
    return numbers
