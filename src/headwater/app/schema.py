"""Operations on the database schema."""

from headwater.core.record import record
from headwater.core.settings import Settings
from headwater.db import documents, migrate
from headwater.db.migrate import require_optional as require_optional
from headwater.db.pool import open_database


@record
class MigrationStatus:
    """A migration that this program knows."""

    number: int
    name: str
    applied: bool


async def up(settings: Settings) -> list[str]:
    """Apply the missing migrations, and rebuild the search index if it is not whole. Returns what was done."""
    async with open_database(settings) as database:
        steps = [f"{step.number:03} {step.name}" for step in await migrate.up(database)]
        rebuilt = await database.run(documents.rebuild_search_index)
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
