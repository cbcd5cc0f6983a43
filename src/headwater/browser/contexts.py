"""The contexts of one browser. Each source has its own context, with its own cookies and its own proxy (spec 1.7)."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.browser.chromium import close_in_time
from headwater.browser.proxy import Proxy

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext

_MAX_CONTEXTS = 32


@dataclass(frozen=True, slots=True)
class BrowserProfile:
    """The source of a page, and how the browser presents itself to it. Each profile has its own cookies."""

    source: str
    user_agent: str
    stealth: str


@dataclass(slots=True)
class SourceContext:
    """The context of a profile and its proxy."""

    context: "BrowserContext"
    proxy: Proxy
    pages: int = 0


@dataclass(slots=True, eq=False)
class SourceContexts:
    """The contexts of one browser. No context is used with another browser."""

    browser: "Browser"
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
                user_agent=profile.user_agent,
                service_workers="block",
                accept_downloads=False,
            )
            await apply_stealth(context, profile.stealth)
        except BaseException:
            await proxy.close()
            raise
        return SourceContext(context, proxy)


async def apply_stealth(context: "BrowserContext", stealth: str) -> None:
    """Hide the signs of an automated browser: all (`full`), only navigator.webdriver (`light`) or none (`none`)."""
    from playwright_stealth import ALL_EVASIONS_DISABLED_KWARGS, Stealth

    if stealth == "none":
        return
    # The source chooses the user agent, so nothing else may contradict it.
    patches = {"navigator_user_agent": False, "navigator_user_agent_data": False, "sec_ch_ua": False}
    if stealth == "light":
        no_others = {"navigator_languages_override": None, "navigator_platform_override": None}
        patches = ALL_EVASIONS_DISABLED_KWARGS | no_others | {"navigator_webdriver": True}
    await Stealth(**patches).apply_stealth_async(context)
