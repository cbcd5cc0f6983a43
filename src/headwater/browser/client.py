"""The one browser of a process: started by the first need, and again when it dies or hangs (spec 1.7)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Self

import structlog

from headwater.browser.chromium import Chromium, first_line, start_chromium
from headwater.browser.contexts import Look, SourceContext, SourceContexts
from headwater.browser.driver import closed
from headwater.browser.page import DiscoveredUrl, Rendering, crashed
from headwater.browser.proxy import Proxy, ProxyCaps
from headwater.browser.resource_monitor import PageSession, ResourceMonitor
from headwater.core.errors import ExchangeFailed, HeadwaterError, NotNow
from headwater.core.http import Limits, Response
from headwater.core.reasons import Reason
from headwater.http.client import HttpClient

if TYPE_CHECKING:
    from playwright.async_api import Page

log = structlog.get_logger()

_PATIENCE_SECONDS = 5.0  # for a place, or for the start: the host is held meanwhile
_AGAIN = timedelta(seconds=2)
_AGAIN_ALONE = timedelta(seconds=15)  # whoever is to be alone may wait behind many
_LEAST_SECONDS = 1.0  # less is not worth opening a page for
_MARGIN_SECONDS = 2.0  # a page that is not done so long after its time is not late: its browser hangs
_RESPONSE_SECONDS = 3.0  # for a browser to show that it does not
_AS_IF_OF_THE_HOST = frozenset({Reason.TIMEOUT, Reason.NETWORK})  # what a browser in trouble makes of its own failures
_MOST_SUSPECTS = 1000
_OVERHEAD = 1024 * 1024  # what comes with a body: headers, encryption


@dataclass(frozen=True, slots=True)
class _Running:
    """A browser, and the rooms in it."""

    chromium: Chromium
    rooms: SourceContexts
    watch: ResourceMonitor

    async def end(self) -> None:
        await self.chromium.end()
        await self.rooms.close()


class BrowserClient:
    """An async context manager; the browser is started with the first page that is asked for, or when it is told to."""

    def __init__(
        self,
        client: HttpClient,
        clock: Callable[[], datetime],
        *,
        program: str = "",
        most_pages: int = 4,
        page_timeout_seconds: float = 30.0,
        body_bytes: int = 20 * 1024 * 1024,
        memory_bytes: int = 1024 * 1024 * 1024,
    ) -> None:
        """Reach out as the client does; `program` is the Chromium to start, and empty where one is to be looked for."""
        self._client = client
        self._clock = clock
        self._program = program
        self._places = asyncio.Semaphore(most_pages)
        self._page_seconds = page_timeout_seconds
        self._memory_bytes = memory_bytes
        self._caps = ProxyCaps(connection_seconds=4 * page_timeout_seconds, request_bytes=body_bytes + _OVERHEAD)
        self._starting: asyncio.Task[_Running] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._suspects: dict[str, None] = {}  # pages that the browser failed under while others were open
        self._ward_place = asyncio.Semaphore(1)
        self._ward: BrowserClient | None = None
        self._make_ward = partial(
            BrowserClient,
            client,
            clock,
            program=program,
            most_pages=1,
            page_timeout_seconds=page_timeout_seconds,
            body_bytes=body_bytes,
            memory_bytes=memory_bytes,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._starting:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
            if _has_started(self._starting):
                self._drop(self._starting.result())
        await asyncio.gather(*self._ending)
        if self._ward:
            await self._ward.__aexit__()

    async def start(self) -> None:
        """Start it ahead of the first page. Raises OperatorError where there is none, or where it does not start."""
        await asyncio.shield(self._started())

    async def get(self, url: str, *, look: Look, limits: Limits, lead: DiscoveredUrl) -> Response:
        """Open a page, let its scripts run, and return what has become of it; redirects are not followed.

        `lead` is asked for every request that the page makes, and holds its host until it is answered. Raises
        OperatorError where there is no browser, NotNow where it has no place for another page, else as HttpClient does.
        """
        if url in self._suspects:
            return await self._get_alone(url, look, limits, lead)
        loop = asyncio.get_running_loop()
        end = loop.time() + limits.total_seconds
        async with self._place(self._places):
            running = await self._ready()
            end = min(end, loop.time() + self._page_seconds)
            if end - loop.time() < _LEAST_SECONDS:
                raise self._busy("The browser was ready too late for this page.")
            async with running.watch.over(url, look.source) as stay:
                try:
                    response = await self._render(running, stay, look, limits, end, lead)
                    if not self._is_well(running):
                        raise crashed(url)
                except ExchangeFailed as error:
                    raise await self._judged(running, stay, error) from error
                else:
                    return response

    async def _judged(self, running: _Running, stay: PageSession, error: ExchangeFailed) -> HeadwaterError:
        """Tell what a page failed for; where it may have been another page's fault, it is tried again by itself."""
        is_troubled = stay.disturbed or not self._is_well(running)
        if error.reason is Reason.BROWSER_CRASHED:
            await self._drop_if_dead(running)
        elif not (is_troubled and error.reason in _AS_IF_OF_THE_HOST):
            return error
        if not stay.alone:
            self._suspects[stay.url] = None
            if len(self._suspects) > _MOST_SUSPECTS:
                del self._suspects[next(iter(self._suspects))]
            return self._busy("The browser failed while several pages were open; this one is tried again alone.")
        if stay.outgrown:
            what = f"The page took over {self._memory_bytes // 1024**2} MB of memory (browser_memory_mb)."
            return ExchangeFailed(what, reason=Reason.BODY_TOO_LARGE, url=stay.url)
        return error if error.reason is Reason.BROWSER_CRASHED or stay.disturbed else crashed(stay.url)

    async def _get_alone(self, url: str, look: Look, limits: Limits, lead: DiscoveredUrl) -> Response:
        """Open a page in a browser that nobody shares with it, and that ends with it."""
        async with self._place(self._ward_place, _AGAIN_ALONE):
            self._ward = self._ward or self._make_ward()
            try:
                response = await self._ward.get(url, look=look, limits=limits, lead=lead)
            finally:
                self._ward.leave()
            self._suspects.pop(url, None)
            return response

    def leave(self) -> None:
        """End the browser, unless it is still to start; the next page starts another."""
        if self._starting and _has_started(self._starting):
            self._drop(self._starting.result())

    async def _render(
        self, running: _Running, stay: PageSession, look: Look, limits: Limits, end: float, lead: DiscoveredUrl
    ) -> Response:
        from playwright.async_api import Error  # takes long to import, and most processes never need it

        url = stay.url
        try:
            async with (
                asyncio.timeout_at(end + _MARGIN_SECONDS) as limit,
                self._page(running, look, f"{look.source}: {url}", limit) as (room, page),
            ):
                stay.limit = limit
                session = await room.context.new_cdp_session(page)
                seconds = max(_LEAST_SECONDS, end - asyncio.get_running_loop().time())
                rendering = Rendering(
                    page,
                    session,
                    room.proxy,
                    url=url,
                    limits=replace(limits, total_seconds=seconds),
                    lead=lead,
                    classify_error=self._client.classify_error,
                    clock=self._clock,
                )
                return await rendering.run()
        except Error as error:
            what = f"The browser could not read the page: {first_line(error)}."
            raise ExchangeFailed(what, reason=Reason.BROWSER_CRASHED, url=url) from error
        except TimeoutError as error:
            if running.chromium.is_alive:
                raise ExchangeFailed("The browser hangs.", reason=Reason.BROWSER_CRASHED, url=url) from error
            raise crashed(url) from error

    @contextlib.asynccontextmanager
    async def _place(self, places: asyncio.Semaphore, again: timedelta = _AGAIN) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await places.acquire()
        except TimeoutError:
            raise self._busy("All places of the browser are taken.", again) from None
        try:
            yield
        finally:
            places.release()

    async def _ready(self) -> _Running:
        """Wait for the browser, but not for as long as a start may take: the host is held meanwhile."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await asyncio.shield(self._started())
        except TimeoutError:
            raise self._busy("The browser is still starting.") from None

    def _busy(self, why: str, again: timedelta = _AGAIN) -> NotNow:
        return NotNow(why, until=self._clock() + again, reason=Reason.BROWSER_BUSY)

    def _started(self) -> "asyncio.Task[_Running]":
        """Return the start of the browser; a new one if the last did not succeed, or if that browser is gone."""
        if self._starting and self._starting.done():
            if not _has_started(self._starting):
                self._starting = None
            elif not self._starting.result().chromium.is_alive:
                self._drop(self._starting.result())
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        return self._starting

    async def _start(self) -> _Running:
        chromium = await start_chromium(self._program)
        rooms = SourceContexts(chromium.browser, self._make_proxy)
        return _Running(chromium, rooms, ResourceMonitor(chromium, self._memory_bytes))

    def _make_proxy(self) -> Proxy:
        return Proxy(self._client.resolver, self._clock, self._caps)

    @contextlib.asynccontextmanager
    async def _page(
        self, running: _Running, look: Look, whose: str, limit: asyncio.Timeout
    ) -> AsyncIterator[tuple[SourceContext, "Page"]]:
        room = await running.rooms.enter(look)
        room.pages += 1
        try:
            page = await room.context.new_page()
            try:
                yield room, page
            finally:
                if not limit.expired():
                    limit.reschedule(None)  # to close has a limit of its own, and what came is not lost by it
                await asyncio.shield(self._close(running, page, whose))
        finally:
            room.pages -= 1

    async def _close(self, running: _Running, page: "Page", whose: str) -> None:
        """Close a page, by force if it must be; a browser that cannot even do that is replaced."""
        if await closed(page.close()):
            return
        await running.watch.end_busiest()
        if not await closed(page.close()):
            log.warning("browser.stuck", page=whose)
            self._drop(running)

    async def _drop_if_dead(self, running: _Running) -> None:
        """End a browser that does nothing more, though nobody noticed: it may hang, or its driver be gone."""
        if self._is_current(running) and not (
            running.chromium.is_alive and await running.chromium.answers(_RESPONSE_SECONDS)
        ):
            self._drop(running)

    def _drop(self, running: _Running) -> None:
        """End a browser, unless somebody has done so; the next page starts another, and does not wait for the end."""
        if self._is_current(running):
            self._starting = None
            ending = asyncio.create_task(running.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _is_well(self, running: _Running) -> bool:
        return self._is_current(running) and running.chromium.is_alive

    def _is_current(self, running: _Running) -> bool:
        return self._starting is not None and _has_started(self._starting) and self._starting.result() is running


def _has_started(starting: "asyncio.Task[_Running]") -> bool:
    return starting.done() and not starting.cancelled() and starting.exception() is None
