"""The database's time, carried on a clock of this machine that only goes forward.

Leases and politeness hold across machines, so all of them must agree on the time: the database's. Asking it before
every decision would cost a round trip, so the offset is measured now and then. A step of this machine's wall clock
changes nothing, and its sleep is counted in.
"""

import time
from datetime import UTC, datetime, timedelta

from headwater.store.pool import Database
from headwater.store.sql import query

# The truth lies within half a round trip: one this short is as good as any, one this long is not believed.
_SHORT_ROUND_TRIP, _LONGEST_ROUND_TRIP = 0.002, 0.05
_READINGS = 8
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while the machine sleeps, where there is one


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
        """Read the server's time; of a few readings the quickest is the truest, and a slow one is not believed."""
        readings: list[tuple[float, datetime, float]] = []
        async with database.connection() as connection:
            while len(readings) < _READINGS and (not readings or min(readings)[0] > _SHORT_ROUND_TRIP):
                before = time.clock_gettime(_CLOCK)
                server: datetime = await connection.fetchval(query("server_time"))
                after = time.clock_gettime(_CLOCK)
                readings.append((after - before, server, (before + after) / 2))
        took, server, at = min(readings)
        if took <= _LONGEST_ROUND_TRIP or not self._synced:
            self._base, self._at, self._synced = server, at, True
