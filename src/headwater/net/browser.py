"""The one browser of a process: a Chromium that the first need starts, with a context of its own for each source.

Playwright's driver starts it and speaks to it through a pipe. When this process ends, however it ends, the driver finds
its end of the pipe closed and ends Chromium, and Chromium ends by itself when the driver is gone.
"""

import asyncio
import contextlib
import os
import shutil
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import structlog

from headwater.errors import ExchangeFailed, NotNow, OperatorError
from headwater.model.http import Limits, Response
from headwater.model.reasons import Reason
from headwater.net.client import HttpClient
from headwater.net.proxy import Proxy, ProxyCaps
from headwater.net.rendering import Lead, Rendering, crashed

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page, Playwright

log = structlog.get_logger()

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # No way round the proxy: no names are looked up here, and no packet leaves by itself.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--js-flags=--max-old-space-size=512",
)
_NOWHERE = "http://127.0.0.1:9"  # the way out of whatever has no context
# What Chromium and the script around it need of our environment, which holds keys and passwords besides.
_ENVIRONMENT = ("PATH", "HOME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR")
_START_SECONDS, _CLOSE_SECONDS = 30.0, 3.0
_PATIENCE_SECONDS = 5.0  # for a place, or for the start: the host is held meanwhile
_AGAIN = timedelta(seconds=2)
_MOST_CONTEXTS = 32
_OVERHEAD = 1024 * 1024  # what comes with a body: headers, encryption


@dataclass(frozen=True, slots=True)
class Look:
    """Whose page it is, and how the browser presents itself there: each has cookies of its own."""

    source: str
    user_agent: str
    stealth: str


@dataclass(frozen=True, slots=True)
class _Running:
    """A browser and the driver that started it."""

    playwright: "Playwright"
    browser: "Browser"


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
        self._starting: asyncio.Task[_Running] | None = None
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._starting and not self._starting.done():
            self._starting.cancel()
        await self._end()

    async def version(self) -> str:
        """Start the browser, if it does not run, and tell which it is."""
        return (await self._browser()).version

    async def get(self, url: str, *, look: Look, limits: Limits, lead: Lead) -> Response:
        """Open a page, let its scripts run, and return what has become of it; redirects are not followed.

        `lead` is asked for every request that the page makes, and holds its host until it is answered. Raises
        OperatorError where there is no browser, NotNow where it has no place for another page, else as HttpClient does.
        """
        from playwright.async_api import Error  # takes long to import, and most processes never need it

        began = asyncio.get_running_loop().time()
        async with self._place():
            browser = await self._ready()
            try:
                async with self._page(browser, look) as (room, page):
                    spent = asyncio.get_running_loop().time() - began
                    seconds = min(self._page_seconds, limits.total_seconds - spent)
                    rendering = Rendering(
                        page,
                        await room.context.new_cdp_session(page),
                        room.proxy,
                        url=url,
                        limits=replace(limits, total_seconds=seconds),
                        lead=lead,
                        blame=self._client.blame,
                        clock=self._clock,
                    )
                    return await rendering.run()
            except Error as error:
                if not browser.is_connected():
                    raise crashed(url) from error
                what = f"The browser could not read the page: {_first_line(error)}."
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
            if self._starting and self._starting.done() and _alive(self._starting) is None:
                await self._end()
            if self._starting is None:
                self._starting = asyncio.create_task(self._start())
            starting = self._starting
        return (await asyncio.shield(starting)).browser

    async def _start(self) -> _Running:
        from playwright.async_api import async_playwright

        playwright = await async_playwright().start()
        try:
            browser = await self._launch(playwright)
        except BaseException:
            await _done(playwright.stop())
            raise
        log.info("browser.started", version=browser.version)
        return _Running(playwright, browser)

    async def _launch(self, playwright: "Playwright") -> "Browser":
        from playwright.async_api import Error

        program = find_program(self._program) or playwright.chromium.executable_path
        if shutil.which(program) is None:
            raise no_browser(self._program)
        # Chromium's own sandbox does not work for root.
        is_root = os.geteuid() == 0
        try:
            return await playwright.chromium.launch(
                executable_path=program,
                args=_FLAGS,
                proxy={"server": _NOWHERE},
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                chromium_sandbox=not is_root,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
                timeout=_START_SECONDS * 1000,
            )
        except Error as error:
            what = f"{program} cannot be started ({_first_line(error)}). Run it by hand to see why, or name another "
            raise OperatorError(what + "with HEADWATER_CHROMIUM_PATH.", reason=Reason.NO_BROWSER) from error

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
            await _done(room.context.close())
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
        if not await _done(page.close()):
            log.warning("browser.stuck")
            await self._end()

    async def _end(self) -> None:
        """End the browser, if there is one, and forget all that was in it."""
        starting, self._starting = self._starting, None
        rooms, self._rooms = self._rooms, OrderedDict()
        if starting:
            await asyncio.gather(starting, return_exceptions=True)
        if starting and not starting.cancelled() and not starting.exception():
            running = starting.result()
            await _done(running.browser.close())
            await _done(running.playwright.stop())
        for room in rooms.values():
            await room.proxy.close()


async def disguise(context: "BrowserContext", profile: str) -> None:
    """Patch what tells a browser that is driven from one that is used, as the profile says: full, light or none."""
    from playwright_stealth import Stealth

    if profile == "none":
        return
    # The user agent is ours to choose; what else speaks of it would contradict it.
    options: dict[str, Any] = {"navigator_user_agent": False, "navigator_user_agent_data": False, "sec_ch_ua": False}
    if profile == "light":
        options = {name: name == "navigator_webdriver" for name, value in vars(Stealth()).items() if value is True}
        options |= {"navigator_languages_override": None, "navigator_platform_override": None}
    await Stealth(**options).apply_stealth_async(context)


def find_program(named: str = "") -> str | None:
    """Return the Chromium that is named, else the system's; None where there is none."""
    return named or next(filter(None, map(shutil.which, _NAMES)), None)


def no_browser(named: str = "") -> OperatorError:
    """Say that there is no browser, and how to get one."""
    where = f"at {named}, where HEADWATER_CHROMIUM_PATH says" if named else "here"
    return OperatorError(
        f"This source needs a browser, and there is no Chromium {where}. On Debian: apt-get install chromium.",
        reason=Reason.NO_BROWSER,
    )


def _alive(starting: "asyncio.Task[_Running]") -> _Running | None:
    """Return what was started, if it still runs."""
    if starting.cancelled() or starting.exception() or not starting.result().browser.is_connected():
        return None
    return starting.result()


async def _done(closing: Awaitable[Any]) -> bool:
    """Wait for something to close, and tell whether it did; what is gone already has."""
    from playwright.async_api import Error

    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await closing
    except TimeoutError:
        return False
    except Error:
        pass
    return True


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
