"""Operations on the database schema, and on the major version of the embedded PostgreSQL."""

import asyncio

from headwater.core.errors import BadRequest
from headwater.core.record import record
from headwater.core.settings import Settings
from headwater.db import dump, migrate, search
from headwater.db.embedded import upgrade as embedded
from headwater.db.embedded.cluster import MAJOR, has_cluster
from headwater.db.migrate import require_optional as require_optional
from headwater.db.pool import no_database, open_database, without_password


@record
class MigrationStatus:
    """A migration that this program knows."""

    number: int
    name: str
    applied: bool


@record
class UpgradeReport:
    """An upgrade of the embedded PostgreSQL."""

    from_version: str | None
    """The major version of the old cluster; null if there was nothing to upgrade."""
    to_version: str
    tables: int
    rows: int
    copies: list[str]
    """The folders of the old clusters that are kept."""
    copies_bytes: int
    dropped: list[str]
    """The folders of the old clusters that were deleted."""
    dropped_bytes: int


async def up(settings: Settings) -> list[str]:
    """Apply the missing migrations, and rebuild the search index if it is not whole. Returns what was done."""
    async with open_database(settings) as database:
        steps = [f"{step.number:03} {step.name}" for step in await migrate.up(database)]
        rebuilt = await database.run(search.rebuild_search_index)
    return [*steps, "the search index of documents"] if rebuilt else steps


async def down(settings: Settings, to: int) -> list[str]:
    """Roll back the migrations with a number above `to`. Returns their names."""
    async with open_database(settings, must_exist=True) as database:
        return [f"{step.number:03} {step.name}" for step in await migrate.down(database, to)]


async def down_only(settings: Settings, name: str) -> list[str]:
    """Roll one migration back and leave the others applied. Returns its name if it was applied."""
    async with open_database(settings, must_exist=True) as database:
        return [f"{step.number:03} {step.name}" for step in await migrate.down_only(database, name)]


async def status(settings: Settings) -> list[MigrationStatus]:
    """List the migrations that this program knows."""
    async with open_database(settings, must_exist=True) as database, database.connection() as connection:
        numbers = await migrate.get_applied(connection)
    migrate.refuse_newer(numbers)
    return [MigrationStatus(step.number, step.name, step.number in numbers) for step in migrate.all_migrations()]


async def upgrade(settings: Settings, on_step: embedded.OnStep) -> UpgradeReport:
    """Move the embedded PostgreSQL to this program's major version. The old cluster is kept."""
    _require_embedded(settings)
    if not await asyncio.to_thread(has_cluster, settings.data_dir):
        raise no_database(settings)
    done = await embedded.upgrade(settings.data_dir, on_step)
    copies, size = await asyncio.to_thread(_measure_copies, settings)
    return UpgradeReport(
        from_version=done.old_major if done else None,
        to_version=MAJOR,
        tables=len(done.tables) if done else 0,
        rows=sum(table.rows for table in done.tables) if done else 0,
        copies=copies,
        copies_bytes=size,
        dropped=[],
        dropped_bytes=0,
    )


async def list_copies(settings: Settings) -> list[str]:
    """List the folders of the old clusters that upgrades kept."""
    _require_embedded(settings)
    return (await asyncio.to_thread(_measure_copies, settings))[0]


async def drop_copies(settings: Settings) -> UpgradeReport:
    """Delete the old clusters that upgrades kept, if the new one starts and answers."""
    copies, size = await asyncio.to_thread(_measure_copies, settings)
    async with open_database(settings, must_exist=True) as database:
        await migrate.require_current(database)
        await database.run(dump.count_documents)
    await asyncio.to_thread(embedded.drop_copies, settings.data_dir)
    return UpgradeReport(
        from_version=None,
        to_version=MAJOR,
        tables=0,
        rows=0,
        copies=[],
        copies_bytes=0,
        dropped=copies,
        dropped_bytes=size,
    )


def _measure_copies(settings: Settings) -> tuple[list[str], int]:
    copies = embedded.find_copies(settings.data_dir)
    return [str(copy) for copy in copies], sum(map(embedded.measure, copies))


def _require_embedded(settings: Settings) -> None:
    if settings.database_url:
        place = without_password(settings.database_url)
        raise BadRequest(
            f"HEADWATER_DATABASE_URL names the database at {place}. `headwater upgrade` moves only the embedded "
            "PostgreSQL of a data folder; upgrade that server with its own tools."
        )
