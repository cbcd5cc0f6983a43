"""The database's time, carried on this process's monotonic clock.

Leases and politeness hold across machines, so all of them must agree on the time: the database's. Asking it before
every decision would cost a round trip, so the offset is measured now and then. A step of this machine's wall clock
changes nothing.
"""

import time
from datetime import UTC, datetime, timedelta

from headwater.store.pool import Database
from headwater.store.sql import query


class DatabaseClock:
    """Tells the time; `sync` keeps it true."""

    def __init__(self) -> None:
        self._base = datetime.now(UTC)
        self._at = time.monotonic()

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return self._base + timedelta(seconds=time.monotonic() - self._at)

    async def sync(self, database: Database) -> None:
        """Read the server's time; of a few readings the quickest is the truest."""
        best = None
        async with database.connection() as connection:
            for _ in range(3):
                before = time.monotonic()
                server: datetime = await connection.fetchval(query("server_time"))
                after = time.monotonic()
                if best is None or after - before < best[0]:
                    best = (after - before, server, (before + after) / 2)
        assert best is not None
        _, self._base, self._at = best
