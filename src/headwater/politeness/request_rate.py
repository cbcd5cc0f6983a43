"""The rate of a source: its requests are spread out over time, in whatever process they run (spec 1.3)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic

from headwater.core.clock import Clock
from headwater.db import sources
from headwater.db.pool import Database
from headwater.politeness.worker_slots import wait_until


@dataclass(slots=True)
class RequestRate:
    """Gives each request of a source its moment. Two moments are never closer than the rate allows.

    The requests of one run also leave a gap apart. Other runs keep to the moments, even if a request is late for its
    moment. `first` is the moment of the first request, if it is reserved already.
    """

    database: Database
    clock: Clock
    source_id: int
    gap: timedelta
    first: datetime | None = None
    _turnstile: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _free_at: float = field(default=0.0, init=False)  # by monotonic(): a gap after the latest request left

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[[], None]]:
        """Wait for the next moment. The caller calls the yielded function when its request has left.

        A request may leave late for its moment, on a busy machine or a new connection. The next request leaves a gap
        after that.
        """
        await self._turnstile.acquire()
        with ExitStack() as inside:
            inside.callback(self._turnstile.release)

            def note_sent() -> None:
                self._free_at = monotonic() + self.gap.total_seconds()
                inside.close()

            await self.wait()
            yield note_sent

    async def wait(self) -> None:
        """Reserve the next moment and wait for it. The wait holds nothing that others need."""
        first, self.first = self.first, None
        # Read monotonic() before the clock: the time between the two readings must not shorten the gap.
        lead = timedelta(seconds=max(0.0, self._free_at - monotonic()))
        now = self.clock.now()
        # Another request may follow a gap after the first moment, so a moment long past is useless.
        if first is not None and now <= first + self.gap / 10:
            moment = first
        else:
            moment = await self.database.run(sources.reserve_request, self.source_id, now + lead, self.gap, first)
        await wait_until(moment, self.clock)
