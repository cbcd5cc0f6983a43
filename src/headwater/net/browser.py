"""The one browser of a process: started by the first need, and again when it dies or hangs (spec 1.7)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

import structlog

from headwater.errors import ExchangeFailed, NotNow
from headwater.model.http import Limits, Response
from headwater.model.reasons import Reason
from headwater.net.chromium import Chromium, first_line, start_chromium
from headwater.net.client import HttpClient
from headwater.net.driver import closed
from headwater.net.processes import curb
from headwater.net.proxy import Proxy, ProxyCaps
from headwater.net.rendering import Lead, Rendering
from headwater.net.rooms import Look, Room, Rooms

if TYPE_CHECKING:
    from playwright.async_api import Page

log = structlog.get_logger()

_PATIENCE_SECONDS = 5.0  # for a place, or for the start: the host is held meanwhile
_AGAIN = timedelta(seconds=2)
_LEAST_SECONDS = 1.0  # less is not worth opening a page for
_MARGIN_SECONDS = 2.0  # a page that is not done so long after its time is not late: its browser hangs
_RESPONSE_SECONDS = 3.0  # for a browser to show that it does not
_WATCH_SECONDS = 0.5  # between two looks at its memory
_OVERHEAD = 1024 * 1024  # what comes with a body: headers, encryption


@dataclass(frozen=True, slots=True)
class _Running:
    """A browser, and the rooms in it."""

    chromium: Chromium
    rooms: Rooms

    async def end(self) -> None:
        await self.chromium.end()
        await self.rooms.close()


class BrowserClient:
    """An async context manager; nothing is started before the first page is asked for."""

    def __init__(
        self,
        client: HttpClient,
        clock: Callable[[], datetime],
        *,
        program: str = "",
        most_pages: int = 4,
        page_seconds: float = 30.0,
        body_bytes: int = 20 * 1024 * 1024,
        memory_bytes: int = 1024 * 1024 * 1024,
    ) -> None:
        """Reach out as the client does; `program` is the Chromium to start, and empty where one is to be looked for."""
        self._client = client
        self._clock = clock
        self._program = program
        self._places = asyncio.Semaphore(most_pages)
        self._page_seconds = page_seconds
        self._memory_bytes = memory_bytes
        self._caps = ProxyCaps(connection_seconds=4 * page_seconds, request_bytes=body_bytes + _OVERHEAD)
        self._starting: asyncio.Task[_Running] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._starting:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
            if _has_started(self._starting):
                self._drop(self._starting.result())
        await asyncio.gather(*self._ending)

    async def get(self, url: str, *, look: Look, limits: Limits, lead: Lead) -> Response:
        """Open a page, let its scripts run, and return what has become of it; redirects are not followed.

        `lead` is asked for every request that the page makes, and holds its host until it is answered. Raises
        OperatorError where there is no browser, NotNow where it has no place for another page, else as HttpClient does.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + limits.total_seconds
        async with self._place():
            running = await self._ready()
            end = min(end, loop.time() + self._page_seconds)
            if end - loop.time() < _LEAST_SECONDS:
                raise self._busy("The browser was ready too late for this page.")
            try:
                async with self._watched(running):
                    return await self._render(running, look, url, limits, end, lead)
            except ExchangeFailed as error:
                if error.reason is Reason.BROWSER_CRASHED:
                    await self._drop_if_dead(running)
                raise

    async def _render(
        self, running: _Running, look: Look, url: str, limits: Limits, end: float, lead: Lead
    ) -> Response:
        from playwright.async_api import Error  # takes long to import, and most processes never need it

        try:
            async with (
                asyncio.timeout_at(end + _MARGIN_SECONDS) as limit,
                self._page(running, look, limit) as (room, page),
            ):
                session = await room.context.new_cdp_session(page)
                seconds = max(_LEAST_SECONDS, end - asyncio.get_running_loop().time())
                rendering = Rendering(
                    page,
                    session,
                    room.proxy,
                    url=url,
                    limits=replace(limits, total_seconds=seconds),
                    lead=lead,
                    blame=self._client.blame,
                    clock=self._clock,
                )
                return await rendering.run()
        except Error as error:
            what = f"The browser could not read the page: {first_line(error)}."
            raise ExchangeFailed(what, reason=Reason.BROWSER_CRASHED, url=url) from error
        except TimeoutError as error:
            raise ExchangeFailed("The browser hangs.", reason=Reason.BROWSER_CRASHED, url=url) from error

    @contextlib.asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            raise self._busy("All places of the browser are taken.") from None
        try:
            yield
        finally:
            self._places.release()

    async def _ready(self) -> _Running:
        """Wait for the browser, but not for as long as a start may take: the host is held meanwhile."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await asyncio.shield(self._started())
        except TimeoutError:
            raise self._busy("The browser is still starting.") from None

    def _busy(self, why: str) -> NotNow:
        return NotNow(why, until=self._clock() + _AGAIN, reason=Reason.BROWSER_BUSY)

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
        return _Running(chromium, Rooms(chromium.browser, self._make_proxy))

    def _make_proxy(self) -> Proxy:
        return Proxy(self._client.resolver, self._clock, self._caps)

    @contextlib.asynccontextmanager
    async def _page(self, running: _Running, look: Look, limit: asyncio.Timeout) -> AsyncIterator[tuple[Room, "Page"]]:
        room = await running.rooms.enter(look)
        room.pages += 1
        try:
            page = await room.context.new_page()
            try:
                yield room, page
            finally:
                if not limit.expired():
                    limit.reschedule(None)  # to close has a limit of its own, and what came is not lost by it
                await asyncio.shield(self._close(running, page))
        finally:
            room.pages -= 1

    async def _close(self, running: _Running, page: "Page") -> None:
        """Close a page; a browser that cannot even do that is replaced."""
        if not await closed(page.close()):
            log.warning("browser.stuck")
            self._drop(running)

    @contextlib.asynccontextmanager
    async def _watched(self, running: _Running) -> AsyncIterator[None]:
        watching = asyncio.create_task(self._watch(running.chromium))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, chromium: Chromium) -> None:
        """End what grows too large: mostly a page's own process, and then the page ends as one that crashed."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if await asyncio.to_thread(curb, chromium.session, self._memory_bytes):
                log.warning("browser.too_large", most_mb=self._memory_bytes // 1024**2)

    async def _drop_if_dead(self, running: _Running) -> None:
        """End a browser that does nothing more, though nobody noticed: it may hang, or its driver be gone."""
        if self._is_current(running) and not await _responds(running.chromium):
            self._drop(running)

    def _drop(self, running: _Running) -> None:
        """End a browser, unless somebody has done so; the next page starts another, and does not wait for the end."""
        if self._is_current(running):
            self._starting = None
            ending = asyncio.create_task(running.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _is_current(self, running: _Running) -> bool:
        return self._starting is not None and _has_started(self._starting) and self._starting.result() is running


async def _responds(chromium: Chromium) -> bool:
    from playwright.async_api import Error

    try:
        async with asyncio.timeout(_RESPONSE_SECONDS):
            context = await chromium.browser.new_context()
    except (Error, TimeoutError):
        return False
    return await closed(context.close())


def _has_started(starting: "asyncio.Task[_Running]") -> bool:
    return starting.done() and not starting.cancelled() and starting.exception() is None
