"""The database's time, carried on a clock of this machine that only goes forward.

Leases and politeness hold across machines, so all of them must agree on the time: the database's. Asking it before
every decision would cost a round trip, so it is carried on, and looked at every second. A step of this machine's wall
clock changes nothing, and its sleep is counted in.

The server's clock may step too, and then what was written by the old time is read by the new: a host that is held, or
has its pause, would seem to be free. So nobody takes the new time at once. Whoever sees a step goes on by the old time
with what is under way, takes no host, and changes over when all that anybody held by the old time must have ended.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from headwater.db.pool import Connection, Database
from headwater.db.sql import query

log = structlog.get_logger()
SYNC_SECONDS = 1.0
_SHORT_ROUND_TRIP = 0.002  # as good as any
_READINGS = 8
# What is off by more than the first has stepped; less is made good little by little, by the second at each reading.
_STEP, _SLEW = timedelta(seconds=1), timedelta(milliseconds=10)
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


async def read_server_time(connection: Connection, readings: int = _READINGS) -> Reading:
    """Read the server's time; of a few readings the quickest is the truest."""
    best = None
    for _ in range(readings):
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
        self._stepped_at: float | None = None

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return self._time_at(time.clock_gettime(_CLOCK))

    @property
    def is_settled(self) -> bool:
        """Whether hosts may be taken by this time: not while a step of it is waited out."""
        return self._stepped_at is None

    async def sync(self, database: Database, settle_seconds: float = 0.0) -> None:
        """Compare with the server's time; a step of it is followed after `settle_seconds`, the first time at once."""
        async with database.connection() as connection:
            reading = await read_server_time(connection, 1 if self._synced else _READINGS)
        if self._synced:
            self._follow(reading, settle_seconds)
        else:
            self._set(reading)

    def _follow(self, reading: Reading, settle_seconds: float) -> None:
        error = self._error(reading)
        if abs(error) <= _STEP:
            self._base += max(-_SLEW, min(_SLEW, error))
            self._stepped_at = None
        elif self._stepped_at is None:
            log.warning("clock.stepped", seconds=error.total_seconds(), waits_seconds=settle_seconds)
            self._stepped_at = reading.at
        elif reading.at - self._stepped_at >= settle_seconds:
            log.info("clock.settled", seconds=error.total_seconds())
            self._set(reading)

    def _error(self, reading: Reading) -> timedelta:
        """Tell how far off this clock is for certain: the truth lies within half a round trip."""
        ahead, doubt = reading.server - self._time_at(reading.at), timedelta(seconds=reading.seconds / 2)
        return max(ahead - doubt, timedelta(0)) + min(ahead + doubt, timedelta(0))

    def _set(self, reading: Reading) -> None:
        self._base, self._at, self._synced, self._stepped_at = reading.server, reading.at, True, None

    def _time_at(self, tick: float) -> datetime:
        return self._base + timedelta(seconds=tick - self._at)
