"""The browser presents itself alike in all places, and as the Chromium that runs (spec 0, 1.7; issue 20)."""

import asyncio
import contextlib
import html
import json
import platform
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headwater import __version__
from headwater.browser.chromium import BrowserProfile
from headwater.browser.client import BrowserClient
from headwater.browser.page import PageRequest
from headwater.core.http import AdmittedRequest
from tests.browser.conftest import LIMITS, encrypted_browser
from tests.browser.test_encrypted import trusting_chromium
from tests.integration.test_client import certificate

__all__ = ["certificate", "trusting_chromium"]  # the fixtures

PAGE = "https://a.test/page"
READ = """async () => ({
    agent: navigator.userAgent, platform: navigator.platform,
    hints: await navigator.userAgentData.getHighEntropyValues(["fullVersionList", "platformVersion", "architecture"]),
})"""
IN_A_WORKER = f"""() => new Promise(done => {{
    const source = `({READ})().then(found => postMessage(found))`;
    const worker = new Worker(URL.createObjectURL(new Blob([source])));
    worker.onmessage = event => done(event.data);
}})"""
SCRIPT = f"<body><script>({READ})().then(found => document.body.textContent = JSON.stringify(found))</script>"


@dataclass
class Identified:
    """A browser, and the headers of the requests that an encrypted site received."""

    browser: BrowserClient
    headers: list[dict[str, str]] = field(default_factory=list)

    async def get(self, user_agent: str | None, stealth: str) -> tuple[dict[str, str], dict[str, Any]]:
        """Open a page. Return the headers that the site received, and the values that the page read."""
        profile = BrowserProfile("source", user_agent, stealth)
        self.headers.clear()
        response = await self.browser.get(PageRequest(PAGE, profile, LIMITS, self._admit))
        found = re.search(rb"<body>(.*)</body>", response.body, re.S)
        assert found
        return self.headers[0], json.loads(html.unescape(found[1].decode()))

    @contextlib.asynccontextmanager
    async def _admit(self, url: str) -> AsyncIterator[AdmittedRequest]:
        del url
        yield AdmittedRequest()

    async def open_context(self, user_agent: str | None, stealth: str) -> Any:
        """Return the context of a profile, as pages use it."""
        running = await self.browser._get_start()
        return await running.contexts.get_context(BrowserProfile("source", user_agent, stealth))


@pytest.fixture
async def identified(certificate: Path, trusting_chromium: None) -> AsyncIterator[Identified]:
    """Chromium sends client hints only to encrypted sites."""
    del trusting_chromium
    received: list[dict[str, str]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[1:-1]
                received.append({name.lower(): value for name, _, value in (line.partition(": ") for line in lines)})
                body = SCRIPT.encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body))
                writer.write(body)
        writer.close()

    async with encrypted_browser(certificate, answer) as browser:
        await browser.start()
        yield Identified(browser, received)


def brands(header: str) -> dict[str, str]:
    return dict(re.findall(r'"([^"]*)";v="([^"]*)"', header))


async def test_all_places_agree_with_one_another_and_with_the_chromium_that_runs(identified: Identified) -> None:
    running = await identified.browser._get_start()
    version = running.chromium.browser.version
    major = version.partition(".")[0]
    for stealth in ("full", "light"):
        headers, page = await identified.get(None, stealth)
        assert headers["user-agent"] == page["agent"]
        assert f" Chrome/{major}.0.0.0 " in page["agent"]
        assert page["agent"].endswith(f" headwater/{__version__}")
        assert "Headless" not in json.dumps([headers, page])
        listed = {one["brand"]: one["version"] for one in page["hints"]["brands"]}
        assert brands(headers["sec-ch-ua"]) == listed
        assert listed["Chromium"] == major
        assert {one["brand"]: one["version"] for one in page["hints"]["fullVersionList"]}["Chromium"] == version
        assert headers["sec-ch-ua-platform"] == f'"{page["hints"]["platform"]}"' == '"Linux"'
        assert headers["sec-ch-ua-mobile"] == "?0"
        assert page["platform"] == f"Linux {platform.machine()}"
        assert f"; {page['platform']})" in page["agent"]


async def test_a_worker_and_the_page_that_starts_it_agree(identified: Identified) -> None:
    """The policy of pages forbids workers. If one is ever allowed, it must not contradict its page."""
    for user_agent in (None, "Headwater/test"):
        opened = await identified.open_context(user_agent, "full")
        page = await opened.context.new_page()
        session = await opened.context.new_cdp_session(page)
        await session.send("Emulation.setUserAgentOverride", opened.override)
        await page.route("**/*", lambda route: route.fulfill(content_type="text/html", body=""))
        await page.goto(PAGE)
        assert await page.evaluate(IN_A_WORKER) == await page.evaluate(READ)
        await page.close()


async def test_an_honest_user_agent_has_the_client_hints_of_the_real_browser(identified: Identified) -> None:
    """Spec 0: the default user agent is ours. The hints name the real Chromium and the real platform."""
    headers, page = await identified.get("Headwater/test", "full")
    assert headers["user-agent"] == page["agent"] == "Headwater/test"
    assert headers["sec-ch-ua-platform"] == '"Linux"'
    assert brands(headers["sec-ch-ua"]) == {one["brand"]: one["version"] for one in page["hints"]["brands"]}
    assert page["platform"] == f"Linux {platform.machine()}"


async def test_without_stealth_the_browser_states_that_it_has_no_window(identified: Identified) -> None:
    headers, page = await identified.get(None, "none")
    assert "HeadlessChrome/" in headers["user-agent"]
    assert headers["user-agent"] == page["agent"]
