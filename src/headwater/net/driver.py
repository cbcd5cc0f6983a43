"""Playwright's driver, the process between us and Chromium: what it is told of us, and its end.

Playwright passes all of our environment on to it. The one thing used here that is not public is where it does so: tests
show that it is found, for the version that is locked.
"""

import asyncio
import os
from collections.abc import Awaitable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.net.processes import end_marked

if TYPE_CHECKING:
    from playwright.async_api import Playwright

# What the driver, Chromium and the script around it need of our environment, which holds keys and passwords besides.
_NEEDED = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR")
_START_SECONDS, _CLOSE_SECONDS = 30.0, 3.0
_environment: ContextVar[dict[str, str]] = ContextVar("_environment")


def environment_in(folder: Path) -> dict[str, str]:
    """Return an environment in which all that is written for a while is written to a folder."""
    needed = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    kept = {"TMPDIR": "", "XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache"}
    return needed | {name: str(folder / place) for name, place in kept.items()}


async def start_driver(folder: Path) -> "Playwright":
    """Start the driver; one that nobody waits for any more, or that does not answer, is ended."""
    from playwright._impl import transport
    from playwright.async_api import async_playwright  # takes long to import, and most processes never need it

    vars(transport)["get_driver_env"] = _driver_environment
    _environment.set(environment_in(folder))
    manager = async_playwright()
    starting = asyncio.create_task(manager.start())
    try:
        async with asyncio.timeout(_START_SECONDS):
            driver = await asyncio.shield(starting)
    except BaseException:
        await asyncio.to_thread(_end, folder)
        await asyncio.gather(starting, return_exceptions=True)
        raise
    _expect_end(manager)
    return driver


async def stop_driver(driver: "Playwright", folder: Path) -> None:
    """Stop a driver; one that hangs is ended, and its end waited for."""
    stopping = asyncio.ensure_future(driver.stop())
    if not await closed(asyncio.shield(stopping)):
        await asyncio.to_thread(_end, folder)
        await closed(stopping)


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


def _end(folder: Path) -> None:
    end_marked(f"TMPDIR={folder}")


def _driver_environment() -> dict[str, str]:
    from playwright._impl._driver import get_driver_env

    own = {name: value for name, value in get_driver_env().items() if name.startswith("PW_")}
    return own | _environment.get()


def _expect_end(manager: Any) -> None:
    """Let Playwright not report to the log that its driver is gone: whoever waits for an answer is told."""
    manager._client._transport.on_error_future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
