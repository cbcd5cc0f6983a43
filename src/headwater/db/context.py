"""The database and its clock, opened together."""

import contextlib
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import Enum, auto
from uuid import uuid4

from headwater.core.settings import Settings
from headwater.db import migrate
from headwater.db.clock import DatabaseClock
from headwater.db.pool import Database, no_database, open_database


class MigrateWhen(Enum):
    """When opening the database may create it or migrate its schema, which other processes may use."""

    NEVER = auto()  # there must be a database
    IF_EMPTY = auto()
    ALWAYS = auto()


@dataclass(frozen=True, slots=True)
class DatabaseContext:
    """The database, its clock and the settings: all that local operations need."""

    settings: Settings
    database: Database
    clock: DatabaseClock
    holder: str


@contextlib.asynccontextmanager
async def open_database_context(
    settings: Settings, *, migrate_when: MigrateWhen = MigrateWhen.IF_EMPTY, fetches: bool = False
) -> AsyncIterator[DatabaseContext]:
    """Open the database, and migrate it if allowed. Another schema than this program's is refused.

    Other programs see whether this one `fetches` pages.
    """
    is_required = migrate_when is MigrateWhen.NEVER
    async with open_database(settings, must_exist=is_required, fetches=fetches) as database:
        if is_required and await migrate.is_empty(database):
            raise no_database(settings)
        if migrate_when is MigrateWhen.ALWAYS or (
            migrate_when is MigrateWhen.IF_EMPTY and await migrate.is_empty(database)
        ):
            await migrate.up(database, restore_optional=False)
        else:
            await migrate.require_current(database)
        clock = DatabaseClock()
        await clock.sync(database)
        holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        yield DatabaseContext(settings, database, clock, holder)
