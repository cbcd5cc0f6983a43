"""Chromium as a process: which one, how it is started so that it has no way out of its own, and how it ends.

Playwright's driver starts it and speaks to it through a pipe. When this process ends, however it ends, the driver finds
its end of the pipe closed and ends Chromium; and Chromium ends by itself when the driver is gone.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from headwater.errors import OperatorError
from headwater.model.reasons import Reason
from headwater.net.processes import end_session, is_running

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

log = structlog.get_logger()

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # No way round the proxy: no name is looked up here, and no packet leaves by itself.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    # It asks by itself, past whoever looks at a page's requests. (`--disable-features` would replace Playwright's own.)
    "--disable-blink-features=FedCm",
    "--js-flags=--max-old-space-size=512",
)
_NOWHERE = "http://127.0.0.1:9"  # the way out of whatever has no context
# What Chromium and the script around it need of our environment, which holds keys and passwords besides.
_ENVIRONMENT = ("PATH", "HOME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR")
_START_SECONDS, _CLOSE_SECONDS = 30.0, 3.0


@dataclass(frozen=True, slots=True)
class Chromium:
    """A browser that was started, and the driver that started it."""

    browser: "Browser"
    driver: "Playwright"
    pid: int
    session: int  # of all its processes

    @property
    def is_alive(self) -> bool:
        """Whether it is there; where its driver has died, it calls itself connected all the same."""
        return self.browser.is_connected() and is_running(self.pid)

    async def end(self) -> None:
        """End both; whatever of them hangs is not waited for."""
        if not await closed(self.browser.close()):
            await asyncio.to_thread(end_session, self.session)
        await closed(self.driver.stop())


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
        where = f"at {named}, where HEADWATER_CHROMIUM_PATH says" if named else "here"
        raise OperatorError(
            f"There is no Chromium {where}, and the source needs a browser. On Debian: apt-get install chromium.",
            reason=Reason.NO_BROWSER,
        )
    try:
        driver = await _start_driver()
    except OSError as error:
        what = f"Playwright's driver does not start ({error.strerror or error}). Install the package playwright again."
        raise OperatorError(what, reason=Reason.NO_BROWSER) from error
    try:
        chromium = await _launch(driver, program)
    except BaseException:
        await closed(driver.stop())
        raise
    log.info("browser.started", program=program, version=chromium.browser.version)
    return chromium


async def _start_driver() -> "Playwright":
    """Start the driver; one whose start nobody waits for any more is stopped."""
    from playwright.async_api import async_playwright  # takes long to import, and most processes never need it

    async def stop() -> None:
        await (await starting).stop()

    starting = asyncio.create_task(async_playwright().start())
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await closed(stop())
        raise


async def _process_of(browser: "Browser") -> int:
    """Return the process that all others of a browser come from."""
    session = await browser.new_browser_cdp_session()
    told = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    return next(int(process["id"]) for process in told["processInfo"] if process["type"] == "browser")


async def _launch(driver: "Playwright", program: str) -> Chromium:
    from playwright.async_api import Error

    try:
        browser = await driver.chromium.launch(
            executable_path=program,
            args=_FLAGS,
            proxy={"server": _NOWHERE},
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            chromium_sandbox=os.geteuid() != 0,  # Chromium's own sandbox does not work for root
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
            timeout=_START_SECONDS * 1000,
        )
        async with asyncio.timeout(_START_SECONDS):
            pid = await _process_of(browser)
        return Chromium(browser, driver, pid, os.getsid(pid))
    except (Error, OSError) as error:
        raise OperatorError(
            f"{program} does not start ({first_line(error)}). Run it by hand to see why, or name another with "
            "HEADWATER_CHROMIUM_PATH.",
            reason=Reason.NO_BROWSER,
        ) from error


async def closed(closing: Awaitable[Any]) -> bool:
    """Wait for something of the browser's to close, and tell whether it did; what is gone already has."""
    from playwright.async_api import Error

    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await closing
    except TimeoutError:
        return False
    except Error:
        pass
    return True


def first_line(error: Exception) -> str:
    """Return the one line of the driver's errors that says something."""
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__
