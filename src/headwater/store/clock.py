"""The database's time, carried on a clock of this machine that only goes forward.

Leases and politeness hold across machines, so all of them must agree on the time: the database's. Asking it before
every decision would cost a round trip, so the offset is measured now and then. A step of this machine's wall clock
changes nothing, and its sleep is counted in.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headwater.store.pool import Connection, Database
from headwater.store.sql import query

# The truth lies within half a round trip: one this short is as good as any, one this long is not believed.
_SHORT_ROUND_TRIP, _LONGEST_ROUND_TRIP = 0.002, 0.05
_READINGS = 8
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while the machine sleeps, where there is one


@dataclass(frozen=True, slots=True)
class Reading:
    """The server's time, when it was so on the clock that only goes forward, and how long the answer took."""

    server: datetime
    at: float
    seconds: float

    @property
    def ahead(self) -> timedelta:
        """How far the server is ahead of this machine's wall clock."""
        wall = datetime.now(UTC) - timedelta(seconds=time.clock_gettime(_CLOCK) - self.at)
        return self.server - wall


async def read_server_time(connection: Connection) -> Reading:
    """Read the server's time; of a few readings the quickest is the truest."""
    best = None
    for _ in range(_READINGS):
        before = time.clock_gettime(_CLOCK)
        server: datetime = await connection.fetchval(query("server_time"))
        after = time.clock_gettime(_CLOCK)
        if best is None or after - before < best.seconds:
            best = Reading(server, (before + after) / 2, after - before)
        if best.seconds <= _SHORT_ROUND_TRIP:
            break
    assert best is not None
    return best


class DatabaseClock:
    """Tells the time; `sync` keeps it true."""

    def __init__(self) -> None:
        self._base = datetime.now(UTC)
        self._at = time.clock_gettime(_CLOCK)
        self._synced = False

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return self._base + timedelta(seconds=time.clock_gettime(_CLOCK) - self._at)

    async def sync(self, database: Database) -> None:
        """Read the server's time; an answer that took long is not believed."""
        async with database.connection() as connection:
            reading = await read_server_time(connection)
        if reading.seconds <= _LONGEST_ROUND_TRIP or not self._synced:
            self._base, self._at, self._synced = reading.server, reading.at, True
