"""Chromium as a process: which one, how it is started so that it has no way out of its own, and how it ends.

Playwright's driver starts it and speaks to it through a pipe. When this process ends, however it ends, the driver finds
its end of the pipe closed and ends Chromium; and Chromium ends by itself when the driver is gone.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from headwater.browser.driver import closed, environment_in, start_driver, stop_driver
from headwater.browser.folder import BrowserFolder, make_folder
from headwater.browser.processes import end_session, is_running, of_network
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason

if TYPE_CHECKING:
    from playwright.async_api import Browser, CDPSession, Playwright

log = structlog.get_logger()

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_FEATURES_OFF = (
    # The suggestions of the address bar: pages of Chromium's own in each window, which take longer than most pages.
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    # What Playwright turns off, for ours replaces its list.
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
    # No way round the proxy: no name is looked up here, and no packet leaves by itself.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    # It asks by itself, past whoever looks at a page's requests.
    "--disable-blink-features=FedCm",
    "--js-flags=--max-old-space-size=512",
)
# Playwright's: without it Chromium slows down pages that flood it with changes of their address.
_UNWANTED_FLAGS = ("--disable-ipc-flooding-protection",)
_NOWHERE = "http://127.0.0.1:9"  # the way out of whatever has no context
_START_SECONDS = 30.0
_CARRIER_LOOKS, _LOOK_SECONDS = 60, 0.05


@dataclass(frozen=True, slots=True)
class Chromium:
    """A browser that was started, and the driver that started it."""

    browser: "Browser"
    driver: "Playwright"
    folder: BrowserFolder
    wire: "CDPSession"  # to Chromium itself
    session: int  # of all its processes
    vital: tuple[int, ...]  # those of them that no page can do without

    @property
    def is_alive(self) -> bool:
        """Whether all of it is there.

        Where its driver has died, it calls itself connected all the same. Where its network process has, it starts
        another, but what the page had asked for is lost and contexts have no way out any more.
        """
        return self.browser.is_connected() and all(map(is_running, self.vital))

    async def answers(self, seconds: float) -> bool:
        """Tell whether it answers in time; one that hangs, or that a page keeps busy, does not."""
        from playwright.async_api import Error

        try:
            async with asyncio.timeout(seconds):
                await self.wire.send("Browser.getVersion")
        except (Error, TimeoutError):
            return False
        return True

    async def end(self) -> None:
        """End both; whatever of them hangs is ended by force."""
        if not await closed(self.browser.close()):
            await asyncio.to_thread(end_session, self.session)
        await stop_driver(self.driver, self.folder.path)
        await asyncio.to_thread(self.folder.remove)


def find_program(named: str = "") -> str | None:
    """Return the Chromium that is named, else the system's, else Playwright's own; None where there is none."""
    names = [named] if named else [*PROGRAMS, *_of_playwright()]
    return next(filter(None, map(shutil.which, names)), None)


def _of_playwright() -> Iterator[str]:
    """Name the browsers that came with an image of Playwright's."""
    folder = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    return map(str, Path(folder).glob("chromium-*/chrome-linux*/chrome")) if folder else iter(())


async def start_chromium(named: str = "") -> Chromium:
    """Start a Chromium that reaches nothing but through the proxies of its contexts.

    Raises OperatorError where there is none, or where it does not start.
    """
    program = await asyncio.to_thread(find_program, named)
    if program is None:
        raise OperatorError(_nothing_there(named), reason=Reason.NO_BROWSER)
    try:
        folder = await asyncio.to_thread(make_folder)
    except OSError as error:
        what = (
            f"There is no temporary folder for the browser ({error.strerror}). Name one with TMPDIR that can be used."
        )
        raise OperatorError(what, reason=Reason.NO_BROWSER) from error
    try:
        chromium = await _start_in(folder, program)
    except BaseException:
        await asyncio.to_thread(folder.remove)
        raise
    log.info("browser.started", program=program, version=chromium.browser.version)
    return chromium


def _nothing_there(named: str) -> str:
    if named:
        return (
            f"There is no Chromium at {named}, where HEADWATER_CHROMIUM_PATH says. Correct it, or leave it out: then "
            "the system's is taken, if there is one."
        )
    return "There is no Chromium here, and the source needs a browser. On Debian: apt-get install chromium."


async def _start_in(folder: BrowserFolder, program: str) -> Chromium:
    try:
        driver = await start_driver(folder.path)
    except Exception as error:  # of no kind in particular, where the driver ends at once
        what = f"Playwright's driver does not start ({first_line(error)}). Install the package playwright again."
        raise OperatorError(what, reason=Reason.NO_BROWSER) from error
    try:
        return await _launch(driver, folder, program)
    except BaseException:
        await stop_driver(driver, folder.path)
        raise


async def _process_of(wire: "CDPSession") -> int:
    """Return the process that all others of a browser come from."""
    told = await wire.send("SystemInfo.getProcessInfo")
    return next(int(process["id"]) for process in told["processInfo"] if process["type"] == "browser")


async def _carriers(session: int) -> list[int]:
    """Return the processes through which pages reach the network; they come a moment after the first."""
    for _ in range(_CARRIER_LOOKS):
        if found := await asyncio.to_thread(of_network, session):
            return found
        await asyncio.sleep(_LOOK_SECONDS)
    return []  # another Chromium may do without


async def _launch(driver: "Playwright", folder: BrowserFolder, program: str) -> Chromium:
    from playwright.async_api import Error

    try:
        browser = await driver.chromium.launch(
            executable_path=program,
            args=_FLAGS,
            ignore_default_args=_UNWANTED_FLAGS,
            proxy={"server": _NOWHERE},
            env=dict(environment_in(folder.path)),
            chromium_sandbox=os.geteuid() != 0,  # Chromium's own sandbox does not work for root
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
            timeout=_START_SECONDS * 1000,
        )
        async with asyncio.timeout(_START_SECONDS):
            wire = await browser.new_browser_cdp_session()
            pid = await _process_of(wire)
        session = os.getsid(pid)
        vital = (pid, *await _carriers(session))
        return Chromium(browser, driver, folder, wire, session, vital)
    except (Error, OSError) as error:
        raise OperatorError(
            f"{program} does not start ({first_line(error)}). Run it by hand to see why, or name another with "
            "HEADWATER_CHROMIUM_PATH.",
            reason=Reason.NO_BROWSER,
        ) from error


def first_line(error: Exception) -> str:
    """Return the one line of the driver's errors that says something."""
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__
