"""The one browser of a process: started by the first need, with a context of its own for each source (spec 1.7)."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

import structlog

from headwater.errors import ExchangeFailed, NotNow
from headwater.model.http import Limits, Response
from headwater.model.reasons import Reason
from headwater.net.chromium import Chromium, closed, first_line, start_chromium
from headwater.net.client import HttpClient
from headwater.net.proxy import Proxy, ProxyCaps
from headwater.net.rendering import Lead, Rendering

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page

log = structlog.get_logger()

_PATIENCE_SECONDS = 5.0  # for a place, or for the start: the host is held meanwhile
_AGAIN = timedelta(seconds=2)
_LEAST_SECONDS = 1.0  # less is not worth opening a page for
_MOST_CONTEXTS = 32
_OVERHEAD = 1024 * 1024  # what comes with a body: headers, encryption


@dataclass(frozen=True, slots=True)
class Look:
    """Whose page it is, and how the browser presents itself there: each has cookies of its own."""

    source: str
    user_agent: str
    stealth: str


@dataclass(slots=True)
class _Room:
    """A source's context and its way out."""

    context: "BrowserContext"
    proxy: Proxy
    pages: int = 0


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
    ) -> None:
        """Reach out as the client does; `program` is the Chromium to start, and empty where one is to be looked for."""
        self._client = client
        self._clock = clock
        self._program = program
        self._places = asyncio.Semaphore(most_pages)
        self._page_seconds = page_seconds
        self._caps = ProxyCaps(connection_seconds=4 * page_seconds, request_bytes=body_bytes + _OVERHEAD)
        self._rooms: OrderedDict[Look, _Room] = OrderedDict()
        self._starting: asyncio.Task[Chromium] | None = None
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._starting and not self._starting.done():
            self._starting.cancel()
        await self._end()

    async def get(self, url: str, *, look: Look, limits: Limits, lead: Lead) -> Response:
        """Open a page, let its scripts run, and return what has become of it; redirects are not followed.

        `lead` is asked for every request that the page makes, and holds its host until it is answered. Raises
        OperatorError where there is no browser, NotNow where it has no place for another page, else as HttpClient does.
        """
        began = asyncio.get_running_loop().time()
        async with self._place():
            browser = await self._ready()
            spent = asyncio.get_running_loop().time() - began
            seconds = min(self._page_seconds, limits.total_seconds - spent)
            if seconds < _LEAST_SECONDS:
                raise self._busy("The browser was ready too late for this page.")
            try:
                return await self._render(browser, look, url, replace(limits, total_seconds=seconds), lead)
            except ExchangeFailed as error:
                if error.reason is Reason.BROWSER_CRASHED:
                    await self._end_if_dead(browser)
                raise

    async def _render(self, browser: "Browser", look: Look, url: str, limits: Limits, lead: Lead) -> Response:
        from playwright.async_api import Error  # takes long to import, and most processes never need it

        try:
            async with self._page(browser, look) as (room, page):
                rendering = Rendering(
                    page,
                    await room.context.new_cdp_session(page),
                    room.proxy,
                    url=url,
                    limits=limits,
                    lead=lead,
                    blame=self._client.blame,
                    clock=self._clock,
                )
                return await rendering.run()
        except Error as error:
            what = f"The browser could not read the page: {first_line(error)}."
            raise ExchangeFailed(what, reason=Reason.BROWSER_CRASHED, url=url) from error

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

    async def _ready(self) -> "Browser":
        """Wait for the browser, but not for as long as a start may take: the host is held meanwhile."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await self._browser()
        except TimeoutError:
            raise self._busy("The browser is still starting.") from None

    def _busy(self, why: str) -> NotNow:
        return NotNow(why, until=self._clock() + _AGAIN, reason=Reason.BROWSER_BUSY)

    async def _browser(self) -> "Browser":
        """Return the browser; start one if there is none, or if the last one is gone."""
        async with self._lock:
            if self._starting and self._starting.done() and not _is_alive(self._starting):
                await self._end()
            if self._starting is None:
                self._starting = asyncio.create_task(start_chromium(self._program))
            starting = self._starting
        return (await asyncio.shield(starting)).browser

    @contextlib.asynccontextmanager
    async def _page(self, browser: "Browser", look: Look) -> AsyncIterator[tuple[_Room, "Page"]]:
        room = await self._room(browser, look)
        room.pages += 1
        try:
            page = await room.context.new_page()
            try:
                yield room, page
            finally:
                await asyncio.shield(self._close(page))
        finally:
            room.pages -= 1

    async def _room(self, browser: "Browser", look: Look) -> _Room:
        async with self._lock:
            if look not in self._rooms:
                await self._make_space()
                self._rooms[look] = await self._open_room(browser, look)
            self._rooms.move_to_end(look)
            return self._rooms[look]

    async def _make_space(self) -> None:
        """Close the context that was not used for longest, where there are many."""
        unused = [look for look, room in self._rooms.items() if not room.pages]
        if len(self._rooms) >= _MOST_CONTEXTS and unused:
            room = self._rooms.pop(unused[0])
            await closed(room.context.close())
            await room.proxy.close()

    async def _open_room(self, browser: "Browser", look: Look) -> _Room:
        proxy = Proxy(self._client.resolver, self._clock, self._caps)
        await proxy.open()
        try:
            context = await browser.new_context(
                proxy={"server": f"http://127.0.0.1:{proxy.port}"},
                user_agent=look.user_agent,
                service_workers="block",
                accept_downloads=False,
            )
            await disguise(context, look.stealth)
        except BaseException:
            await proxy.close()
            raise
        return _Room(context, proxy)

    async def _close(self, page: "Page") -> None:
        """Close a page; a browser that cannot even do that is replaced."""
        if not await closed(page.close()):
            log.warning("browser.stuck")
            await self._end()

    async def _end_if_dead(self, browser: "Browser") -> None:
        """End a browser that does nothing more, though nobody noticed: its driver may be gone."""
        if await _responds(browser) or self._starting is None or not _has_started(self._starting):
            return
        if self._starting.result().browser is browser:  # else somebody has replaced it meanwhile
            await self._end()

    async def _end(self) -> None:
        """End the browser, if there is one, and forget all that was in it."""
        starting, self._starting = self._starting, None
        rooms, self._rooms = self._rooms, OrderedDict()
        if starting:
            await asyncio.gather(starting, return_exceptions=True)
            if _has_started(starting):
                await starting.result().end()
        for room in rooms.values():
            await room.proxy.close()


async def disguise(context: "BrowserContext", profile: str) -> None:
    """Patch what tells a browser that is driven from one that is used, as the profile says: full, light or none."""
    from playwright_stealth import ALL_EVASIONS_DISABLED_KWARGS, Stealth

    if profile == "none":
        return
    # The user agent is ours to choose; what else speaks of it would contradict it.
    patches = {"navigator_user_agent": False, "navigator_user_agent_data": False, "sec_ch_ua": False}
    if profile == "light":
        no_others = {"navigator_languages_override": None, "navigator_platform_override": None}
        patches = ALL_EVASIONS_DISABLED_KWARGS | no_others | {"navigator_webdriver": True}
    await Stealth(**patches).apply_stealth_async(context)


async def _responds(browser: "Browser") -> bool:
    from playwright.async_api import Error

    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            context = await browser.new_context()
    except (Error, TimeoutError):
        return False
    return await closed(context.close())


def _is_alive(starting: "asyncio.Task[Chromium]") -> bool:
    return _has_started(starting) and starting.result().browser.is_connected()


def _has_started(starting: "asyncio.Task[Chromium]") -> bool:
    return starting.done() and not starting.cancelled() and starting.exception() is None
