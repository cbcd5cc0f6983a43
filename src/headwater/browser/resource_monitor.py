"""Who is in a browser, and what they do to it: whoever takes too much of it is ended (spec 1.7)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import structlog

from headwater.browser.chromium import Chromium
from headwater.browser.processes import curb, end_busiest, page_ticks

log = structlog.get_logger()

_WATCH_SECONDS = 0.5  # between two looks
_PULSE_SECONDS = 2.0  # for a browser to answer the least question; one that a page floods does not


@dataclass(slots=True, eq=False)
class PageSession:
    """A page that is open, and what happened meanwhile."""

    url: str
    source: str
    alone: bool = True  # nobody else was there at any time
    disturbed: bool = False  # the browser did not answer for a while
    outgrown: bool = False  # the browser took more memory than it may
    limit: asyncio.Timeout | None = None  # of what is done with it

    def give_up(self) -> None:
        """Wait no longer for a page that has lost its browser."""
        if self.limit and self.limit.when() is not None and not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time())


class ResourceMonitor:
    """Looks at a browser for as long as there are pages in it."""

    def __init__(self, chromium: Chromium, memory_bytes: int) -> None:
        self._chromium = chromium
        self._memory_bytes = memory_bytes
        self._stays: set[PageSession] = set()
        self._ticks: dict[int, int] = {}  # how long each process had worked when it was last looked at
        self._watching: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def over(self, url: str, source: str) -> AsyncIterator[PageSession]:
        """Look after a page while the block has it open."""
        stay = PageSession(url, source)
        self._stays.add(stay)
        for other in self._stays if len(self._stays) > 1 else ():
            other.alone = False
        self._watching = self._watching or asyncio.create_task(self._watch())
        try:
            yield stay
        finally:
            self._stays.discard(stay)
            if not self._stays and (watching := self._watching):
                self._watching = None
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if not self._chromium.is_alive:
                for stay in self._stays:
                    stay.give_up()
                continue
            await self._mind_memory()
            # Whoever is alone disturbs nobody.
            if len(self._stays) > 1 and not await self._chromium.answers(_PULSE_SECONDS):
                await self.end_busiest()
            self._ticks = await asyncio.to_thread(page_ticks, self._chromium.session)

    async def _mind_memory(self) -> None:
        """End what grows too large: mostly a page's own process, and then the page ends as one that crashed."""
        held = await asyncio.to_thread(curb, self._chromium.session, self._memory_bytes)
        if held:
            for stay in self._stays:
                stay.outgrown = True
            self._tell("browser.too_large", held_mb=held // 1024**2, most_mb=self._memory_bytes // 1024**2)

    async def end_busiest(self) -> None:
        """End the process of the page that works the most: it is most likely what floods the browser."""
        for stay in self._stays:
            stay.disturbed = True
        if await asyncio.to_thread(end_busiest, self._chromium.session, self._ticks):
            self._tell("browser.flooded")

    def _tell(self, event: str, **figures: int) -> None:
        log.warning(event, **figures, pages=[f"{stay.source}: {stay.url}" for stay in self._stays])
