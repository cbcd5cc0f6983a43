"""A reader of the pages: it signs in, follows forms, and knows no JavaScript."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
from selectolax.lexbor import LexborHTMLParser

from headwater.core.settings import Settings
from headwater.web import make_app
from tests.api import TOKEN, open_api


@dataclass
class Page:
    """An answer, parsed."""

    status: int
    headers: dict[str, str]
    text: str
    tree: LexborHTMLParser = field(init=False)

    def __post_init__(self) -> None:
        self.tree = LexborHTMLParser(self.text)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of the elements, each as one line."""
        return [" ".join(node.text().split()) for node in self.tree.css(selector)]

    def links(self, selector: str = "a") -> dict[str, str]:
        """Return the addresses of links by their texts."""
        return {" ".join(node.text().split()): node.attributes.get("href") or "" for node in self.tree.css(selector)}

    def csrf(self) -> str:
        """Return the token that the forms of the page carry."""
        (token, *_) = self.tree.css("input[name=csrf]")
        return token.attributes["value"] or ""


class Reader:
    """A browser without JavaScript."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session = session
        self.base = base

    async def get(self, path: str, **headers: str) -> Page:
        async with self.session.get(self.base + path, headers={"Accept": "text/html"} | headers) as response:
            return Page(response.status, dict(response.headers), await response.text())

    async def post(self, path: str, origin: str | None = None, **fields: str) -> Page:
        sent = {"Origin": origin or self.base}
        async with self.session.post(self.base + path, data=fields, headers=sent) as response:
            return Page(response.status, dict(response.headers), await response.text())

    async def sign_in(self, token: str = TOKEN) -> Page:
        return await self.post("/ui/sign-in", token=token)

    async def submit_form(self, path: str, **fields: str) -> Page:
        """Post a form with the CSRF token of its page."""
        return await self.post(path, csrf=(await self.get("/ui/today")).csrf(), **fields)


@contextlib.asynccontextmanager
async def open_reader(settings: Settings) -> AsyncIterator[Reader]:
    """Serve API and pages as a program does."""
    async with open_api(settings, make_app) as api:
        jar = aiohttp.CookieJar(unsafe=True)  # also of an address
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            yield Reader(session, api.base)
