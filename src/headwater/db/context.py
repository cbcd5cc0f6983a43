"""The database and its time, opened together."""

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
from headwater.db.pool import Database, open_database


class Migrating(Enum):
    """When opening the database may change its schema: others may be running on it."""

    NEVER = auto()
    AN_EMPTY_DATABASE = auto()
    ALWAYS = auto()


@dataclass(frozen=True, slots=True)
class DatabaseContext:
    """The database and its time: all that a door which only reads needs."""

    settings: Settings
    database: Database
    clock: DatabaseClock
    holder: str


@contextlib.asynccontextmanager
async def open_database_context(
    settings: Settings, *, migrating: Migrating = Migrating.AN_EMPTY_DATABASE
) -> AsyncIterator[DatabaseContext]:
    """Open the database at the schema of this program, which may have to be brought there first."""
    async with open_database(settings) as database:
        if migrating is Migrating.ALWAYS or (
            migrating is Migrating.AN_EMPTY_DATABASE and await migrate.is_empty(database)
        ):
            await migrate.up(database, restore_optional=False)
        else:
            await migrate.require_current(database)
        clock = DatabaseClock()
        await clock.sync(database)
        holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        yield DatabaseContext(settings, database, clock, holder)
