"""Spec 4.3: caps on body, header and time, and the guard at connect time; 2.3: when a request was sent."""

import asyncio
import gzip
import itertools
import select
import shutil
import socket
import ssl
import struct
import subprocess
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
from headwater.http.decode import inflater_for
from headwater.http.guard import AddressGuard, AddressRefused
from headwater.http.http_errors import failure
from tests.loop_work import watched_work

LOOPBACK = AddressGuard([ip_network("127.0.0.0/8"), ip_network("::1/128")])
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SMALL = Limits(connect_seconds=2, read_seconds=2, total_seconds=5, body_bytes=1024 * 1024)
HASTY = Limits(connect_seconds=0.2, read_seconds=0.2, total_seconds=5, body_bytes=1024 * 1024)
OK = b"HTTP/1.1 200 OK\r\n"

Script = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Web:
    """A server on loopback that answers by script and remembers what it was asked."""

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


def says(answer: bytes, *, close: bool = False) -> Script:
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


async def visit(url: str, limits: Limits = SMALL, **headers: str) -> Response:
    async with a_client() as client:
        return await client.get(url, user_agent="Headwater/test", headers=headers, limits=limits)


async def refusal(url: str, limits: Limits = SMALL, client: HttpClient | None = None) -> ExchangeFailed:
    async with client or a_client() as opened:
        with pytest.raises(ExchangeFailed) as caught:
            await opened.get(url, user_agent="Headwater/test", limits=limits)
    assert caught.value.url == url
    return caught.value


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str] | Exception]:
    """The outside world's name servers: fill in what they answer."""
    table: dict[str, list[str] | Exception] = {}

    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        answer = table[host]
        if isinstance(answer, Exception):
            raise answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return table


def test_what_is_encrypted_or_led_by_an_operator_is_confidential() -> None:
    """Spec 1.4: a key is sent nowhere else."""
    asked = a_client(connect_to={"api.demo.test": ("127.0.0.1", 80)})
    assert asked.is_confidential("https://api.example.org/a")
    assert asked.is_confidential("http://api.demo.test/a")
    assert not asked.is_confidential("http://api.example.org/a")


async def test_an_answer_has_its_status_headers_body_and_times() -> None:
    async with web(says(page(b"hello", "X-One: a", "x-one: b", 'ETag: W/"7"'))) as site:
        response = await visit(site.root + "/")
    assert (response.url, response.status, response.body) == (site.root + "/", 200, b"hello")
    assert response.headers == {"content-length": "5", "x-one": "a, b", "etag": 'W/"7"'}
    assert response.sent_at == NOON
    assert 0 < response.elapsed_seconds < 5


@pytest.mark.parametrize("status", ["301 Moved", "404 Not Found", "429 Slow", "500 Oh", "599 Odd", "999 Odder"])
async def test_any_status_is_an_answer_and_no_redirect_is_followed(status: str) -> None:
    async with web(says(page(b"x", "Location: /elsewhere", status=status))) as site:
        response = await visit(site.root + "/")
    assert (response.status, response.headers["location"]) == (int(status[:3]), "/elsewhere")
    assert len(site.requests) == 1


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_a_status_without_a_body_ends_at_its_headers_whatever_they_announce(status: str) -> None:
    answer = f"HTTP/1.1 {status}\r\nContent-Length: 99999999\r\nContent-Encoding: gzip\r\n\r\n".encode()
    async with web(says(answer)) as site:
        response = await visit(site.root + "/")
    assert (response.status, response.body) == (int(status[:3]), b"")


async def test_interim_answers_are_skipped() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with web(says(interim + page(b"final"))) as site:
        assert (await visit(site.root + "/")).body == b"final"


async def test_an_unasked_protocol_switch_is_an_answer_and_ends_the_connection() -> None:
    async with web(says(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nxyz")) as site:
        assert (await visit(site.root + "/")).status == 101
        await asyncio.wait_for(site.hung_up.wait(), 5)


async def test_a_body_without_length_ends_with_its_connection() -> None:
    async with web(says(b"HTTP/1.0 200 OK\r\n\r\nuntil the end", close=True)) as site:
        assert (await visit(site.root + "/")).body == b"until the end"


async def test_a_chunked_body_is_joined() -> None:
    async with web(
        says(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n")
    ) as site:
        assert (await visit(site.root + "/")).body == b"abcde"


async def test_odd_bytes_in_headers_neither_fail_nor_stay() -> None:
    async with web(says(page(b"", "X-Utf: caf\u00e9").replace(b"\r\n\r\n", b"\r\nX-Latin: caf\xe9\r\n\r\n"))) as site:
        headers = (await visit(site.root + "/")).headers
    assert headers["x-utf"] == headers["x-latin"] == "café"


@pytest.mark.skipif(sys.flags.dev_mode, reason="aiohttp refuses such headers in development mode")
async def test_whatever_etag_a_server_sends_can_be_sent_back() -> None:
    answer = OK + b'ETag: "a\x01b\xff\x7f"\r\nContent-Length: 0\r\n\r\n'
    async with web(says(answer)) as site:
        etag = (await visit(site.root + "/")).headers["etag"]
        await visit(site.root + "/", **{"If-None-Match": etag})
    assert b"If-None-Match: " + etag.encode() in site.requests[1]


@pytest.mark.parametrize(
    "target",
    ["/", "/a%2Fb%2fc/%7e/%E2%82%AC;v=1?q=%20+x%26y&c=[]|&c=&%c3", "//double//slash/", "/a/%2e%2e/b", "/?a=b?c"],
)
async def test_the_path_goes_out_as_it_was_given(target: str) -> None:
    async with web(says(page(b""))) as site:
        await visit(site.root + target + "#fragment")
    assert site.requests[0].split(b"\r\n")[0] == f"GET {target} HTTP/1.1".encode()


async def test_a_request_says_who_asks_and_what_it_can_read() -> None:
    async with web(says(page(b""))) as site:
        await visit(site.root + "/", Accept="application/rss+xml")
    lines = site.requests[0].split(b"\r\n")
    assert b"User-Agent: Headwater/test" in lines
    assert b"Accept: application/rss+xml" in lines
    assert b"Accept-Encoding: gzip, deflate" in lines
    assert f"Host: 127.0.0.1:{site.port}".encode() in lines


async def test_cookies_proxies_and_netrc_of_the_machine_play_no_part(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with web(says(page(b"", "Set-Cookie: track=me; Path=/"))) as site, a_client() as client:
        for _ in range(2):
            await client.get(site.root + "/", user_agent="x", limits=SMALL)
    assert not any(word in request.lower() for request in site.requests for word in (b"cookie", b"authorization"))


async def test_the_sending_time_is_taken_after_connecting_and_before_the_server_hears_of_it(
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
        await client.get(f"http://news.test:{site.port}/", user_agent="x", limits=SMALL)
    assert events == ["connecting", "connecting", "sent", "heard"]


async def test_the_sending_time_is_no_sooner_than_the_request_has_left() -> None:
    """Spec 2.3: on a busy machine much time may pass between being about to send and having sent."""
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
            assert (await client.get(url, user_agent="x", limits=SMALL)).sent_at == NOON
    assert has_arrived == [True]


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n"])
async def test_a_broken_visit_is_not_repeated_by_itself(answer: bytes) -> None:
    """Spec 2.3."""
    async with web(says(answer, close=True)) as site:
        assert (await refusal(site.root + "/")).reason is Reason.NETWORK
    assert len(site.requests) == site.connections == 1


def answers_then(ending: Script) -> Script:
    """Answer the first request of two, and let the second, which comes on the same connection, end so."""
    turns = iter((says(page(b"first")), ending))
    later = says(page(b"second"))
    return lambda writer: next(turns, later)(writer)


async def test_a_request_that_meets_the_end_of_a_kept_connection_is_sent_on_another() -> None:
    """Spec 4.2: its server has waited long enough for the next one, and nobody is to blame."""
    async with web(answers_then(says(b"", close=True))) as site, a_client() as client:
        for body in (b"first", b"second"):
            assert (await client.get(site.root + "/", user_agent="x", limits=SMALL)).body == body
    assert site.connections == 2


async def test_a_visit_that_is_broken_off_on_a_kept_connection_is_not_repeated() -> None:
    """Spec 2.3."""
    async with web(answers_then(reset)) as site, a_client() as client:
        await client.get(site.root + "/", user_agent="x", limits=SMALL)
        with pytest.raises(ExchangeFailed):
            await client.get(site.root + "/", user_agent="x", limits=SMALL)
    assert len(site.requests) == 2
    assert site.connections == 1


async def test_what_is_sent_to_be_kept_is_sent_once() -> None:
    """Spec 4.4: a receiver may have taken it."""
    async with web(answers_then(says(b"", close=True))) as site, a_client() as client:
        await client.get(site.root + "/", user_agent="x", limits=SMALL)
        with pytest.raises(ExchangeFailed):
            await client.post(site.root + "/", b"", user_agent="x", headers={}, limits=SMALL)
    assert site.connections == 1


async def test_a_connection_is_used_again_unless_its_answer_broke_off() -> None:
    async with web(says(page(b"x" * 8_000_000))) as site, a_client() as client:
        await client.get(site.root + "/", user_agent="x")
        await client.get(site.root + "/", user_agent="x")
        assert site.connections == 1
        with pytest.raises(ExchangeFailed):
            await client.get(site.root + "/", user_agent="x", limits=SMALL)
        await client.get(site.root + "/", user_agent="x")
        assert site.connections == 2


async def test_no_more_connections_than_allowed_are_open_and_waiting_for_one_is_not_a_timeout() -> None:
    busy, most = 0, 0

    async def script(writer: asyncio.StreamWriter) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.1)
        busy -= 1
        writer.write(page(b""))

    limits = Limits(connect_seconds=0.9, read_seconds=5, total_seconds=5)
    async with web(script) as site, a_client(max_connections=2) as client:
        visits = [client.get(site.root + "/", user_agent="x", limits=limits) for _ in range(22)]
        assert {response.status for response in await asyncio.gather(*visits)} == {200}
    assert most == 2


async def test_a_fixed_address_stands_in_for_a_host_while_its_name_stays(
    names: dict[str, list[str] | Exception],
) -> None:
    async with web(says(page(b""))) as site:
        here = ("127.0.0.1", site.port)
        async with a_client(connect_to={"news.demo.test": here, "*.wild.test": here}) as client:
            for host in ("news.demo.test", "a.wild.test", "a.b.wild.test"):
                response = await client.get(f"http://{host}/x", user_agent="x", limits=SMALL)
                assert response.url == f"http://{host}/x"
                assert f"Host: {host}\r\n".encode() in site.requests[-1]
            names["wild.test"] = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            with pytest.raises(ExchangeFailed, match=r"wild\.test"):
                await client.get("http://wild.test/", user_agent="x", limits=SMALL)


async def test_a_fixed_address_is_guarded_too() -> None:
    async with web(says(page(b""))) as site:
        client = a_client(AddressGuard(), connect_to={"news.demo.test": ("127.0.0.1", site.port)})
        assert (await refusal("http://news.demo.test/", client=client)).reason is Reason.ADDRESS_REFUSED
    assert site.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "[64:ff9b::7f00:1]"])
async def test_an_address_in_place_of_a_name_is_guarded(host: str) -> None:
    async with web(says(page(b"")), host="") as site:
        error = await refusal(f"http://{host}:{site.port}/", client=a_client(AddressGuard()))
    assert error.reason is Reason.ADDRESS_REFUSED
    assert "private or reserved" in str(error)
    assert site.connections == 0


async def test_a_name_that_leads_to_refused_addresses_only_is_refused(names: dict[str, list[str] | Exception]) -> None:
    names["inside.test"] = ["127.0.0.1", "10.0.0.1"]
    async with web(says(page(b""))) as site:
        error = await refusal(f"http://inside.test:{site.port}/", client=a_client(AddressGuard()))
    assert error.reason is Reason.ADDRESS_REFUSED
    assert str(error).startswith(f"inside.test:{site.port}: ")
    assert site.connections == 0


async def test_of_mixed_addresses_only_the_allowed_ones_are_tried(names: dict[str, list[str] | Exception]) -> None:
    names["mixed.test"] = ["127.0.0.1", "127.0.0.2"]
    guard = AddressGuard([ip_network("127.0.0.2/32")])
    async with web(says(page(b"")), host="127.0.0.2") as site, a_client(guard) as client:
        assert (await client.get(f"http://mixed.test:{site.port}/", user_agent="x", limits=SMALL)).status == 200


async def test_a_name_that_changes_its_address_after_the_check_gains_nothing(
    names: dict[str, list[str] | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: Iterator[str] = iter(["127.0.0.2", *["127.0.0.1"] * 9])

    def rebinding(_host: str, port: int, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    client = a_client(AddressGuard([ip_network("127.0.0.2/32")]))
    async with web(says(page(b""))) as site:
        assert (await refusal(f"http://rebinding.test:{site.port}/", client=client)).reason is Reason.NETWORK
    assert site.connections == 0
    assert next(answers) == "127.0.0.1"


async def test_a_name_that_cannot_be_resolved_is_a_dns_failure(names: dict[str, list[str] | Exception]) -> None:
    names["nowhere.test"] = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    error = await refusal("http://nowhere.test/")
    assert error.reason is Reason.DNS
    assert str(error) == "nowhere.test: the name could not be resolved (Name or service not known)"


async def test_a_name_without_addresses_is_a_dns_failure(names: dict[str, list[str] | Exception]) -> None:
    names["empty.test"] = []
    assert (await refusal("http://empty.test/")).reason is Reason.DNS


async def test_a_name_no_server_could_hold_is_a_dns_failure() -> None:
    assert (await refusal(f"http://{'a' * 64}.test/")).reason is Reason.DNS


async def test_a_lookup_that_hangs_counts_as_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(30) and [])
    try:
        assert (await refusal("http://slow.test/", HASTY)).reason is Reason.TIMEOUT
    finally:
        over.set()


async def test_nobody_listening_is_a_network_failure() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        port = unheard.getsockname()[1]
        error = await refusal(f"http://127.0.0.1:{port}/secret?token=1")
    assert error.reason is Reason.NETWORK
    assert "refused" in str(error)
    assert "token" not in str(error)


async def test_a_reset_is_a_network_failure() -> None:
    async with web(reset) as site:
        assert (await refusal(site.root + "/")).reason is Reason.NETWORK


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-", OK + b"Content-Length: 9\r\n\r\nabc"])
async def test_a_server_that_falls_silent_is_a_timeout(start: bytes) -> None:
    async def script(writer: asyncio.StreamWriter) -> None:
        await says(start)(writer)
        await hang(writer)

    async with web(script) as site:
        assert (await refusal(site.root + "/", HASTY)).reason is Reason.TIMEOUT


async def test_a_handshake_that_never_ends_is_a_timeout() -> None:
    async with web(hang) as site:
        error = await refusal(f"https://127.0.0.1:{site.port}/", HASTY)
    assert error.reason is Reason.TIMEOUT


@pytest.mark.parametrize("over", [Limits(total_seconds=0), Limits(ends_at=NOON)])
async def test_a_request_whose_time_is_up_before_it_leaves_is_not_sent(over: Limits) -> None:
    """Spec 2.3: a program that was frozen meanwhile may no longer hold the host."""
    async with web(says(page(b"hello"))) as site, a_client() as client:

        async def ask(limits: Limits) -> Response:
            return await client.get(site.root + "/", user_agent="Headwater/test", limits=limits)

        await ask(SMALL)  # so that there is a connection, and nothing more to wait for
        with pytest.raises(ExchangeFailed) as caught:
            await ask(over)
        assert caught.value.reason is Reason.TIMEOUT
        await ask(SMALL)
        assert len(site.requests) == 2


async def test_a_request_is_not_sent_when_the_machine_has_slept_past_its_end() -> None:
    """Spec 2.3: a loop's time stands still meanwhile."""
    awake = itertools.chain([NOON], itertools.repeat(NOON + timedelta(minutes=1)))
    async with web(says(page(b"hello"))) as site, a_client(clock=lambda: next(awake)) as client:
        limits = Limits(ends_at=NOON + timedelta(seconds=30))
        with pytest.raises(ExchangeFailed) as caught:
            await client.get(site.root + "/", user_agent="Headwater/test", limits=limits)
        assert caught.value.reason is Reason.TIMEOUT
        assert site.requests == []


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nX: ", OK + b"Content-Length: 9999999\r\n\r\n"])
async def test_a_body_or_header_that_drips_is_ended_by_the_total_time(start: bytes) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(b"H" if start else b"\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    limits = Limits(read_seconds=5, total_seconds=0.3)
    began = time.monotonic()
    async with web(drip) as site:
        assert (await refusal(site.root + "/", limits)).reason is Reason.TIMEOUT
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
async def test_an_answer_that_breaks_off_is_a_network_failure(answer: bytes) -> None:
    async with web(says(answer, close=True)) as site:
        assert (await refusal(site.root + "/")).reason is Reason.NETWORK


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
async def test_what_is_not_http_is_a_network_failure(answer: bytes) -> None:
    async with web(says(answer, close=True)) as site:
        error = await refusal(site.root + "/")
    assert error.reason is Reason.NETWORK
    assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize("line", [b"X-Header: value\r\n", b"x" * 4096], ids=["lines", "one line"])
async def test_headers_without_end_are_cut_off(line: bytes) -> None:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        while True:
            writer.write(line)
            await writer.drain()

    async with web(script) as site:
        assert (await refusal(site.root + "/")).reason is Reason.NETWORK
        await asyncio.wait_for(site.hung_up.wait(), 5)


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.binary(max_size=100).map(lambda tail: OK + tail)))
def test_whatever_bytes_come_there_is_an_answer_or_a_failure_of_ours(answer: bytes) -> None:
    async def scenario() -> None:
        async with web(says(answer, close=True)) as site, a_client() as client:
            try:
                assert isinstance(await client.get(site.root + "/", user_agent="x", limits=SMALL), Response)
            except ExchangeFailed as error:
                reasons.append(error.reason)

    reasons: list[Reason] = []
    asyncio.run(scenario())
    assert reasons in ([], [Reason.NETWORK], [Reason.BAD_ENCODING], [Reason.BODY_TOO_LARGE])


async def test_an_announced_body_over_the_cap_is_not_read() -> None:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"Content-Length: 1048577\r\n\r\n")
        await writer.drain()

    async with web(script) as site:
        error = await refusal(site.root + "/")
        await asyncio.wait_for(site.hung_up.wait(), 5)
    assert error.reason is Reason.BODY_TOO_LARGE
    assert str(error).endswith(": the body is over 1 MB; the setting max_body_mb allows no more.")


@pytest.mark.parametrize("framing", [b"\r\n", b"Transfer-Encoding: chunked\r\n\r\n"], ids=["until close", "chunked"])
async def test_a_body_without_end_is_cut_off_at_the_cap(framing: bytes) -> None:
    sent = 0

    async def script(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(OK + framing)
        while True:
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await writer.drain()
            sent += 65536

    async with web(script) as site:
        assert (await refusal(site.root + "/")).reason is Reason.BODY_TOO_LARGE
        await asyncio.wait_for(site.hung_up.wait(), 5)
    assert sent < 16 * SMALL.body_bytes  # what fits into the system's buffers is sent all the same


async def test_a_body_of_exactly_the_cap_is_taken() -> None:
    body = b"x" * SMALL.body_bytes
    async with web(says(page(body))) as site:
        assert (await visit(site.root + "/")).body == body
    async with web(says(page(gzip.compress(body, mtime=0), "Content-Encoding: gzip"))) as site:
        assert (await visit(site.root + "/")).body == body


def gigabyte_of_zeros() -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(b"") + packer.flush(zlib.Z_SYNC_FLUSH)
    megabyte = packer.compress(bytes(1024 * 1024)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + megabyte * 1024


async def test_a_gigabyte_packed_small_takes_little_memory_and_time_and_leaves_the_loop_free() -> None:
    bomb = page(gigabyte_of_zeros(), "Content-Encoding: gzip")
    limits = Limits(body_bytes=20 * 1024 * 1024)
    assert len(bomb) < limits.body_bytes
    async with web(says(bomb)) as site:
        tracemalloc.start()
        began = time.process_time()
        async with watched_work() as worked:
            error = await refusal(site.root + "/", limits)
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
async def test_a_compressed_body_is_unpacked(packing: str) -> None:
    coding, pack = PACKERS[packing]
    data = b"the same words again and again " * 10_000
    async with web(says(page(pack(data), f"Content-Encoding: {coding}"))) as site:
        response = await visit(site.root + "/")
    assert response.body == data


async def test_an_empty_body_may_claim_to_be_compressed() -> None:
    async with web(says(page(b"", "Content-Encoding: gzip"))) as site:
        assert (await visit(site.root + "/")).body == b""


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
async def test_a_body_that_cannot_be_unpacked_is_said_to_be_so(coding: str, body: bytes) -> None:
    async with web(says(page(body, f"Content-Encoding: {coding}"))) as site:
        assert (await refusal(site.root + "/")).reason is Reason.BAD_ENCODING


@given(
    data=st.one_of(st.binary(max_size=300), st.integers(1, 300_000).map(bytes)),
    packing=st.sampled_from([name for name, (coding, _) in PACKERS.items() if coding in ("gzip", "deflate")]),
    cut=st.integers(1, 400),
)
def test_unpacking_gives_the_same_bytes_in_bounded_pieces_however_they_arrive(
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
def test_a_compressed_body_cut_short_is_never_complete(data: bytes, framing: int, missing: int) -> None:
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
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    pem = tmp_path / "site.pem"
    subject = ["-subj", "/CN=secure.test", "-addext", "subjectAltName=DNS:secure.test"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", pem, "-out", tmp_path / "cert.pem"], check=True, capture_output=True)
    with pem.open("ab") as file:
        file.write((tmp_path / "cert.pem").read_bytes())
    return pem


@asynccontextmanager
async def secure_web(certificate: Path) -> AsyncIterator[Web]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    async with web(says(page(b"secret")), ssl=context) as site:
        yield site


async def test_a_certificate_nobody_vouches_for_is_refused(certificate: Path) -> None:
    async with secure_web(certificate) as site:
        client = a_client(connect_to={"secure.test": ("127.0.0.1", site.port)})
        error = await refusal("https://secure.test/", client=client)
    assert error.reason is Reason.NETWORK
    assert "certificate" in str(error)
    assert site.requests == []


async def test_a_trusted_certificate_serves_its_own_name_only(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)
    async with secure_web(certificate) as site:
        here = ("127.0.0.1", site.port)
        async with a_client(connect_to={"secure.test": here, "other.test": here}) as client:
            assert (await client.get("https://secure.test/", user_agent="x", limits=SMALL)).body == b"secret"
            with pytest.raises(ExchangeFailed, match="certificate"):
                await client.get("https://other.test/", user_agent="x", limits=SMALL)


async def test_a_server_that_does_not_speak_tls_is_a_network_failure() -> None:
    async with web(says(page(b""))) as site:
        assert (await refusal(f"https://127.0.0.1:{site.port}/", HASTY)).reason in (Reason.NETWORK, Reason.TIMEOUT)


def all_subclasses(base: type[Exception]) -> set[type[Exception]]:
    return {base}.union(*(all_subclasses(child) for child in base.__subclasses__()))


def raised(kind: type[Exception]) -> Exception:
    """Make one of a kind, whatever its constructor asks for."""
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
def test_every_error_of_the_library_below_has_a_reason_of_ours(kind: type[Exception]) -> None:
    mapped = failure(raised(kind), "http://news.test/")
    assert isinstance(mapped, ExchangeFailed | InvalidURL)
    assert mapped.reason is not Reason.INTERNAL
    assert mapped.url == "http://news.test/"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), Reason.TIMEOUT),
        (ConnectionResetError(104, "Connection reset by peer"), Reason.NETWORK),
        (ssl.SSLError(1, "handshake failure"), Reason.NETWORK),
        (AddressRefused("10.0.0.1 is a private or reserved address"), Reason.ADDRESS_REFUSED),
        (RuntimeError("a fault of ours"), Reason.INTERNAL),
    ],
)
def test_every_other_error_has_a_reason_too(error: Exception, reason: Reason) -> None:
    assert failure(error, "http://me:secret@news.test:8080/a?key=b").reason is reason
    assert str(failure(error, "http://me:secret@news.test:8080/a?key=b")).startswith("news.test:8080: ")


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
async def test_an_address_that_cannot_be_used_is_an_invalid_url(url: str) -> None:
    async with a_client() as client:
        with pytest.raises(InvalidURL):
            await client.get(url, user_agent="x")


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_whatever_address_is_given_only_errors_of_ours_come_back(text: str) -> None:
    async def scenario() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
            async with a_client(AddressGuard()) as client:
                with pytest.raises(HeadwaterError):
                    await client.get("http://" + text, user_agent="x", limits=HASTY)

    asyncio.run(scenario())


async def test_a_cancelled_visit_is_cancelled_and_gives_its_place_back() -> None:
    asked = asyncio.Event()

    async def script(writer: asyncio.StreamWriter) -> None:
        if not asked.is_set():
            asked.set()
            await hang(writer)
        await says(page(b"next"))(writer)

    async with web(script) as site, a_client(max_connections=1) as client:
        visiting = asyncio.create_task(client.get(site.root + "/", user_agent="x", limits=SMALL))
        await asyncio.wait_for(asked.wait(), 5)
        visiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await visiting
        assert (await client.get(site.root + "/", user_agent="x", limits=SMALL)).body == b"next"
