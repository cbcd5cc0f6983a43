"""Chromium as a process: which program, how it starts without its own way out, and how it ends; and its contexts.

Each source has its own context, with its own cookies and its own proxy (spec 1.7).

Playwright's driver starts Chromium and speaks to it through a pipe. When this process ends, the driver finds its end of
the pipe closed and ends Chromium. When the driver is gone, Chromium ends by itself.
"""

import asyncio
import os
import shutil
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from headwater.browser.identity import BrowserIdentity, read_identity
from headwater.browser.processes import (
    BrowserFolder,
    find_network_processes,
    is_running,
    kill_marked,
    kill_session,
    make_folder,
)
from headwater.browser.proxy import Proxy
from headwater.core.errors import OperatorError
from headwater.core.json_values import JsonObject
from headwater.core.reasons import Reason

if TYPE_CHECKING:
    from playwright._impl.out_of_process import PlaywrightClient
    from playwright.async_api import Browser, BrowserContext, CDPSession, Playwright

log = structlog.get_logger()

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_FEATURES_OFF = (
    # The suggestions of the address bar: Chromium opens pages for them in each window, which take much time.
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    # The features that Playwright turns off: this list replaces its list.
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "TcpPortRandomizationWin",
    "ThirdPartyStoragePartitioning",
    "msEdgeUpdateLaunchServicesPreferredVersion",
    "msForceBrowserSignIn",
)
_FLAGS = (
    "--disable-features=" + ",".join(_FEATURES_OFF),
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Chromium resolves no name and sends no packet except to the proxy.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    # FedCM sends requests that no page event reports.
    "--disable-blink-features=FedCm",
    "--js-flags=--max-old-space-size=512",
)
# Playwright sets this flag. Without it Chromium slows down a page that floods it with changes of its address.
_UNWANTED_FLAGS = ("--disable-ipc-flooding-protection",)
_NO_PROXY = "http://127.0.0.1:9"  # the proxy of requests that belong to no context; it does not exist
# The variables that the driver and Chromium need. Our environment also holds keys and passwords.
_NEEDED_VARIABLES = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR")
_START_SECONDS, _CLOSE_SECONDS = 30.0, 3.0
_NETWORK_CHECKS, _NETWORK_CHECK_SECONDS = 60, 0.05
_MAX_CONTEXTS = 32
_KILL_TRIES, _KILL_WAIT_SECONDS = 30, 1.0
_driver_environment: ContextVar[dict[str, str]] = ContextVar("_driver_environment")


@dataclass(frozen=True, slots=True)
class Chromium:
    """A running browser, and the driver that started it."""

    browser: "Browser"
    driver: "Playwright"
    folder: BrowserFolder
    connection: "CDPSession"  # to Chromium itself
    session: int  # of all its processes
    vital: tuple[int, ...]  # the processes that every page needs
    identity: BrowserIdentity

    @property
    def is_alive(self) -> bool:
        """Whether all vital processes run.

        Playwright calls a browser connected also when its driver is dead. If the network process dies, Chromium starts
        another one, but pages have lost their requests and contexts have lost their proxy.
        """
        return self.browser.is_connected() and all(map(is_running, self.vital))

    async def responds(self, seconds: float) -> bool:
        """Return whether it answers in time. It does not if it hangs or if a page keeps it busy."""
        from playwright.async_api import Error

        try:
            async with asyncio.timeout(seconds):
                await self.connection.send("Browser.getVersion")
        except (Error, TimeoutError):
            return False
        return True

    async def end(self) -> None:
        """End the browser and its driver, by force if they hang."""
        if not await close_in_time(self.browser.close()):
            await asyncio.to_thread(kill_session, self.session)
        await _stop_driver(self.driver, self.folder.path)
        await asyncio.to_thread(self.folder.remove)


def find_program(named: str = "") -> str | None:
    """Return the program that is named, else the system's Chromium, else Playwright's; None if there is none."""
    names = [named] if named else [*PROGRAMS, *_find_playwright_browsers()]
    return next(filter(None, map(shutil.which, names)), None)


def _find_playwright_browsers() -> Iterator[str]:
    folder = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    return map(str, Path(folder).glob("chromium-*/chrome-linux*/chrome")) if folder else iter(())


async def start_chromium(named: str = "") -> Chromium:
    """Start a Chromium that reaches hosts only through the proxies of its contexts.

    Raises OperatorError if there is no program or if it does not start.
    """
    program = await asyncio.to_thread(find_program, named)
    if program is None:
        raise OperatorError(_explain_no_program(named), reason=Reason.NO_BROWSER)
    try:
        folder = await asyncio.to_thread(make_folder)
    except OSError as error:
        what = f"There is no temporary folder for the browser ({error.strerror}). Set TMPDIR to a folder that exists."
        raise OperatorError(what, reason=Reason.NO_BROWSER) from error
    try:
        chromium = await _start_in(folder, program)
    except BaseException:
        await asyncio.to_thread(folder.remove)
        raise
    log.info("browser.started", program=program, version=chromium.browser.version)
    return chromium


def _explain_no_program(named: str) -> str:
    if named:
        return (
            f"There is no Chromium at {named}, the value of HEADWATER_CHROMIUM_PATH. Correct the path, or remove the "
            "setting to use the system's Chromium."
        )
    return "There is no Chromium here, and the source needs a browser. On Debian: apt-get install chromium."


async def _start_in(folder: BrowserFolder, program: str) -> Chromium:
    try:
        driver = await start_driver(folder.path)
    except Exception as error:  # Playwright raises a plain Exception if the driver ends at once
        what = f"Playwright's driver does not start ({first_line(error)}). Install the package playwright again."
        raise OperatorError(what, reason=Reason.NO_BROWSER) from error
    try:
        return await _launch(driver, folder, program)
    except BaseException:
        await _stop_driver(driver, folder.path)
        raise


async def _launch(driver: "Playwright", folder: BrowserFolder, program: str) -> Chromium:
    from playwright.async_api import Error

    try:
        browser = await driver.chromium.launch(
            executable_path=program,
            args=_FLAGS,
            ignore_default_args=_UNWANTED_FLAGS,
            proxy={"server": _NO_PROXY},
            env=dict(_environment_in(folder.path)),
            chromium_sandbox=os.geteuid() != 0,  # Chromium's own sandbox does not work for root
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
            timeout=_START_SECONDS * 1000,
        )
        async with asyncio.timeout(_START_SECONDS):
            connection = await browser.new_browser_cdp_session()
            answer = await connection.send("SystemInfo.getProcessInfo")
            identity = await read_identity(browser)
        pid = next(int(process["id"]) for process in answer["processInfo"] if process["type"] == "browser")
        session = os.getsid(pid)
        vital = (pid, *await _wait_for_network_processes(session))
        return Chromium(browser, driver, folder, connection, session, vital, identity)
    except (Error, OSError) as error:
        raise OperatorError(
            f"{program} does not start ({first_line(error)}). Run it by hand to see why, or name another with "
            "HEADWATER_CHROMIUM_PATH.",
            reason=Reason.NO_BROWSER,
        ) from error


async def _wait_for_network_processes(session: int) -> list[int]:
    for _ in range(_NETWORK_CHECKS):
        if found := await asyncio.to_thread(find_network_processes, session):
            return found
        await asyncio.sleep(_NETWORK_CHECK_SECONDS)
    return []  # another version of Chromium may have no such process


def _environment_in(folder: Path) -> dict[str, str]:
    needed = {name: os.environ[name] for name in _NEEDED_VARIABLES if name in os.environ}
    places = {"TMPDIR": "", "XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache"}
    return needed | {name: str(folder / place) for name, place in places.items()}


async def start_driver(folder: Path) -> "Playwright":
    """Start Playwright's driver. If the caller is cancelled or the driver does not answer, the driver is killed.

    Playwright gives our whole environment to the driver, and does not wait for a driver that fails to start. The
    private names that correct both are checked by tests, for the locked version.
    """
    from playwright._impl import out_of_process, transport
    from playwright.async_api import Playwright  # the import takes long, and most processes never need it

    vars(transport)["get_driver_env"] = _get_driver_environment
    own = _driver_environment.set(_environment_in(folder))
    client = out_of_process.PlaywrightClient()  # its task keeps a copy of the context
    _driver_environment.reset(own)
    try:
        async with asyncio.timeout(_START_SECONDS):
            driver = Playwright(await asyncio.shield(client._playwright))
    except BaseException:
        await _kill_driver(folder, asyncio.ensure_future(_wait_for_end(client)))
        raise
    # Each waiting call gets the error of a dead driver, so the log need not have it too.
    client._transport.on_error_future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    vars(driver)["stop"] = client.stop
    return driver


async def _stop_driver(driver: "Playwright", folder: Path) -> None:
    stopping = asyncio.ensure_future(driver.stop())
    if not await close_in_time(asyncio.shield(stopping)):
        await _kill_driver(folder, stopping)


async def close_in_time(closing: Awaitable[Any]) -> bool:
    """Wait for a part of the browser to close. Returns False if it takes too long."""
    from playwright.async_api import Error

    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await closing
    except TimeoutError:
        return False
    except Error:
        pass  # it had already closed
    return True


async def _kill_driver(folder: Path, ended: asyncio.Future[None]) -> None:
    """Kill a driver and all processes it started, and wait for their end. A process may start another meanwhile."""
    for _ in range(_KILL_TRIES):
        await asyncio.to_thread(kill_marked, "TMPDIR", str(folder))
        await asyncio.wait([ended], timeout=_KILL_WAIT_SECONDS)
        if ended.done():
            return


async def _wait_for_end(client: "PlaywrightClient") -> None:
    await asyncio.gather(client._playwright, return_exceptions=True)
    await client.stop()


def _get_driver_environment() -> dict[str, str]:
    from playwright._impl._driver import get_driver_env

    theirs = get_driver_env()
    ours = _driver_environment.get(None)
    if ours is None:  # another part of this process starts the driver, such as a plugin
        return theirs
    return {name: value for name, value in theirs.items() if name.startswith("PW_")} | ours


def first_line(error: Exception) -> str:
    """Return the first line of an error's message; the driver's messages have many."""
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__


@dataclass(frozen=True, slots=True)
class BrowserProfile:
    """The source of a page, and how the browser presents itself to it. Each profile has its own cookies."""

    source: str
    user_agent: str | None  # None: that of the browser
    stealth: str


@dataclass(slots=True)
class SourceContext:
    """The context of a profile and its proxy."""

    context: "BrowserContext"
    proxy: Proxy
    override: JsonObject  # of the user agent and the client hints of each page
    pages: int = 0


@dataclass(slots=True, eq=False)
class SourceContexts:
    """The contexts of one browser. No context is used with another browser."""

    browser: "Browser"
    identity: BrowserIdentity
    make_proxy: Callable[[], Proxy]
    _contexts: OrderedDict[BrowserProfile, SourceContext] = field(default_factory=OrderedDict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def get_context(self, profile: BrowserProfile) -> SourceContext:
        """Return the context of a profile, and open it if needed."""
        async with self._lock:
            if profile not in self._contexts:
                await self._close_oldest_unused()
                self._contexts[profile] = await self._open(profile)
            self._contexts.move_to_end(profile)
            return self._contexts[profile]

    async def close_proxies(self) -> None:
        """Close all proxies, after the browser has ended."""
        async with self._lock:
            for context in self._contexts.values():
                await context.proxy.close()
            self._contexts.clear()

    async def _close_oldest_unused(self) -> None:
        unused = [profile for profile, context in self._contexts.items() if not context.pages]
        if len(self._contexts) >= _MAX_CONTEXTS and unused:
            context = self._contexts.pop(unused[0])
            await close_in_time(context.context.close())
            await context.proxy.close()

    async def _open(self, profile: BrowserProfile) -> SourceContext:
        proxy = self.make_proxy()
        await proxy.open()
        try:
            context = await self.browser.new_context(
                proxy={"server": f"http://127.0.0.1:{proxy.port}"},
                service_workers="block",
                accept_downloads=False,
            )
            await apply_stealth(context, profile.stealth)
        except BaseException:
            await proxy.close()
            raise
        return SourceContext(context, proxy, self.identity.make_override(profile.user_agent, profile.stealth))


async def apply_stealth(context: "BrowserContext", stealth: str) -> None:
    """Hide the signs of an automated browser: all (`full`), only navigator.webdriver (`light`) or none (`none`).

    The user agent, the client hints and the platform are not its part: see `identity`.
    """
    from playwright_stealth import ALL_EVASIONS_DISABLED_KWARGS, Stealth

    if stealth == "none":
        return
    names = ("navigator_user_agent", "navigator_user_agent_data", "navigator_platform", "sec_ch_ua")
    patches = dict.fromkeys(names, False) | {"navigator_platform_override": None}
    if stealth == "light":
        no_others = {"navigator_languages_override": None, "navigator_platform_override": None}
        patches = ALL_EVASIONS_DISABLED_KWARGS | no_others | {"navigator_webdriver": True}
    await Stealth(**patches).apply_stealth_async(context)
