"""A source's own pace: its requests are spread out, in whatever process they are made (spec 1.3)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from headwater.model.clock import Clock
from headwater.store import sources
from headwater.store.pool import Database


class Pace:
    """Gives each request of a source its moment, no two closer than the rate allows.

    `first` is the moment of the first request, where that is reserved already.
    """

    def __init__(
        self, database: Database, clock: Clock, source_id: int, gap: timedelta, first: datetime | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._source_id = source_id
        self._gap = gap
        self._first = first
        self._leaving = asyncio.Lock()
        self._next_at = 0.0  # by the loop's time: a gap after the latest has left

    async def wait(self) -> None:
        """Take the next moment, and wait for it while holding nothing."""
        first, self._first = self._first, None
        now = self._clock.now()
        # Another may follow a gap after a moment, so that one that has gone by for some time is of no use.
        if first is not None and now <= first + self._gap / 10:
            moment = first
        else:
            # Some time to connect is allowed for; where requests leave later than that, so are the moments.
            soonest = now + max(timedelta(seconds=self._seconds_left()) - self._gap / 2, timedelta(0))
            async with self._database.connection() as connection:
                moment = await sources.reserve_request(connection, self._source_id, soonest, self._gap, first)
        while (wait := (moment - self._clock.now()).total_seconds()) > 0:
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def leaving(self) -> AsyncIterator[None]:
        """Let a request leave while this is entered, a gap after the one before: either may be late for its moment."""
        async with self._leaving:
            while (wait := self._seconds_left()) > 0:
                await asyncio.sleep(wait)
            try:
                yield
            finally:
                self._next_at = asyncio.get_running_loop().time() + self._gap.total_seconds()

    def _seconds_left(self) -> float:
        return self._next_at - asyncio.get_running_loop().time()
