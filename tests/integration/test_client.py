"""Spec 4.3: caps on body, header and time, and the guard at connect time; 2.3: when a request was sent."""

import asyncio
import contextlib
import gzip
import itertools
import os
import resource
import select
import socket
import ssl
import struct
import sys
import threading
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.errors import ExchangeFailed, HeadwaterError, InvalidURL
from headwater.core.http import Limits, Response
from headwater.core.inflate import BadEncoding, Inflater
from headwater.core.reasons import Reason
from headwater.http.client import HttpClient
from headwater.http.guard import AddressGuard, AddressRefused
from headwater.http.http_errors import map_error
from headwater.http.responses import inflater_for
from tests.certificates import make_certificate, serve_certificate, trust
from tests.loop_work import watched_work

LOOPBACK = AddressGuard([ip_network("127.0.0.0/8"), ip_network("::1/128")])
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SMALL = Limits(connect_seconds=2, read_seconds=2, total_seconds=5, body_bytes=1024 * 1024)
HASTY = Limits(connect_seconds=0.2, read_seconds=0.2, total_seconds=5, body_bytes=1024 * 1024)
OK = b"HTTP/1.1 200 OK\r\n"

Script = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Web:
    """A loopback server that answers by a script and records each request."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.requests: list[bytes] = []
        self.connections = 0
        self.hung_up = asyncio.Event()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while not writer.is_closing():
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                await self._script(writer)
        except (asyncio.IncompleteReadError, OSError):
            self.hung_up.set()
        except asyncio.CancelledError:
            pass
        finally:
            writer.transport.abort()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def web(script: Script, host: str = "127.0.0.1", **options: Any) -> AsyncIterator[Web]:
    site = Web(script)
    server = await asyncio.start_server(site.serve, host, 0, **options)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        await site.stop()
        await server.wait_closed()


def respond(answer: bytes, *, close: bool = False) -> Script:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        if close:
            writer.close()

    return script


def page(body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


async def reset(writer: asyncio.StreamWriter) -> None:
    linger_not = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)
    writer.transport.abort()


async def hang(_writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


def a_client(guard: AddressGuard = LOOPBACK, **options: Any) -> HttpClient:
    return HttpClient(guard=guard, clock=options.pop("clock", lambda: NOON), **options)


async def fetch(url: str, limits: Limits = SMALL, **headers: str) -> Response:
    async with a_client() as client:
        return await client.request("GET", url, user_agent="Headwater/test", headers=headers, limits=limits)


async def failed_request(url: str, limits: Limits = SMALL, client: HttpClient | None = None) -> ExchangeFailed:
    async with client or a_client() as opened:
        with pytest.raises(ExchangeFailed) as caught:
            await opened.request("GET", url, user_agent="Headwater/test", limits=limits)
    assert caught.value.url == url
    return caught.value


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str] | Exception]:
    """A table of DNS answers. A test fills in the answer for each name."""
    table: dict[str, list[str] | Exception] = {}

    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        answer = table[host]
        if isinstance(answer, Exception):
            raise answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return table


def test_https_and_operator_fixed_hosts_are_confidential() -> None:
    """Spec 1.4: we send an API key only over a confidential connection."""
    asked = a_client(connect_to={"api.demo.test": ("127.0.0.1", 80)})
    assert asked.is_confidential("https://api.example.org/a")
    assert asked.is_confidential("http://api.demo.test/a")
    assert not asked.is_confidential("http://api.example.org/a")


async def test_a_response_has_status_headers_body_and_times() -> None:
    async with web(respond(page(b"hello", "X-One: a", "x-one: b", 'ETag: W/"7"'))) as site:
        response = await fetch(site.root + "/")
    assert (response.url, response.status, response.body) == (site.root + "/", 200, b"hello")
    assert response.headers == {"content-length": "5", "x-one": "a, b", "etag": 'W/"7"'}
    assert response.sent_at == NOON
    assert 0 < response.elapsed_seconds < 5


@pytest.mark.parametrize("status", ["301 Moved", "404 Not Found", "429 Slow", "500 Oh", "599 Odd", "999 Odder"])
async def test_every_status_is_a_response_and_the_client_follows_no_redirect(status: str) -> None:
    async with web(respond(page(b"x", "Location: /elsewhere", status=status))) as site:
        response = await fetch(site.root + "/")
    assert (response.status, response.headers["location"]) == (int(status[:3]), "/elsewhere")
    assert len(site.requests) == 1


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_a_204_or_304_response_has_no_body_even_with_a_content_length(status: str) -> None:
    answer = f"HTTP/1.1 {status}\r\nContent-Length: 99999999\r\nContent-Encoding: gzip\r\n\r\n".encode()
    async with web(respond(answer)) as site:
        response = await fetch(site.root + "/")
    assert (response.status, response.body) == (int(status[:3]), b"")


async def test_the_client_skips_interim_responses() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with web(respond(interim + page(b"final"))) as site:
        assert (await fetch(site.root + "/")).body == b"final"


async def test_an_unrequested_protocol_switch_closes_the_connection() -> None:
    async with web(respond(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nxyz")) as site:
        assert (await fetch(site.root + "/")).status == 101
        await asyncio.wait_for(site.hung_up.wait(), 5)


async def test_a_body_without_length_ends_when_the_connection_closes() -> None:
    async with web(respond(b"HTTP/1.0 200 OK\r\n\r\nuntil the end", close=True)) as site:
        assert (await fetch(site.root + "/")).body == b"until the end"


async def test_the_client_joins_a_chunked_body() -> None:
    async with web(
        respond(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n")
    ) as site:
        assert (await fetch(site.root + "/")).body == b"abcde"


async def test_the_client_drops_control_characters_in_headers() -> None:
    async with web(
        respond(page(b"", "X-Utf: caf\u00e9").replace(b"\r\n\r\n", b"\r\nX-Latin: caf\xe9\r\n\r\n"))
    ) as site:
        headers = (await fetch(site.root + "/")).headers
    assert headers["x-utf"] == headers["x-latin"] == "café"


@pytest.mark.skipif(sys.flags.dev_mode, reason="aiohttp refuses such headers in development mode")
async def test_every_received_etag_can_be_sent_back() -> None:
    answer = OK + b'ETag: "a\x01b\xff\x7f"\r\nContent-Length: 0\r\n\r\n'
    async with web(respond(answer)) as site:
        etag = (await fetch(site.root + "/")).headers["etag"]
        await fetch(site.root + "/", **{"If-None-Match": etag})
    assert b"If-None-Match: " + etag.encode() in site.requests[1]


@pytest.mark.parametrize(
    "target",
    ["/", "/a%2Fb%2fc/%7e/%E2%82%AC;v=1?q=%20+x%26y&c=[]|&c=&%c3", "//double//slash/", "/a/%2e%2e/b", "/?a=b?c"],
)
async def test_the_client_sends_the_path_unchanged(target: str) -> None:
    async with web(respond(page(b""))) as site:
        await fetch(site.root + target + "#fragment")
    assert site.requests[0].split(b"\r\n")[0] == f"GET {target} HTTP/1.1".encode()


async def test_a_request_has_user_agent_and_accept_encoding() -> None:
    async with web(respond(page(b""))) as site:
        await fetch(site.root + "/", Accept="application/rss+xml")
    lines = site.requests[0].split(b"\r\n")
    assert b"User-Agent: Headwater/test" in lines
    assert b"Accept: application/rss+xml" in lines
    assert b"Accept-Encoding: gzip, deflate" in lines
    assert f"Host: 127.0.0.1:{site.port}".encode() in lines


async def test_the_client_ignores_cookies_proxies_and_netrc_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with web(respond(page(b"", "Set-Cookie: track=me; Path=/"))) as site, a_client() as client:
        for _ in range(2):
            await client.request("GET", site.root + "/", user_agent="x", limits=SMALL)
    assert not any(word in request.lower() for request in site.requests for word in (b"cookie", b"authorization"))


async def test_sent_at_is_after_the_connection_and_before_the_server_reads(
    names: dict[str, list[str] | Exception],
) -> None:
    """Spec 2.3."""
    events: list[str] = []

    class Noting(AddressGuard):
        def check(self, address: str) -> None:
            events.append("connecting")
            super().check(address)

    def clock() -> datetime:
        events.append("sent")
        return NOON

    async def script(writer: asyncio.StreamWriter) -> None:
        events.append("heard")
        writer.write(page(b""))

    names["news.test"] = ["127.0.0.1"]
    async with web(script) as site, a_client(Noting([ip_network("127.0.0.0/8")]), clock=clock) as client:
        await client.request("GET", f"http://news.test:{site.port}/", user_agent="x", limits=SMALL)
    assert events == ["connecting", "connecting", "sent", "heard"]


async def test_sent_at_is_not_before_the_request_left() -> None:
    """Spec 2.3: on a busy machine a request may leave long after the call to send it."""
    has_arrived: list[bool] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)

        def clock() -> datetime:
            connection, _ = listener.accept()
            with connection:
                has_arrived.append(connection in select.select([connection], [], [], 0)[0])
                connection.sendall(page(b""))
            return NOON

        async with a_client(clock=clock) as client:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            assert (await client.request("GET", url, user_agent="x", limits=SMALL)).sent_at == NOON
    assert has_arrived == [True]


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n"])
async def test_the_client_does_not_repeat_a_broken_request(answer: bytes) -> None:
    """Spec 2.3."""
    async with web(respond(answer, close=True)) as site:
        assert (await failed_request(site.root + "/")).reason is Reason.NETWORK
    assert len(site.requests) == site.connections == 1


def answers_then(ending: Script) -> Script:
    """Answer the first of two requests; the second, on the same connection, ends with this script."""
    turns = iter((respond(page(b"first")), ending))
    later = respond(page(b"second"))
    return lambda writer: next(turns, later)(writer)


@pytest.mark.parametrize("ending", [respond(b"", close=True), reset], ids=["closed", "reset"])
async def test_the_client_does_not_repeat_a_request_whose_kept_connection_is_lost(ending: Script) -> None:
    """Spec 11.7: it is an attempt of its own kind, because the host did nothing wrong."""
    async with web(answers_then(ending)) as site, a_client() as client:
        await client.request("GET", site.root + "/", user_agent="x", limits=SMALL)
        with pytest.raises(ExchangeFailed) as caught:
            await client.request("GET", site.root + "/", user_agent="x", limits=SMALL)
        assert (len(site.requests), site.connections) == (2, 1)
        assert (await client.request("GET", site.root + "/", user_agent="x", limits=SMALL)).body == b"second"
    assert caught.value.reason is Reason.CONNECTION_LOST
    assert (len(site.requests), site.connections) == (3, 2)


async def test_a_response_that_breaks_off_on_a_kept_connection_is_an_error_of_the_host() -> None:
    """Spec 2.3."""
    broken = respond(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", close=True)
    async with web(answers_then(broken)) as site, a_client() as client:
        await client.request("GET", site.root + "/", user_agent="x", limits=SMALL)
        with pytest.raises(ExchangeFailed) as caught:
            await client.request("GET", site.root + "/", user_agent="x", limits=SMALL)
    assert caught.value.reason is Reason.NETWORK
    assert (len(site.requests), site.connections) == (2, 1)


async def test_a_request_without_a_free_descriptor_is_our_own_failure() -> None:
    """Spec 3.2: it costs the host and its URLs nothing."""
    async with web(respond(page(b"first"))) as site, a_client() as client:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))), hard))
        hoard = []
        try:
            with contextlib.suppress(OSError):
                while True:
                    hoard.append(os.dup(0))
            with pytest.raises(ExchangeFailed) as caught:
                await client.request("GET", site.root + "/", user_agent="x", limits=SMALL)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for descriptor in hoard:
                os.close(descriptor)
    assert caught.value.reason is Reason.OFFLINE


async def test_the_client_never_repeats_a_post() -> None:
    """Spec 4.4: the receiver may have processed the first POST."""
    async with web(answers_then(respond(b"", close=True))) as site, a_client() as client:
        await client.request("GET", site.root + "/", user_agent="x", limits=SMALL)
        with pytest.raises(ExchangeFailed):
            await client.request("POST", site.root + "/", body=b"", user_agent="x", limits=SMALL)
    assert site.connections == 1


async def test_the_client_reuses_a_connection_unless_its_response_broke() -> None:
    async with web(respond(page(b"x" * 8_000_000))) as site, a_client() as client:
        await client.request("GET", site.root + "/", user_agent="x")
        await client.request("GET", site.root + "/", user_agent="x")
        assert site.connections == 1
        with pytest.raises(ExchangeFailed):
            await client.request("GET", site.root + "/", user_agent="x", limits=SMALL)
        await client.request("GET", site.root + "/", user_agent="x")
        assert site.connections == 2


async def test_connect_to_replaces_the_address_but_not_the_host_header(
    names: dict[str, list[str] | Exception],
) -> None:
    async with web(respond(page(b""))) as site:
        here = ("127.0.0.1", site.port)
        async with a_client(connect_to={"news.demo.test": here, "*.wild.test": here}) as client:
            for host in ("news.demo.test", "a.wild.test", "a.b.wild.test"):
                response = await client.request("GET", f"http://{host}/x", user_agent="x", limits=SMALL)
                assert response.url == f"http://{host}/x"
                assert f"Host: {host}\r\n".encode() in site.requests[-1]
            names["wild.test"] = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            with pytest.raises(ExchangeFailed, match=r"wild\.test"):
                await client.request("GET", "http://wild.test/", user_agent="x", limits=SMALL)


async def test_the_guard_checks_a_fixed_address() -> None:
    async with web(respond(page(b""))) as site:
        client = a_client(AddressGuard(), connect_to={"news.demo.test": ("127.0.0.1", site.port)})
        assert (await failed_request("http://news.demo.test/", client=client)).reason is Reason.ADDRESS_REFUSED
    assert site.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "[64:ff9b::7f00:1]"])
async def test_the_guard_checks_an_address_in_the_url(host: str) -> None:
    async with web(respond(page(b"")), host="") as site:
        error = await failed_request(f"http://{host}:{site.port}/", client=a_client(AddressGuard()))
    assert error.reason is Reason.ADDRESS_REFUSED
    assert "private or reserved" in str(error)
    assert site.connections == 0


async def test_a_name_with_only_refused_addresses_is_refused(names: dict[str, list[str] | Exception]) -> None:
    names["inside.test"] = ["127.0.0.1", "10.0.0.1"]
    async with web(respond(page(b""))) as site:
        error = await failed_request(f"http://inside.test:{site.port}/", client=a_client(AddressGuard()))
    assert error.reason is Reason.ADDRESS_REFUSED
    assert str(error).startswith(f"inside.test:{site.port}: ")
    assert site.connections == 0


async def test_the_client_tries_only_the_allowed_addresses_of_a_name(names: dict[str, list[str] | Exception]) -> None:
    names["mixed.test"] = ["127.0.0.1", "127.0.0.2"]
    guard = AddressGuard([ip_network("127.0.0.2/32")])
    async with web(respond(page(b"")), host="127.0.0.2") as site, a_client(guard) as client:
        assert (
            await client.request("GET", f"http://mixed.test:{site.port}/", user_agent="x", limits=SMALL)
        ).status == 200


async def test_dns_rebinding_after_the_check_is_refused(
    names: dict[str, list[str] | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: Iterator[str] = iter(["127.0.0.2", *["127.0.0.1"] * 9])

    def rebinding(_host: str, port: int, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    client = a_client(AddressGuard([ip_network("127.0.0.2/32")]))
    async with web(respond(page(b""))) as site:
        assert (await failed_request(f"http://rebinding.test:{site.port}/", client=client)).reason is Reason.NETWORK
    assert site.connections == 0
    assert next(answers) == "127.0.0.1"


async def test_an_unresolvable_name_is_a_dns_failure(names: dict[str, list[str] | Exception]) -> None:
    names["nowhere.test"] = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    error = await failed_request("http://nowhere.test/")
    assert error.reason is Reason.DNS
    assert str(error) == "nowhere.test: the name could not be resolved (Name or service not known)"


async def test_a_name_without_addresses_is_a_dns_failure(names: dict[str, list[str] | Exception]) -> None:
    names["empty.test"] = []
    assert (await failed_request("http://empty.test/")).reason is Reason.DNS


async def test_an_invalid_host_name_is_a_dns_failure() -> None:
    assert (await failed_request(f"http://{'a' * 64}.test/")).reason is Reason.DNS


async def test_a_hanging_lookup_counts_as_connect_time(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(30) and [])
    try:
        assert (await failed_request("http://slow.test/", HASTY)).reason is Reason.TIMEOUT
    finally:
        over.set()


async def test_a_refused_connection_is_a_network_failure() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        port = unheard.getsockname()[1]
        error = await failed_request(f"http://127.0.0.1:{port}/secret?token=1")
    assert error.reason is Reason.NETWORK
    assert "refused" in str(error)
    assert "token" not in str(error)


async def test_a_connection_reset_is_a_network_failure() -> None:
    async with web(reset) as site:
        assert (await failed_request(site.root + "/")).reason is Reason.NETWORK


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-", OK + b"Content-Length: 9\r\n\r\nabc"])
async def test_a_silent_server_is_a_timeout(start: bytes) -> None:
    async def script(writer: asyncio.StreamWriter) -> None:
        await respond(start)(writer)
        await hang(writer)

    async with web(script) as site:
        assert (await failed_request(site.root + "/", HASTY)).reason is Reason.TIMEOUT


async def test_an_endless_tls_handshake_is_a_timeout() -> None:
    async with web(hang) as site:
        error = await failed_request(f"https://127.0.0.1:{site.port}/", HASTY)
    assert error.reason is Reason.TIMEOUT


@pytest.mark.parametrize("over", [Limits(total_seconds=0), Limits(ends_at=NOON)])
async def test_the_client_sends_no_request_after_its_deadline(over: Limits) -> None:
    """Spec 2.3: a process that was frozen may have lost the host's lease."""
    async with web(respond(page(b"hello"))) as site, a_client() as client:

        async def ask(limits: Limits) -> Response:
            return await client.request("GET", site.root + "/", user_agent="Headwater/test", limits=limits)

        await ask(SMALL)  # opens the connection in advance
        with pytest.raises(ExchangeFailed) as caught:
            await ask(over)
        assert caught.value.reason is Reason.TIMEOUT
        await ask(SMALL)
        assert len(site.requests) == 2


async def test_the_client_sends_no_request_after_the_machine_slept_past_the_deadline() -> None:
    """Spec 2.3: the loop's time stops while the machine sleeps."""
    awake = itertools.chain([NOON], itertools.repeat(NOON + timedelta(minutes=1)))
    async with web(respond(page(b"hello"))) as site, a_client(clock=lambda: next(awake)) as client:
        limits = Limits(ends_at=NOON + timedelta(seconds=30))
        with pytest.raises(ExchangeFailed) as caught:
            await client.request("GET", site.root + "/", user_agent="Headwater/test", limits=limits)
        assert caught.value.reason is Reason.TIMEOUT
        assert site.requests == []


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nX: ", OK + b"Content-Length: 9999999\r\n\r\n"])
async def test_the_total_time_limit_ends_a_slow_body_or_header(start: bytes) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(b"H" if start else b"\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    limits = Limits(read_seconds=5, total_seconds=0.3)
    began = time.monotonic()
    async with web(drip) as site:
        assert (await failed_request(site.root + "/", limits)).reason is Reason.TIMEOUT
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 10\r\n\r\nabc",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        page(gzip.compress(b"abc" * 1000, mtime=0)[:-9], "Content-Encoding: gzip"),
        page(b"\x1f", "Content-Encoding: gzip"),
        page(zlib.compress(b"abc" * 1000)[:9], "Content-Encoding: deflate"),
    ],
    ids=["length", "in a chunk", "between chunks", "gzip", "gzip of one byte", "deflate"],
)
async def test_an_incomplete_response_is_a_network_failure(answer: bytes) -> None:
    async with web(respond(answer, close=True)) as site:
        assert (await failed_request(site.root + "/")).reason is Reason.NETWORK


@pytest.mark.parametrize(
    "answer",
    [
        b"\x00\x01\x02 not http at all\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        OK + b"Content-Length: -5\r\n\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_a_response_that_is_not_http_is_a_network_failure(answer: bytes) -> None:
    async with web(respond(answer, close=True)) as site:
        error = await failed_request(site.root + "/")
    assert error.reason is Reason.NETWORK
    assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize("line", [b"X-Header: value\r\n", b"x" * 4096], ids=["lines", "one line"])
async def test_endless_headers_are_a_network_failure(line: bytes) -> None:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        while True:
            writer.write(line)
            await writer.drain()

    async with web(script) as site:
        assert (await failed_request(site.root + "/")).reason is Reason.NETWORK
        await asyncio.wait_for(site.hung_up.wait(), 5)


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.binary(max_size=100).map(lambda tail: OK + tail)))
def test_any_bytes_give_a_response_or_an_error_of_ours(answer: bytes) -> None:
    async def scenario() -> None:
        async with web(respond(answer, close=True)) as site, a_client() as client:
            try:
                assert isinstance(await client.request("GET", site.root + "/", user_agent="x", limits=SMALL), Response)
            except ExchangeFailed as error:
                reasons.append(error.reason)

    reasons: list[Reason] = []
    asyncio.run(scenario())
    assert reasons in ([], [Reason.NETWORK], [Reason.BAD_ENCODING], [Reason.BODY_TOO_LARGE])


async def test_the_client_does_not_read_a_body_that_announces_too_many_bytes() -> None:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"Content-Length: 1048577\r\n\r\n")
        await writer.drain()

    async with web(script) as site:
        error = await failed_request(site.root + "/")
        await asyncio.wait_for(site.hung_up.wait(), 5)
    assert error.reason is Reason.BODY_TOO_LARGE


@pytest.mark.parametrize("framing", [b"\r\n", b"Transfer-Encoding: chunked\r\n\r\n"], ids=["until close", "chunked"])
async def test_the_client_stops_reading_an_endless_body_at_the_cap(framing: bytes) -> None:
    sent = 0

    async def script(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(OK + framing)
        while True:
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await writer.drain()
            sent += 65536

    async with web(script) as site:
        assert (await failed_request(site.root + "/")).reason is Reason.BODY_TOO_LARGE
        await asyncio.wait_for(site.hung_up.wait(), 5)
    assert sent < 16 * SMALL.body_bytes  # the system's buffers take some more


async def test_a_body_of_exactly_the_cap_is_accepted() -> None:
    body = b"x" * SMALL.body_bytes
    async with web(respond(page(body))) as site:
        assert (await fetch(site.root + "/")).body == body
    async with web(respond(page(gzip.compress(body, mtime=0), "Content-Encoding: gzip"))) as site:
        assert (await fetch(site.root + "/")).body == body


def gigabyte_of_zeros() -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(b"") + packer.flush(zlib.Z_SYNC_FLUSH)
    megabyte = packer.compress(bytes(1024 * 1024)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + megabyte * 1024


async def test_a_gzip_bomb_costs_little_memory_and_time_and_never_blocks_the_loop() -> None:
    bomb = page(gigabyte_of_zeros(), "Content-Encoding: gzip")
    limits = Limits(body_bytes=20 * 1024 * 1024)
    assert len(bomb) < limits.body_bytes
    async with web(respond(bomb)) as site:
        tracemalloc.start()
        began = time.process_time()
        async with watched_work() as worked:
            error = await failed_request(site.root + "/", limits)
        took = time.process_time() - began
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        await asyncio.wait_for(site.hung_up.wait(), 5)
    assert error.reason is Reason.BODY_TOO_LARGE
    assert peak < 2 * limits.body_bytes
    assert took < 2
    assert max(worked) < 0.2


def deflated(data: bytes, framing: int) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, framing)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZIP", gzip.compress),
    "gzip in two members": ("gzip", lambda data: gzip.compress(data[:7], mtime=0) + gzip.compress(data[7:], mtime=0)),
    "gzip with empty members": (
        "gzip",
        lambda data: gzip.compress(b"", mtime=0) * 2 + gzip.compress(data, mtime=0) + gzip.compress(b"", mtime=0),
    ),
    "gzip and garbage": ("gzip", lambda data: gzip.compress(data, mtime=0) + b"\x00\x00 padding"),
    "gzip and one byte": ("gzip", lambda data: gzip.compress(data, mtime=0) + b"\x1f"),
    "zlib": ("deflate", lambda data: deflated(data, 15)),
    "zlib and garbage": ("deflate", lambda data: deflated(data, 15) + b"garbage"),
    "raw deflate": ("deflate", lambda data: deflated(data, -15)),
    "identity": ("identity", bytes),
    "mislabelled": ("UTF-8", bytes),
    "identity, gzip": ("identity, gzip", gzip.compress),
}


@pytest.mark.parametrize("packing", PACKERS)
async def test_the_client_decompresses_a_body(packing: str) -> None:
    coding, pack = PACKERS[packing]
    data = b"the same words again and again " * 10_000
    async with web(respond(page(pack(data), f"Content-Encoding: {coding}"))) as site:
        response = await fetch(site.root + "/")
    assert response.body == data


async def test_an_empty_body_with_a_content_encoding_is_accepted() -> None:
    async with web(respond(page(b"", "Content-Encoding: gzip"))) as site:
        assert (await fetch(site.root + "/")).body == b""


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b"<html>plain after all</html>"),
        ("deflate", b"\xff\xff\xff\xff"),
        ("gzip", gzip.compress(b"abc" * 100, mtime=0)[:20] + b"\xff" * 20),
        ("gzip", gzip.compress(b"abc", mtime=0)[:-8] + b"wrongcrc"),
        ("gzip", gzip.compress(b"", mtime=0) * 10_001),
        ("br", b"\x0b\x02\x80abc\x03"),
        ("zstd", b"\x28\xb5\x2f\xfd"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"abc", mtime=0), mtime=0)),
    ],
)
async def test_a_body_that_cannot_be_decompressed_has_its_own_reason(coding: str, body: bytes) -> None:
    async with web(respond(page(body, f"Content-Encoding: {coding}"))) as site:
        assert (await failed_request(site.root + "/")).reason is Reason.BAD_ENCODING


@given(
    data=st.one_of(st.binary(max_size=300), st.integers(1, 300_000).map(bytes)),
    packing=st.sampled_from([name for name, (coding, _) in PACKERS.items() if coding in ("gzip", "deflate")]),
    cut=st.integers(1, 400),
)
def test_decompression_gives_the_same_bytes_in_bounded_pieces_for_any_chunks(
    data: bytes, packing: str, cut: int
) -> None:
    coding, pack = PACKERS[packing]
    packed = pack(data)
    inflater = inflater_for(coding)
    assert isinstance(inflater, Inflater)
    pieces = [p for start in range(0, len(packed), cut) for p in inflater.feed(packed[start : start + cut])]
    assert b"".join(pieces) == data
    assert inflater.complete
    assert max(map(len, pieces)) <= 65536


@given(data=st.binary(max_size=300), framing=st.sampled_from([31, 15, -15]), missing=st.integers(1, 400))
def test_a_truncated_compressed_body_is_never_complete(data: bytes, framing: int, missing: int) -> None:
    packed = deflated(data, framing)
    kept = packed[: max(1, len(packed) - missing)]
    inflater = Inflater(gzip=framing == 31)
    try:
        unpacked = b"".join(inflater.feed(kept))
    except BadEncoding:
        return
    assert kept == packed or not inflater.complete
    assert data.startswith(unpacked)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return make_certificate(tmp_path, "secure.test")


@asynccontextmanager
async def secure_web(certificate: Path) -> AsyncIterator[Web]:
    async with web(respond(page(b"secret")), ssl=serve_certificate(certificate)) as site:
        yield site


async def test_the_client_refuses_an_untrusted_certificate(certificate: Path) -> None:
    async with secure_web(certificate) as site:
        client = a_client(connect_to={"secure.test": ("127.0.0.1", site.port)})
        error = await failed_request("https://secure.test/", client=client)
    assert error.reason is Reason.CERTIFICATE
    assert "self-signed" in str(error)
    assert site.requests == []


async def test_a_trusted_certificate_is_valid_only_for_its_own_name(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(certificate, monkeypatch)
    async with secure_web(certificate) as site:
        here = ("127.0.0.1", site.port)
        async with a_client(connect_to={"secure.test": here, "other.test": here}) as client:
            assert (await client.request("GET", "https://secure.test/", user_agent="x", limits=SMALL)).body == b"secret"
            with pytest.raises(ExchangeFailed, match="mismatch"):
                await client.request("GET", "https://other.test/", user_agent="x", limits=SMALL)


async def test_a_server_without_tls_is_a_network_failure() -> None:
    async with web(respond(page(b""))) as site:
        assert (await failed_request(f"https://127.0.0.1:{site.port}/", HASTY)).reason in (
            Reason.NETWORK,
            Reason.TIMEOUT,
        )


def all_subclasses(base: type[Exception]) -> set[type[Exception]]:
    return {base}.union(*(all_subclasses(child) for child in base.__subclasses__()))


def raised(kind: type[Exception]) -> Exception:
    """Make an error of a class; the constructors take different arguments."""
    key = ConnectionKey("news.test", 80, False, True, None, None, None)
    cause = OSError(5, "Input/output error")
    for arguments in [
        (104, "Connection reset"),
        (key, cause),
        ("/path", key, cause),
        (None, ()),
        (b"a", b"b", "news.test", 80),
        ("http://x",),
    ]:
        try:
            return kind(*arguments)
        except (TypeError, AttributeError):
            continue
    return kind()


@pytest.mark.parametrize("kind", sorted(all_subclasses(aiohttp.ClientError), key=lambda kind: kind.__name__))
def test_every_aiohttp_error_has_a_reason(kind: type[Exception]) -> None:
    mapped = map_error(raised(kind), "http://news.test/")
    assert isinstance(mapped, ExchangeFailed | InvalidURL)
    assert mapped.reason is not Reason.INTERNAL
    assert mapped.url == "http://news.test/"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), Reason.TIMEOUT),
        (ConnectionResetError(104, "Connection reset by peer"), Reason.NETWORK),
        (ssl.SSLError(1, "handshake map_error"), Reason.NETWORK),
        (AddressRefused("10.0.0.1 is a private or reserved address"), Reason.ADDRESS_REFUSED),
        (RuntimeError("a fault of ours"), Reason.INTERNAL),
    ],
)
def test_every_system_error_has_a_reason(error: Exception, reason: Reason) -> None:
    assert map_error(error, "http://me:secret@news.test:8080/a?key=b").reason is reason
    assert str(map_error(error, "http://me:secret@news.test:8080/a?key=b")).startswith("news.test:8080: ")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "news.test",
        "ftp://news.test/",
        "file:///etc/passwd",
        "http://",
        "http:///x",
        "http://a:99999/",
        "http://[::1/",
    ],
)
async def test_an_unusable_url_raises_invalid_url(url: str) -> None:
    async with a_client() as client:
        with pytest.raises(InvalidURL):
            await client.request("GET", url, user_agent="x")


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_any_text_as_url_raises_only_errors_of_ours(text: str) -> None:
    async def scenario() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
            async with a_client(AddressGuard()) as client:
                with pytest.raises(HeadwaterError):
                    await client.request("GET", "http://" + text, user_agent="x", limits=HASTY)

    asyncio.run(scenario())


@pytest.mark.parametrize("status", ["100 Continue", "103 Early Hints"])
async def test_a_response_after_a_few_interim_answers_is_read(status: str) -> None:
    """Spec 4.3."""
    interim = f"HTTP/1.1 {status}\r\nLink: </style.css>; rel=preload\r\n\r\n".encode()
    async with web(respond(interim * 5 + page(b"at last"))) as site, a_client() as client:
        for _ in range(3):
            assert (await client.request("GET", site.root + "/", user_agent="x", limits=SMALL)).body == b"at last"
    assert site.connections == 1


@pytest.mark.parametrize("status", ["100 Continue", "103 Early Hints"])
async def test_endless_interim_answers_end_with_a_reason(status: str) -> None:
    """Spec 4.3: the number of interim answers has a cap, long before the time is over."""
    interim = f"HTTP/1.1 {status}\r\n\r\n".encode()

    async def answer_forever(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(interim)
            await writer.drain()

    async with web(answer_forever) as site:
        began = time.monotonic()
        assert (await failed_request(site.root + "/")).reason is Reason.NETWORK
    assert time.monotonic() - began < SMALL.total_seconds
    assert site.connections == 1
