"""How the browser presents itself: its user agent and its client hints.

A page can read them in five places: the headers User-Agent and Sec-CH-UA, and `navigator.userAgent`,
`navigator.userAgentData` and `navigator.platform`. All of them come from the running Chromium, so they agree with one
another, in pages and in workers. `navigator.platform` is never changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater import __version__
from headwater.core.json_values import JsonObject

if TYPE_CHECKING:
    from playwright.async_api import Browser

_PRODUCT = f"headwater/{__version__}"  # also a user agent that looks like a browser names us
_SIGN = "Headless"
# Chromium has client hints only on an encrypted page. The request for this page is answered before it is sent.
_ENCRYPTED_PAGE = "https://identity.invalid/"
_HINTS = ("architecture", "bitness", "formFactors", "fullVersionList", "model", "platformVersion", "wow64")
_READ_IDENTITY = """async hints => ({
    userAgent: navigator.userAgent,
    metadata: await navigator.userAgentData?.getHighEntropyValues(hints),
})"""


@dataclass(frozen=True, slots=True)
class BrowserIdentity:
    """The user agent and the client hints of the running Chromium."""

    user_agent: str
    metadata: Mapping[str, Any] | None

    def make_override(self, user_agent: str | None, stealth: str) -> JsonObject:
        """Return the arguments of Emulation.setUserAgentOverride. Without a user agent, it is Chromium's with our name.

        With a profile of stealth, no part states that the browser has no window.
        """
        metadata, own = dict(self.metadata or {}), self.user_agent
        if stealth != "none":
            own = own.replace(_SIGN, "")
            for name in ("brands", "fullVersionList"):
                metadata[name] = [one for one in metadata.get(name, ()) if not one["brand"].startswith(_SIGN)]
        override: JsonObject = {"userAgent": user_agent or f"{own} {_PRODUCT}"}
        return override | ({"userAgentMetadata": metadata} if self.metadata else {})


async def read_identity(browser: "Browser") -> BrowserIdentity:
    """Read how a browser presents itself without any override. It sends no request."""
    context = await browser.new_context()
    try:
        page = await context.new_page()
        await page.route("**/*", lambda route: route.fulfill(content_type="text/html", body=""))
        await page.goto(_ENCRYPTED_PAGE)
        found = await page.evaluate(_READ_IDENTITY, list(_HINTS))
    finally:
        await context.close()
    return BrowserIdentity(found["userAgent"], found["metadata"])
