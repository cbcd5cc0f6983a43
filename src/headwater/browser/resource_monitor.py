"""Watches a browser while pages are open in it, and ends a page that takes too much of it (spec 1.7)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import psutil
import structlog

from headwater.browser.chromium import Chromium
from headwater.browser.processes import kill_busiest, limit_memory, measure_page_work

log = structlog.get_logger()

_CHECK_SECONDS = 0.5
_RESPONSE_SECONDS = 2.0  # for the browser to answer the smallest request; a page that floods it prevents that


@dataclass(slots=True, eq=False)
class PageSession:
    """An open page, and what happened to its browser meanwhile."""

    url: str
    source: str
    was_alone: bool = True  # no other page was open at any time
    was_blocked: bool = False  # the browser did not answer for a while
    was_too_large: bool = False  # the browser used more memory than it may
    limit: asyncio.Timeout | None = None  # of all work with the page

    def give_up(self) -> None:
        """Stop waiting for a page whose browser is gone."""
        if self.limit and self.limit.when() is not None and not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time())


@dataclass(slots=True, eq=False)
class ResourceMonitor:
    """Checks the memory and the response of one browser."""

    chromium: Chromium
    memory_bytes: int
    _pages: set[PageSession] = field(default_factory=set)
    _work: dict[psutil.Process, float] = field(default_factory=dict)  # CPU seconds of each process at the last check
    _watching: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def watch(self, url: str, source: str) -> AsyncIterator[PageSession]:
        """Watch a page while the block has it open."""
        page = PageSession(url, source)
        self._pages.add(page)
        for other in self._pages if len(self._pages) > 1 else ():
            other.was_alone = False
        self._watching = self._watching or asyncio.create_task(self._watch())
        try:
            yield page
        finally:
            self._pages.discard(page)
            if not self._pages and (watching := self._watching):
                self._watching = None
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            if not self.chromium.is_alive:
                for page in self._pages:
                    page.give_up()
                continue
            await self._limit_memory()
            if len(self._pages) > 1 and not await self.chromium.responds(_RESPONSE_SECONDS):
                await self.kill_busiest()
            self._work = await asyncio.to_thread(measure_page_work, self.chromium.session)

    async def _limit_memory(self) -> None:
        """Kill the largest process if the browser is too large: it is usually that of one page, which then crashes."""
        held = await asyncio.to_thread(limit_memory, self.chromium.session, self.memory_bytes)
        if held:
            for page in self._pages:
                page.was_too_large = True
            self._log("browser.too_large", held_mb=held // 1024**2, limit_mb=self.memory_bytes // 1024**2)

    async def kill_busiest(self) -> None:
        """Kill the page process that works most: it probably floods the browser."""
        for page in self._pages:
            page.was_blocked = True
        if await asyncio.to_thread(kill_busiest, self.chromium.session, self._work):
            self._log("browser.flooded")

    def _log(self, event: str, **figures: int) -> None:
        log.warning(event, **figures, pages=[f"{page.source}: {page.url}" for page in self._pages])
