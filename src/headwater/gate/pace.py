"""A source's own pace: its requests are spread out, in whatever process they are made (spec 1.3)."""

import asyncio
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
        self._last: datetime | None = None  # when the latest was let go, or left where that is known

    async def wait(self) -> None:
        """Take the next moment, and wait for it while holding nothing."""
        first, self._first = self._first, None
        now = self._clock.now()
        # Another may follow a gap after a moment, so that one that has gone by for some time is of no use.
        if first is not None and now <= first + self._gap / 10:
            moment = first
        else:
            async with self._database.connection() as connection:
                moment = await sources.reserve_request(connection, self._source_id, now, self._gap, first)
        while (wait := self._not_before(moment) - self._clock.now()) > timedelta(0):
            await asyncio.sleep(wait.total_seconds())
        self._last = self._clock.now()

    def note_sent(self, at: datetime) -> None:
        """Note when a request really left: on a busy machine that is some time after its moment."""
        self._last = max(at, self._last or at)

    def _not_before(self, moment: datetime) -> datetime:
        """Return when a moment may be used: whoever uses one late keeps the others away."""
        return max(moment, self._last + self._gap) if self._last else moment
