"""Encrypted pages go through tunnels that only the browser can look into (spec 1.7)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headwater.browser import chromium as program
from headwater.core.errors import ExchangeFailed
from headwater.core.reasons import Reason
from tests.browser.conftest import Browsing, encrypted_browser
from tests.integration.test_client import certificate
from tests.server import Site
from tests.waiting import until

__all__ = ["certificate"]  # the fixture

PAGE = "https://a.test/page"
# The browser itself sends these requests to the host, without the page, while a request of the page is in progress.
BEHIND_THE_PAGE = b"""<script>
const identity = {providers: [{configURL: "https://a.test/identity", clientId: "1"}]};
const ask = () => {
    navigator.credentials.get({identity}).catch(error => document.title = error.name);
    new PaymentRequest([{supportedMethods: "https://a.test/payment"}], {total: {label: "", amount:
        {currency: "USD", value: "1"}}}).canMakePayment().catch(() => 0);
};
fetch("/slow").then(() => clearInterval(asking));
const asking = setInterval(ask, 20);
</script>"""
ALLOWED = "Permissions-Policy: identity-credentials-get=*, payment=*"  # for the host
BODIES = {
    "/page": ("text/html", b"<script src=/script.js></script><p>Read me."),
    "/script.js": ("text/javascript", b"document.title = 'encrypted'"),
    "/behind": ("text/html", BEHIND_THE_PAGE),
    "/slow": ("text/plain", b""),
}


@contextlib.asynccontextmanager
async def browsing_securely(certificate: Path, asked: list[str]) -> AsyncIterator[Browsing]:
    """A browser for a host that answers encrypted, and keeps its connections."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
                asked.append(path)
                kind, body = BODIES.get(path, ("application/json", b"{}"))
                if path == "/slow":
                    with contextlib.suppress(TimeoutError):
                        await until(lambda: asked[-1] != "/slow", 1.0)
                head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{ALLOWED}\r\n\r\n"
                writer.write(head.encode() + body)
        writer.close()

    async with encrypted_browser(certificate, answer) as browser:
        yield Browsing(Site(), browser)


@pytest.fixture
def trusting_chromium(chromium: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser that accepts every certificate."""
    del chromium
    monkeypatch.setattr(program, "_FLAGS", (*program._FLAGS, "--ignore-certificate-errors"))


@pytest.mark.usefixtures("trusting_chromium")
async def test_an_encrypted_page_is_loaded_with_its_scripts(certificate: Path) -> None:
    asked: list[str] = []
    async with browsing_securely(certificate, asked) as browsing:
        for _ in range(2):  # the second time through connections that were kept
            response = await browsing.get(PAGE)
            assert (response.status, b"<title>encrypted</title>" in response.body) == (200, True)
    assert asked == ["/page", "/script.js"] * 2
    assert all(request.sent_at and request.received for request in browsing.admitted)


async def test_the_browser_refuses_an_untrusted_certificate(certificate: Path, chromium: str) -> None:
    del chromium
    asked: list[str] = []
    async with browsing_securely(certificate, asked) as browsing:
        with pytest.raises(ExchangeFailed) as caught:
            await browsing.get(PAGE)
    assert caught.value.reason is Reason.NETWORK
    assert asked == []


@pytest.mark.usefixtures("trusting_chromium")
async def test_requests_of_the_browser_itself_wait_while_their_host_is_in_use(certificate: Path) -> None:
    """Spec 2.3: each request waits for its turn."""
    asked: list[str] = []
    async with browsing_securely(certificate, asked) as browsing:
        await browsing.get("https://a.test/behind")
    assert asked == ["/behind", "/slow"]
