"""Numbered migrations, each with an up and a down file. An advisory lock lets only one process migrate at a time."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import asyncpg

from headwater.core.errors import BadRequest, SchemaMismatch
from headwater.db.pool import Connection, Database
from headwater.db.sql import query

_FILE = re.compile(r"^(\d{3})_(\w+)\.(up|down)\.sql$")
OPTIONAL = frozenset({"handoffs"})  # migrations that can be rolled back alone: all other parts work without (spec 7.5)


@dataclass(frozen=True, slots=True)
class Migration:
    """A step of the schema: the SQL that applies it and the SQL that rolls it back."""

    number: int
    name: str
    up: str
    down: str


@functools.cache
def all_migrations() -> tuple[Migration, ...]:
    """Return the migrations of this program, in order."""
    texts: dict[tuple[int, str], dict[str, str]] = {}
    for file in resources.files("headwater.db.migrations").iterdir():
        if match := _FILE.match(file.name):
            number, name, direction = match.groups()
            texts.setdefault((int(number), name), {})[direction] = file.read_text(encoding="utf-8")
    return tuple(Migration(number, name, sql["up"], sql["down"]) for (number, name), sql in sorted(texts.items()))


def newest_version() -> int:
    """Return the number of the newest migration of this program."""
    return all_migrations()[-1].number


async def get_applied(connection: Connection) -> list[int]:
    """Return the numbers of the applied migrations, in order. Refuses the schema of another build."""
    if not await connection.fetchval(query("migrations_table_exists")):
        return []
    known = {migration.number: migration.name for migration in all_migrations()}
    applied = await connection.fetch(query("applied_migrations"))
    for number, name in applied:
        if known.get(number, name) != name:
            raise SchemaMismatch(
                f"The database schema was made by another build: its migration {number:03} is {name}, and this "
                f"program's is {known[number]}. Use the version of Headwater that made it, or a new database."
            )
    return [row["number"] for row in applied]


async def can_migrate(connection: Connection) -> bool:
    """Return whether the database role may create tables."""
    return bool(await connection.fetchval(query("can_migrate")))


async def up(database: Database, *, restore_optional: bool = True) -> list[Migration]:
    """Apply the missing migrations and return them.

    `restore_optional` also applies an optional migration that was rolled back alone.
    """
    numbers = await database.run(get_applied)
    refuse_newer(numbers)
    if not find_missing(numbers, restore_optional=restore_optional):
        return []
    try:
        return await database.transact(apply_missing, restore_optional=restore_optional)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.DuplicateObjectError, asyncpg.DuplicateTableError) as error:
        raise SchemaMismatch(
            f"The schema cannot be made in this database: {error}. Give Headwater a database of its own, "
            "owned by the user it connects as."
        ) from None


async def apply_missing(
    connection: Connection, through: int | None = None, *, restore_optional: bool = True, seconds: float | None = None
) -> list[Migration]:
    """Apply the missing migrations, at most up to the number `through`, and return them. Runs in a transaction.

    `seconds` limits one migration; None: the limit of the connection.
    """
    numbers = await _lock_and_read(connection)
    last = newest_version() if through is None else through
    missing = find_missing(numbers, restore_optional=restore_optional)
    missing = [migration for migration in missing if migration.number <= last]
    for migration in missing:
        await connection.execute(migration.up, timeout=seconds)
        await connection.execute(query("record_migration"), migration.number, migration.name)
    return missing


async def down(database: Database, to: int) -> list[Migration]:
    """Roll back every migration with a number above `to`, newest first, and return them."""

    async def work(connection: Connection) -> list[Migration]:
        numbers = await _lock_and_read(connection)
        steps = [step for step in reversed(all_migrations()) if step.number in numbers and step.number > to]
        for step in steps:
            await _roll_back(connection, step)
        return steps

    return await database.transact(work)


def require_optional(name: str) -> None:
    """Refuse a migration that cannot be rolled back alone."""
    if name not in OPTIONAL:
        alone = ", ".join(sorted(OPTIONAL))
        raise BadRequest(
            f"--only: {name!r} cannot be rolled back alone, because later migrations need it. Use one of: {alone}."
        )


async def down_only(database: Database, name: str) -> list[Migration]:
    """Roll one migration back and leave all others applied. Returns an empty list if it was not applied."""
    require_optional(name)

    async def work(connection: Connection) -> list[Migration]:
        numbers = await _lock_and_read(connection)
        migration = next(migration for migration in all_migrations() if migration.name == name)
        if migration.number not in numbers:
            return []
        await _roll_back(connection, migration)
        return [migration]

    return await database.transact(work)


async def drop_unapplied_optional(connection: Connection) -> None:
    """Drop the tables of optional migrations that are not recorded as applied. Runs in a transaction."""
    numbers = await get_applied(connection)
    for migration in all_migrations():
        if migration.name in OPTIONAL and migration.number not in numbers:
            await connection.execute(migration.down)


async def is_empty(database: Database) -> bool:
    """Return whether no migration is applied."""
    return not await database.run(get_applied)


async def require_current(database: Database) -> None:
    """Refuse a schema that is older or newer than this program's."""
    numbers = await database.run(get_applied)
    refuse_newer(numbers)
    if any(migration.name not in OPTIONAL for migration in find_missing(numbers)):
        raise SchemaMismatch(
            f"The database schema is at version {max(numbers, default=0)}, this program needs {newest_version()}. "
            "Run `headwater migrate up`."
        )


def refuse_newer(numbers: Sequence[int]) -> None:
    """Refuse a schema that a newer program made."""
    newest = newest_version()
    if max(numbers, default=0) > newest:
        raise SchemaMismatch(
            f"The database schema is at version {max(numbers)}, newer than this program knows ({newest}). "
            "Use the version of Headwater that made it, or a newer one."
        )


def find_missing(numbers: Sequence[int], *, restore_optional: bool = True) -> list[Migration]:
    """Return the migrations that are not applied.

    Unless `restore_optional`, an optional migration is left out if it is the first one that is missing: it was rolled
    back alone then.
    """
    missing = [migration for migration in all_migrations() if migration.number not in numbers]
    if restore_optional or not missing:
        return missing
    first = missing[0].number
    return [migration for migration in missing if migration.name not in OPTIONAL or migration.number > first]


async def _roll_back(connection: Connection, migration: Migration) -> None:
    await connection.execute(migration.down)
    await connection.execute(query("forget_migration"), migration.number)


async def _lock_and_read(connection: Connection) -> list[int]:
    await connection.execute(query("lock_migrations"))
    await connection.execute(query("make_migrations_table"))
    numbers = await get_applied(connection)
    refuse_newer(numbers)
    return numbers
