"""Playwright's driver, the process between us and Chromium: what it is told of us, and its end.

Playwright passes all of our environment on to it, and does not wait for the end of one that did not start. What is used
here to mend that is not public: tests show that it is found, for the version that is locked.
"""

import asyncio
import os
from collections.abc import Awaitable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.browser.processes import end_marked

if TYPE_CHECKING:
    from playwright._impl.out_of_process import PlaywrightClient
    from playwright.async_api import Playwright

# What the driver, Chromium and the script around it need of our environment, which holds keys and passwords besides.
_NEEDED = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR")
_START_SECONDS, _CLOSE_SECONDS = 30.0, 3.0
_LOOKS, _LOOK_SECONDS = 30, 1.0
_environment: ContextVar[dict[str, str]] = ContextVar("_environment")


def environment_in(folder: Path) -> dict[str, str]:
    """Return an environment in which all that is written for a while is written to a folder."""
    needed = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    kept = {"TMPDIR": "", "XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache"}
    return needed | {name: str(folder / place) for name, place in kept.items()}


async def start_driver(folder: Path) -> "Playwright":
    """Start the driver; one that nobody waits for any more, or that does not answer, is ended."""
    from playwright._impl import out_of_process, transport
    from playwright.async_api import Playwright  # takes long to import, and most processes never need it

    vars(transport)["get_driver_env"] = _driver_environment
    _environment.set(environment_in(folder))
    client = out_of_process.PlaywrightClient()
    try:
        async with asyncio.timeout(_START_SECONDS):
            driver = Playwright(await asyncio.shield(client._playwright))
    except BaseException:
        await _end(folder, asyncio.ensure_future(_ended(client)))
        raise
    # Whoever waits for an answer is told that the driver is gone; it need not be in the log too.
    client._transport.on_error_future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    vars(driver)["stop"] = client.stop
    return driver


async def stop_driver(driver: "Playwright", folder: Path) -> None:
    """Stop a driver; one that hangs is ended, and its end waited for."""
    stopping = asyncio.ensure_future(driver.stop())
    if not await closed(asyncio.shield(stopping)):
        await _end(folder, stopping)


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


async def _end(folder: Path, ended: asyncio.Future[None]) -> None:
    """End a driver and all that it has started, and wait for that; one that becomes another just then is seen later."""
    for _ in range(_LOOKS):
        await asyncio.to_thread(end_marked, f"TMPDIR={folder}")
        await asyncio.wait([ended], timeout=_LOOK_SECONDS)
        if ended.done():
            return


async def _ended(client: "PlaywrightClient") -> None:
    """Wait for the end of a driver, whether it had started or not."""
    await asyncio.gather(client._playwright, return_exceptions=True)
    await client.stop()


def _driver_environment() -> dict[str, str]:
    from playwright._impl._driver import get_driver_env

    own = {name: value for name, value in get_driver_env().items() if name.startswith("PW_")}
    return own | _environment.get()
