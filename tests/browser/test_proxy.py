"""The proxy of the browser (spec 1.7): it passes on admitted requests and nothing else."""

import asyncio
import contextlib
import ctypes
import os
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_network

import pytest

from headwater.browser.proxy import Proxy, ProxyCaps, TooMuchReceived, TooMuchSent
from headwater.core.http import AdmittedRequest
from headwater.http.guard import AddressGuard, AddressRefused
from headwater.http.resolver import GuardedResolver
from tests.browser.conftest import HERE, now

CAPS = ProxyCaps(connections=3, connection_seconds=20.0, request_bytes=1000)


@dataclass
class Host:
    """A host that records the bytes it receives and sends the bytes of the test."""

    port: int = 0
    says: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    hangs_up: bool = False
    heard: list[bytes] = field(default_factory=list)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            self.heard.append(chunk)
            writer.write(self.says)
            if self.hangs_up:
                break
        writer.close()


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    made = Host()
    server = await asyncio.start_server(made.answer, HERE, 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()


@contextlib.asynccontextmanager
async def opened(host: Host, caps: ProxyCaps = CAPS, clock: Callable[[], datetime] = now) -> AsyncIterator[Proxy]:
    resolver = GuardedResolver(AddressGuard([ip_network(HERE)]), {"a.test": (HERE, host.port)})
    proxy = Proxy(resolver, clock, caps)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()


@contextlib.asynccontextmanager
async def connected(proxy: Proxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def said_to(proxy: Proxy, *words: bytes) -> bytes:
    """Send some bytes and return the whole answer, which is empty if the connection is closed."""
    async with connected(proxy) as (reader, writer):
        writer.writelines(words)
        async with asyncio.timeout(10):
            try:
                return await reader.read(-1)
            except ConnectionError:
                return b""


GET = b"GET http://a.test/page?q=1 HTTP/1.1\r\nHost: a.test\r\nProxy-Connection: keep-alive\r\nAccept: */*\r\n\r\n"


async def test_an_admitted_request_is_sent_without_proxy_headers(host: Host) -> None:
    request = AdmittedRequest()
    async with opened(host) as proxy, connected(proxy) as (reader, writer):
        with proxy.admit("http://a.test/page", request):
            writer.write(GET)
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200 OK")
    assert host.heard == [b"GET /page?q=1 HTTP/1.1\r\nHost: a.test\r\nAccept: */*\r\nConnection: close\r\n\r\n"]
    assert request.sent_at is not None
    assert request.received == len(host.says)


async def test_the_sent_time_is_after_the_connection() -> None:
    """Spec 2.3: the pause of its host counts from then, however long a busy machine takes until then."""
    with socket.create_server((HERE, 0)) as server:
        came: list[bytes] = []

        def look() -> datetime:
            visitor, _ = server.accept()
            with visitor:
                came.append(visitor.recv(1000, socket.MSG_DONTWAIT))
            return now()

        async with opened(Host(server.getsockname()[1]), clock=look) as proxy:
            with proxy.admit("http://a.test/page", AdmittedRequest()):
                await said_to(proxy, GET)
    assert [words.partition(b" HTTP")[0] for words in came] == [b"GET /page?q=1"]


async def test_a_connection_is_good_for_one_request(host: Host) -> None:
    async with opened(host) as proxy:
        with proxy.admit("http://a.test/", AdmittedRequest()):
            async with connected(proxy) as (reader, writer):
                writer.write(GET)
                await reader.readuntil(b"hello")
                writer.write(GET.replace(b"/page", b"/other"))
                assert await reader.read(-1) == b""
    assert len(host.heard) == 1


async def test_a_tunnel_carries_bytes_only_while_its_host_is_admitted(host: Host) -> None:
    async with opened(host) as proxy, connected(proxy) as (reader, writer):
        with proxy.admit("https://a.test/", AdmittedRequest()):
            writer.write(b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
            writer.write(b"one")
            await reader.readuntil(b"hello")
        writer.write(b"two")
        assert await reader.read(-1) == b""
    assert host.heard == [b"one"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://a.test/", [GET]),
        ("https://a.test/", [b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", b"one"]),
    ],
)
async def test_no_byte_is_sent_after_the_hold_has_ended(url: str, words: list[bytes], host: Host) -> None:
    """Spec 2.3: a program that was frozen meanwhile may no longer have the host."""
    request = AdmittedRequest(ends_at=now())
    async with opened(host) as proxy:
        with proxy.admit(url, request):
            await said_to(proxy, *words)
    assert host.heard == []
    assert isinstance(request.error, TimeoutError)


@pytest.mark.parametrize(
    "words",
    [
        GET.replace(b"a.test", b"b.test"),
        GET.replace(b"GET", b"POST"),
        GET.replace(b"http:", b"ftp:"),
        GET.replace(b"http://a.test", b""),
        GET.replace(b"a.test/", b"a.test:81/"),
        b"CONNECT a.test:80 HTTP/1.1\r\n\r\n",
        b"CONNECT a.test:443 HTTP/1.1\r\n\r\n",
        b"CONNECT [::1 HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01 tls?\r\n\r\n",
        b"GET http://a.test/ HTTP/1.1\r\nX: " + b"x" * 100_000,
        b"\r\n\r\n",
    ],
)
async def test_a_request_that_is_not_admitted_gets_no_answer(words: bytes, host: Host) -> None:
    """A plain page's host is not one for tunnels: a socket would come as one."""
    async with opened(host) as proxy:
        with proxy.admit("http://a.test/", AdmittedRequest()):
            assert await said_to(proxy, words) == b""
    assert host.heard == []


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]", "10.0.0.1", "169.254.169.254"])
async def test_the_guard_checks_every_address_and_its_reason_is_kept(name: str, host: Host) -> None:
    """Spec 4.3."""
    url, request = f"http://{name}:{host.port}/", AdmittedRequest()
    async with opened(host) as proxy:
        with proxy.admit(url, request):
            assert await said_to(proxy, f"GET {url} HTTP/1.1\r\n\r\n".encode()) == b""
    assert isinstance(request.error, AddressRefused)
    assert request.sent_at is None


async def test_an_answer_over_the_limit_is_cut_off(host: Host) -> None:
    host.says = bytes(5000)
    request = AdmittedRequest()
    async with opened(host) as proxy:
        with proxy.admit("http://a.test/", request):
            assert len(await said_to(proxy, GET)) <= CAPS.request_bytes
    assert isinstance(request.error, TooMuchReceived)


@pytest.mark.parametrize(
    ("says", "is_whole"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", False),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n", True),
        (b"HTTP/1.0 200 OK\r\n\r\nabc", True),
        (b"HTTP/1.1 200 OK\r\nContent-", False),
        (b"", False),
    ],
)
async def test_an_incomplete_answer_is_an_error(says: bytes, is_whole: bool, host: Host) -> None:
    host.says, host.hangs_up = says, True
    request = AdmittedRequest()
    async with opened(host) as proxy:
        with proxy.admit("http://a.test/", request):
            assert await said_to(proxy, GET) == says
    assert (request.error is None) is is_whole


async def test_used_connections_are_counted_and_end(host: Host) -> None:
    tunnel = b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"
    async with opened(host, ProxyCaps(connections=2, connection_seconds=2)) as proxy:
        with proxy.admit("https://a.test/", AdmittedRequest()), proxy.admit("http://a.test/", AdmittedRequest()):
            async with connected(proxy) as (first, to_first), connected(proxy) as (second, to_second):
                for reader, writer in ((first, to_first), (second, to_second)):
                    writer.write(tunnel)
                    await reader.readuntil(b"\r\n\r\n")
                assert await said_to(proxy, GET) == b""
                async with asyncio.timeout(10):
                    assert await first.read(-1) == await second.read(-1) == b""


async def test_the_oldest_unused_connection_makes_room_for_a_new_one(host: Host) -> None:
    """A page that makes the browser open many connections in advance does not keep out the next page."""
    async with opened(host, ProxyCaps(connections=2)) as proxy:
        with proxy.admit("http://a.test/", AdmittedRequest()):
            async with connected(proxy) as (first, _), connected(proxy) as (second, to_second):
                async with connected(proxy) as (third, to_third):
                    to_third.write(GET)
                    assert (await third.readuntil(b"hello")).startswith(b"HTTP/1.1 200 OK")
                assert await first.read(-1) == b""
                to_second.write(GET)
                assert (await second.readuntil(b"hello")).startswith(b"HTTP/1.1 200 OK")


async def test_one_request_may_use_few_connections(host: Host) -> None:
    """Spec 2.3: the proxy refuses all requests beyond the admitted one."""
    request, host.hangs_up = AdmittedRequest(), True
    async with opened(host, ProxyCaps(request_connections=2)) as proxy:
        with proxy.admit("http://a.test/", request):
            answers = [await said_to(proxy, GET) for _ in range(4)]
    assert [bool(answer) for answer in answers] == [True, True, False, False]
    assert len(host.heard) == 2
    assert isinstance(request.error, TooMuchSent)


async def test_one_request_may_send_few_chunks_through_a_tunnel(host: Host) -> None:
    """Spec 2.3."""
    request = AdmittedRequest()
    async with opened(host, ProxyCaps(request_chunks=2)) as proxy, connected(proxy) as (reader, writer):
        with proxy.admit("https://a.test/", request):
            writer.write(b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            for word in (b"one", b"two"):
                writer.write(word)
                await reader.readuntil(b"hello")
            writer.write(b"three")
            assert await reader.read(-1) == b""
    assert host.heard == [b"one", b"two"]
    assert isinstance(request.error, TooMuchSent)


def socket_of(user: int) -> socket.socket:
    """A socket that belongs to a user."""
    libc = ctypes.CDLL(None)
    libc.setfsuid(user)
    try:
        return socket.socket()
    finally:
        libc.setfsuid(os.geteuid())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize(("user", "answered"), [(0, True), (65534, False)])
async def test_other_users_of_this_machine_are_not_served(user: int, answered: bool, host: Host) -> None:
    with socket_of(user) as line:
        async with opened(host) as proxy:
            line.connect(("127.0.0.1", proxy.port))
            reader, writer = await asyncio.open_connection(sock=line)
            with proxy.admit("http://a.test/", AdmittedRequest()):
                writer.write(GET)
                with contextlib.suppress(ConnectionError):
                    assert (await reader.read(1000) != b"") is answered
            writer.close()
    assert bool(host.heard) is answered
