"""A real Chromium, where one can be had."""

import asyncio
import contextlib
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from headwater.browser.chromium import BrowserProfile, find_program
from headwater.browser.client import BrowserClient
from headwater.browser.page import PageRequest
from headwater.core.errors import NotNow
from headwater.core.http import AdmittedRequest, Limits, Response
from headwater.core.settings import Settings, split_connect_to
from headwater.http.client import HttpClient
from headwater.http.guard import AddressGuard
from tests.certificates import serve_certificate
from tests.server import Site

HERE = "127.0.0.2"  # the address of pages that may be visited; all others of this machine may not
LIMITS = Limits(total_seconds=20.0, body_bytes=2 * 1024 * 1024)
HTML = {"Content-Type": "text/html; charset=utf-8"}


@dataclass
class Browsing:
    """A browser, a site for it, and a gate that admits everything, one request at a time for each host.

    The proxy refuses requests.
    """

    site: Site
    client: BrowserClient
    asked: list[str] = field(default_factory=list)
    admitted: list[AdmittedRequest] = field(default_factory=list)
    _turns: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    @contextlib.asynccontextmanager
    async def admit(self, url: str) -> AsyncIterator[AdmittedRequest]:
        self.asked.append(url)
        async with self._turns[urlsplit(url).netloc]:
            self.admitted.append(AdmittedRequest())
            yield self.admitted[-1]

    async def get(self, url: str, source: str = "source", stealth: str = "full", limits: Limits = LIMITS) -> Response:
        while True:
            try:
                return await self.try_once(url, source, stealth, limits)
            except NotNow:  # on a busy machine it starts slowly
                continue

    async def try_once(self, url: str, source: str, stealth: str = "full", limits: Limits = LIMITS) -> Response:
        profile = BrowserProfile(source, "Headwater/test", stealth)
        return await self.client.get(PageRequest(url, profile, limits, self.admit))


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program, unless there is none."""
    program = find_program()
    if program is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    return program


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chromium: str) -> Path:
    """The temporary folder of what is started from here on."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@contextlib.asynccontextmanager
async def open_browsing(**options: Any) -> AsyncIterator[Browsing]:
    """Open a browser of one's own."""
    async with Site(HERE) as site:
        client = HttpClient(
            guard=AddressGuard([ip_network(HERE)]),
            clock=now,
            connect_to=dict(split_connect_to(part) for part in site.connect_to),
        )
        async with client, BrowserClient(client, now, Settings(**options)) as browser:
            yield Browsing(site, browser)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared_browsing(chromium: str) -> AsyncIterator[Browsing]:
    async with open_browsing() as opened:
        yield opened


@pytest.fixture
def browsing(shared_browsing: Browsing) -> Iterator[Browsing]:
    """The browser that the tests of a module share, with a site that is empty again."""
    for kept in (shared_browsing.site.answers, shared_browsing.site.hanging):
        kept.clear()
    for noted in (shared_browsing.site.seen, shared_browsing.asked, shared_browsing.admitted):
        noted.clear()
    return shared_browsing


@contextlib.asynccontextmanager
async def encrypted_browser(certificate: Path, answer: Callable[..., Awaitable[None]]) -> AsyncIterator[BrowserClient]:
    """A browser that finds the host a.test at an encrypted server."""
    server = await asyncio.start_server(answer, HERE, 0, ssl=serve_certificate(certificate))
    place = (HERE, server.sockets[0].getsockname()[1])
    client = HttpClient(guard=AddressGuard([ip_network(HERE)]), clock=now, connect_to={"a.test": place})
    async with client, BrowserClient(client, now, Settings()) as browser:
        yield browser
    server.close()
