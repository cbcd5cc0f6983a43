"""The schema, for the doors."""

from headwater.core.settings import Settings
from headwater.db import documents, migrate
from headwater.db.pool import open_database


async def up(settings: Settings) -> list[str]:
    """Apply what is missing, and make the search index anew if it is not whole; name what was applied."""
    async with open_database(settings) as database:
        steps = [f"{step.number:03} {step.name}" for step in await migrate.up(database)]
        async with database.connection() as connection:
            mended = await documents.mend_search_index(connection)
    return [*steps, "004 documents: its search index, anew"] if mended else steps


async def down(settings: Settings, to: int) -> list[str]:
    """Take back what is above a number; name what was taken back."""
    async with open_database(settings) as database:
        return [f"{step.number:03} {step.name}" for step in await migrate.down(database, to)]


async def down_only(settings: Settings, name: str) -> list[str]:
    """Take one migration back and leave the others; name it, if it was in force."""
    async with open_database(settings) as database:
        return [f"{step.number:03} {step.name}" for step in await migrate.down_only(database, name)]


def require_optional(name: str) -> None:
    """Refuse what cannot be taken back alone."""
    migrate.require_optional(name)


async def status(settings: Settings) -> list[dict[str, object]]:
    """List the migrations this program knows and whether each is in force."""
    async with open_database(settings) as database, database.connection() as connection:
        numbers = await migrate.applied(connection)
    migrate.refuse_newer(numbers)
    return [{"number": step.number, "name": step.name, "applied": step.number in numbers} for step in migrate.known()]
