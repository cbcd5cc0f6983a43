"""The one browser of a process. The first page starts it; a browser that dies or hangs is replaced (spec 1.7).

A monitor watches the browser while pages are open, and ends a page that takes too much of it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self, TypeVar

import psutil
import structlog

from headwater.browser.chromium import (
    Chromium,
    SourceContext,
    SourceContexts,
    close_in_time,
    first_line,
    start_chromium,
)
from headwater.browser.page import PageRequest, Rendering, crashed
from headwater.browser.processes import kill_busiest, limit_memory, measure_page_work
from headwater.browser.proxy import Proxy, ProxyCaps
from headwater.core.errors import ExchangeFailed, HeadwaterError, NotNow
from headwater.core.http import Response
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.http.client import HttpClient

if TYPE_CHECKING:
    from playwright.async_api import Page

T = TypeVar("T")
log = structlog.get_logger()

_PATIENCE_SECONDS = 5.0  # to wait for a free place or for the start, while the host is held
_RETRY_AFTER = timedelta(seconds=2)
_RETRY_ALONE_AFTER = timedelta(seconds=15)  # many pages may wait for the browser that opens one page at a time
_MIN_PAGE_SECONDS = 1.0  # less time is not worth opening a page
_MARGIN_SECONDS = 2.0  # if a page takes this much longer than its time, the browser hangs
_RESPONSE_SECONDS = 3.0  # for a browser to show that it does not hang
_HOST_REASONS = frozenset({Reason.TIMEOUT, Reason.NETWORK})  # a browser in trouble also reports these
_MAX_SUSPECTS = 1000
_CHECK_SECONDS = 0.5  # between two checks of the monitor
# For the browser to answer the smallest request while a page may flood it.
_MONITOR_RESPONSE_SECONDS = 2.0
_MIB = 1024 * 1024
_OVERHEAD_BYTES = _MIB  # headers and encryption of a page's answers


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
            if len(self._pages) > 1 and not await self.chromium.responds(_MONITOR_RESPONSE_SECONDS):
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


@dataclass(frozen=True, slots=True)
class _Running:
    chromium: Chromium
    contexts: SourceContexts
    monitor: ResourceMonitor

    async def end(self) -> None:
        await self.chromium.end()
        await self.contexts.close_proxies()


@dataclass(slots=True, eq=False)
class BrowserClient:
    """An async context manager. It uses the guard and the resolver of `client`."""

    client: HttpClient
    clock: Callable[[], datetime]
    settings: Settings
    _page_slots: asyncio.Semaphore = field(init=False)
    _alone_slot: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    _alone: "BrowserClient | None" = None  # the browser for suspects, one page at a time
    _starting: asyncio.Task[_Running] | None = None
    _ending: set[asyncio.Task[None]] = field(default_factory=set)
    _suspects: dict[str, None] = field(
        default_factory=dict
    )  # pages that were open, with others, when the browser failed

    def __post_init__(self) -> None:
        self._page_slots = asyncio.Semaphore(self.settings.browser_pages)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._starting:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
            self._end_current()
        await asyncio.gather(*self._ending)
        if self._alone:
            await self._alone.__aexit__()

    async def start(self) -> None:
        """Start the browser before the first page. Raises OperatorError if there is none or if it does not start."""
        await asyncio.shield(self._get_start())

    async def get(self, request: PageRequest) -> Response:
        """Open a page, run its scripts, and return the resulting document. Redirects are not followed.

        Raises OperatorError if there is no browser, NotNow if it has no place for the page, else as HttpClient does.
        """
        if request.url in self._suspects:
            return await self._get_alone(request)
        loop = asyncio.get_running_loop()
        end = loop.time() + request.limits.total_seconds
        async with self._take(self._page_slots):
            running = await self._wait_briefly(asyncio.shield(self._get_start()), "The browser is still starting.")
            end = min(end, loop.time() + self.settings.browser_timeout_seconds)
            if end - loop.time() < _MIN_PAGE_SECONDS:
                raise self._busy("The browser was ready too late for this page.")
            async with running.monitor.watch(request.url, request.profile.source) as page:
                try:
                    response = await self._render(running, page, request, end)
                    if not self._is_healthy(running):
                        raise crashed(request.url)
                except ExchangeFailed as error:
                    raise await self._find_cause(running, page, error) from error
                else:
                    return response

    async def _find_cause(self, running: _Running, page: PageSession, error: ExchangeFailed) -> HeadwaterError:
        """Return the error of a page that failed. If another page may be the cause, this page is tried again alone."""
        is_in_trouble = page.was_blocked or not self._is_healthy(running)
        if error.reason is Reason.BROWSER_CRASHED:
            await self._end_if_dead(running)
        elif not (is_in_trouble and error.reason in _HOST_REASONS):
            return error
        if not page.was_alone:
            self._suspects[page.url] = None
            if len(self._suspects) > _MAX_SUSPECTS:
                del self._suspects[next(iter(self._suspects))]
            return self._busy("The browser failed while several pages were open; this one is tried again alone.")
        if page.was_too_large:
            what = f"The page took over {self.settings.browser_memory_mb} MB of memory (browser_memory_mb)."
            return ExchangeFailed(what, reason=Reason.BODY_TOO_LARGE, url=page.url)
        return error if error.reason is Reason.BROWSER_CRASHED or page.was_blocked else crashed(page.url)

    async def _get_alone(self, request: PageRequest) -> Response:
        async with self._take(self._alone_slot, _RETRY_ALONE_AFTER):
            self._alone = self._alone or BrowserClient(self.client, self.clock, replace(self.settings, browser_pages=1))
            try:
                response = await self._alone.get(request)
            finally:
                self._alone._end_current()
            self._suspects.pop(request.url, None)
            return response

    async def _render(self, running: _Running, page_session: PageSession, request: PageRequest, end: float) -> Response:
        from playwright.async_api import Error  # the import takes long, and most processes never need it

        url = request.url
        try:
            async with (
                asyncio.timeout_at(end + _MARGIN_SECONDS) as limit,
                self._open_page(running, request, limit) as (context, page),
            ):
                page_session.limit = limit
                session = await context.context.new_cdp_session(page)
                await session.send("Emulation.setUserAgentOverride", context.override)
                seconds = max(_MIN_PAGE_SECONDS, end - asyncio.get_running_loop().time())
                limited = replace(request, limits=replace(request.limits, total_seconds=seconds))
                rendering = Rendering(page, session, context.proxy, limited, self.client.classify_error, self.clock)
                return await rendering.run()
        except Error as error:
            what = f"The browser could not read the page: {first_line(error)}."
            raise ExchangeFailed(what, reason=Reason.BROWSER_CRASHED, url=url) from error
        except TimeoutError as error:
            if running.chromium.is_alive:
                raise ExchangeFailed("The browser hangs.", reason=Reason.BROWSER_CRASHED, url=url) from error
            raise crashed(url) from error

    @contextlib.asynccontextmanager
    async def _take(self, slots: asyncio.Semaphore, retry_after: timedelta = _RETRY_AFTER) -> AsyncIterator[None]:
        await self._wait_briefly(slots.acquire(), "All places of the browser are taken.", retry_after)
        try:
            yield
        finally:
            slots.release()

    async def _wait_briefly(self, awaited: Awaitable[T], why: str, retry_after: timedelta = _RETRY_AFTER) -> T:
        """Wait only for a moment, because the host is held meanwhile. `why` explains a longer wait."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await awaited
        except TimeoutError:
            raise self._busy(why, retry_after) from None

    def _busy(self, why: str, retry_after: timedelta = _RETRY_AFTER) -> NotNow:
        return NotNow(why, until=self.clock() + retry_after, reason=Reason.BROWSER_BUSY)

    def _get_start(self) -> "asyncio.Task[_Running]":
        """Return the task that starts the browser; a new one if the last failed or if that browser is gone."""
        if self._starting and self._starting.done():
            running = self._current()
            if running is None:
                self._starting = None
            elif not running.chromium.is_alive:
                self._end(running)
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        return self._starting

    async def _start(self) -> _Running:
        settings = self.settings
        chromium = await start_chromium(settings.chromium_path)
        caps = ProxyCaps(
            connection_seconds=4 * settings.browser_timeout_seconds,
            request_bytes=settings.max_body_mb * _MIB + _OVERHEAD_BYTES,
        )
        contexts = SourceContexts(
            chromium.browser, chromium.identity, lambda: Proxy(self.client.resolver, self.clock, caps)
        )
        return _Running(chromium, contexts, ResourceMonitor(chromium, settings.browser_memory_mb * _MIB))

    @contextlib.asynccontextmanager
    async def _open_page(
        self, running: _Running, request: PageRequest, limit: asyncio.Timeout
    ) -> AsyncIterator[tuple[SourceContext, "Page"]]:
        context = await running.contexts.get_context(request.profile)
        context.pages += 1
        try:
            page = await context.context.new_page()
            try:
                yield context, page
            finally:
                if not limit.expired():
                    limit.reschedule(None)  # closing has its own limit, and the response must not be lost by it
                await asyncio.shield(self._close(running, page, f"{request.profile.source}: {request.url}"))
        finally:
            context.pages -= 1

    async def _close(self, running: _Running, page: "Page", label: str) -> None:
        """Close a page, by force if needed. A browser that cannot close it is replaced."""
        if await close_in_time(page.close()):
            return
        await running.monitor.kill_busiest()
        if not await close_in_time(page.close()):
            log.warning("browser.close_failed", page=label)
            self._end(running)

    async def _end_if_dead(self, running: _Running) -> None:
        """End a browser that no longer works: it may hang, or its driver may be gone."""
        chromium = running.chromium
        if self._current() is running and not (chromium.is_alive and await chromium.responds(_RESPONSE_SECONDS)):
            self._end(running)

    def _end_current(self) -> None:
        """End the browser if it has started. The next page starts another one."""
        if running := self._current():
            self._end(running)

    def _end(self, running: _Running) -> None:
        """End a browser, unless that has begun already. The next page starts another one without waiting."""
        if self._current() is running:
            self._starting = None
            ending = asyncio.create_task(running.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _is_healthy(self, running: _Running) -> bool:
        return self._current() is running and running.chromium.is_alive

    def _current(self) -> _Running | None:
        starting = self._starting
        if starting is None or not starting.done() or starting.cancelled() or starting.exception() is not None:
            return None
        return starting.result()
