"""The contexts of one browser: a source has one of its own, with cookies and a way out of its own (spec 1.7)."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.browser.driver import closed
from headwater.browser.proxy import Proxy

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext

_MOST_CONTEXTS = 32


@dataclass(frozen=True, slots=True)
class Look:
    """Whose page it is, and how the browser presents itself there: each has cookies of its own."""

    source: str
    user_agent: str
    stealth: str


@dataclass(slots=True)
class SourceContext:
    """A source's context and its way out."""

    context: "BrowserContext"
    proxy: Proxy
    pages: int = 0


class SourceContexts:
    """They go with their browser: none of them is ever used with another."""

    def __init__(self, browser: "Browser", make_proxy: Callable[[], Proxy]) -> None:
        self._browser = browser
        self._make_proxy = make_proxy
        self._rooms: OrderedDict[Look, SourceContext] = OrderedDict()
        self._lock = asyncio.Lock()

    async def enter(self, look: Look) -> SourceContext:
        """Return the room of a look; it is opened where there is none."""
        async with self._lock:
            if look not in self._rooms:
                await self._make_space()
                self._rooms[look] = await self._open(look)
            self._rooms.move_to_end(look)
            return self._rooms[look]

    async def close(self) -> None:
        """Close every way out, once the browser has ended."""
        async with self._lock:
            for room in self._rooms.values():
                await room.proxy.close()
            self._rooms.clear()

    async def _make_space(self) -> None:
        """Close the context that was not used for longest, where there are many."""
        unused = [look for look, room in self._rooms.items() if not room.pages]
        if len(self._rooms) >= _MOST_CONTEXTS and unused:
            room = self._rooms.pop(unused[0])
            await closed(room.context.close())
            await room.proxy.close()

    async def _open(self, look: Look) -> SourceContext:
        proxy = self._make_proxy()
        await proxy.open()
        try:
            context = await self._browser.new_context(
                proxy={"server": f"http://127.0.0.1:{proxy.port}"},
                user_agent=look.user_agent,
                service_workers="block",
                accept_downloads=False,
            )
            await disguise(context, look.stealth)
        except BaseException:
            await proxy.close()
            raise
        return SourceContext(context, proxy)


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
