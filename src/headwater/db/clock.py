"""The database's time, on a clock of this machine that only runs forward.

Leases and politeness hold across machines, so all machines use one time: the database's. A question before every
decision would cost a round trip, so this clock keeps the time and compares it with the server every second. A step of
this machine's wall clock changes nothing, and the clock also counts the time while the machine sleeps.

The server's clock may step, too. A lease written by the old time would then seem to be over. So no process follows a
step at once: it keeps the old time for its own work, leases no host, and follows when all leases by the old time ended.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from headwater.db.pool import Connection, Database
from headwater.db.sql import query

log = structlog.get_logger()
SYNC_SECONDS = 1.0
_SHORT_ROUND_TRIP = 0.002  # a shorter one makes the reading no better
_READINGS = 8
# A difference over _STEP is a step of the server's clock. The clock corrects a smaller one by _SLEW at each reading.
_STEP, _SLEW = timedelta(seconds=1), timedelta(milliseconds=10)
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # also runs while the machine sleeps


@dataclass(frozen=True, slots=True)
class Reading:
    """The server's time, our own clock at that moment, and the duration of the round trip."""

    server: datetime
    at: float
    seconds: float

    @property
    def ahead(self) -> timedelta:
        """How far the server is ahead of this machine's wall clock."""
        wall = datetime.now(UTC) - timedelta(seconds=time.clock_gettime(_CLOCK) - self.at)
        return self.server - wall


async def read_server_time(connection: Connection, readings: int = _READINGS) -> Reading:
    """Read the server's time. The quickest of a few readings is the most exact."""
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
    """Returns the time; `sync` keeps it exact."""

    def __init__(self) -> None:
        self._base = datetime.now(UTC)
        self._at = time.clock_gettime(_CLOCK)
        self._is_synced = False
        self._stepped_at: float | None = None

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return self._base + timedelta(seconds=time.clock_gettime(_CLOCK) - self._at)

    @property
    def is_settled(self) -> bool:
        """Whether hosts may be leased by this time. They may not while the clock waits after a step."""
        return self._stepped_at is None

    async def sync(self, database: Database, settle_seconds: float = 0.0) -> None:
        """Compare the clock with the server's time. Follow a step after `settle_seconds`, the first time at once."""
        reading = await database.run(read_server_time, 1 if self._is_synced else _READINGS)
        if self._is_synced:
            self._follow(reading, settle_seconds)
        else:
            self._set(reading)

    def _follow(self, reading: Reading, settle_seconds: float) -> None:
        # The truth lies within half a round trip: only the rest of the difference is an error for certain.
        own = self._base + timedelta(seconds=reading.at - self._at)
        ahead, doubt = reading.server - own, timedelta(seconds=reading.seconds / 2)
        error = max(ahead - doubt, timedelta(0)) + min(ahead + doubt, timedelta(0))
        if abs(error) <= _STEP:
            self._base += max(-_SLEW, min(_SLEW, error))
            self._stepped_at = None
        elif self._stepped_at is None:
            log.warning("clock.stepped", seconds=error.total_seconds(), waits_seconds=settle_seconds)
            self._stepped_at = reading.at
        elif reading.at - self._stepped_at >= settle_seconds:
            log.info("clock.settled", seconds=error.total_seconds())
            self._set(reading)

    def _set(self, reading: Reading) -> None:
        self._base, self._at, self._is_synced, self._stepped_at = reading.server, reading.at, True, None
