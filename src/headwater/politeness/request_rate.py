"""A source's own pace: its requests are spread out, in whatever process they are made (spec 1.3)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from datetime import datetime, timedelta

from headwater.core.clock import Clock
from headwater.db import sources
from headwater.db.pool import Database


class Pace:
    """Gives each request of a source its moment, no two closer than the rate allows.

    Those of one reading are as far apart as they leave, too; another's go by the moments, which a late one has missed.
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
        self._turnstile = asyncio.Lock()
        self._free_at = 0.0  # by the loop's time: a gap after the latest has left

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[[], None]]:
        """Wait for the next moment; what is yielded is to be called when the request has left, and lets the next come.

        It may leave late for its moment, on a busy machine or a new connection: the next one's is a gap after that.
        """
        await self._turnstile.acquire()
        with ExitStack() as inside:
            inside.callback(self._turnstile.release)

            def note_sent() -> None:
                self._free_at = _now() + self._gap.total_seconds()
                inside.close()

            await self.wait()
            yield note_sent

    async def wait(self) -> None:
        """Take the next moment, and wait for it while holding nothing that others need."""
        first, self._first = self._first, None
        lead = timedelta(seconds=max(0.0, self._free_at - _now()))  # before the clock: what lies between must not count
        now = self._clock.now()
        # Another may follow a gap after a moment, so that one that has gone by for some time is of no use.
        if first is not None and now <= first + self._gap / 10:
            moment = first
        else:
            async with self._database.connection() as connection:
                moment = await sources.reserve_request(connection, self._source_id, now + lead, self._gap, first)
        while (wait := (moment - self._clock.now()).total_seconds()) > 0:
            await asyncio.sleep(wait)


def _now() -> float:
    return asyncio.get_running_loop().time()
