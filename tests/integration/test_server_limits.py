"""Limits of the web server: slow clients and many connections (issue 21)."""

import asyncio
import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest

from headwater.app import server
from headwater.core.settings import Settings
from tests.api import TOKEN, Api, open_api
from tests.program import PROGRAM, address_of, environment, forked, wait_until

REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
HALF_OPEN = 3000
FEW_FILES = 256
BODY = b'{"urls": ["http://news.test/"]}'
SUBMIT = (
    f"POST /frontier/urls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
).encode()


@pytest.fixture
def api_settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(api_token=TOKEN)


@contextlib.contextmanager
def half_open(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Open connections that send the half of a request."""
    opened = []
    try:
        for _ in range(count):
            opened.append(socket.create_connection(("127.0.0.1", port), timeout=5))
            with contextlib.suppress(OSError):  # the server may have closed it to make room
                opened[-1].send(REQUEST)
        yield opened
    finally:
        for connection in opened:
            connection.close()


def time_health(port: int) -> float:
    """Ask /health on a new connection, and return the seconds until its answer."""
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(REQUEST + b"Connection: close\r\n\r\n")
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
    return time.perf_counter() - began


def test_3000_half_open_connections_leave_health_under_100_ms_and_the_log_short(
    tmp_path: Path, make_settings: Callable[..., Settings]
) -> None:
    """Issue 21."""
    settings = make_settings()
    program = forked("up", cwd=tmp_path, data_dir=settings.data_dir, database_url=settings.database_url, listen_port=0)
    with program:
        port = int(address_of(program).rpartition(":")[2])
        wait_until(lambda: time_health(port) < 0.1)
        files = Path(f"/proc/{program.pid}/fd")
        before = len(list(files.iterdir()))
        with half_open(port, HALF_OPEN):
            slowest = sorted(time_health(port) for _ in range(20))
            assert slowest[-2] < 0.1, slowest
            assert len(list(files.iterdir())) - before < 600
        program.send_signal(signal.SIGTERM)
        _, log = program.communicate()
    assert log.count("\n") < 100, log[:2000]


def test_connections_leave_three_quarters_of_the_descriptors_for_our_own_work(
    tmp_path: Path, make_settings: Callable[..., Settings]
) -> None:
    """Issue 21."""
    settings = make_settings()
    given = environment(data_dir=settings.data_dir, database_url=settings.database_url, listen_port=0)
    limited = ["sh", "-c", f'ulimit -n {FEW_FILES}; exec "$@"', "-", *PROGRAM, "up"]
    with subprocess.Popen(limited, cwd=tmp_path, env=given, text=True, stdout=PIPE, stderr=PIPE) as program:
        try:
            port = int(address_of(program).rpartition(":")[2])
            with half_open(port, 2 * FEW_FILES):
                wait_until(lambda: time_health(port) < 1)
                accepted = [
                    one
                    for one in psutil.Process(program.pid).net_connections("tcp")
                    if one.status == psutil.CONN_ESTABLISHED and one.laddr.port == port
                ]
            assert 0 < len(accepted) <= FEW_FILES // 4
        finally:
            program.send_signal(signal.SIGTERM)
            _, log = program.communicate()
    assert "open files" not in log


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Wait until the server closes a connection. Return whether it answered nothing."""
    try:
        return await asyncio.wait_for(reader.read(), 10) == b""
    except ConnectionResetError:
        return True


@contextlib.asynccontextmanager
async def connect(api: Api, data: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.base.rpartition(":")[2]), limit=1024)
    writer.write(data)
    yield reader, writer
    writer.transport.abort()


async def test_headers_that_take_too_long_end_the_connection(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if they come byte by byte, and after another request."""
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.3)
    whole = REQUEST + b"\r\n"
    for first in (b"", b"G", REQUEST, whole, whole + b"GET"):
        async with connect(api, first) as (reader, writer):
            if first.startswith(whole):
                assert b"200" in await reader.readline()
            began = time.monotonic()
            with contextlib.suppress(ConnectionResetError):
                while not reader.at_eof() and time.monotonic() - began < 10:
                    writer.write(b"X")
                    await writer.drain()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1000), 0.05)
            assert time.monotonic() - began < 5


async def test_a_body_that_takes_too_long_ends_the_connection(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", 0.2)
    async with connect(api, SUBMIT + b"{") as (reader, _):
        assert await is_closed(reader)
    assert (await api.get("/health"))[0] == 200


async def test_the_limit_of_headers_ends_with_the_headers_of_a_request_that_was_sent_early(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.2)
    async with connect(api, REQUEST + b"\r\n" + SUBMIT) as (reader, writer):
        assert b"200" in await reader.readline()
        async with connect(api, b"") as (later, _):
            assert await is_closed(later)  # the limit has passed
        writer.write(BODY)
        answers = await reader.readuntil(b'"has_fetcher"')
        assert answers.count(b"HTTP/1.1 200") == 1


async def test_a_client_that_does_not_read_its_answer_is_disconnected(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "WRITE_SECONDS", 0.2)
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with connect(api, b"") as (reader, writer):
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.suppress(ConnectionResetError, TimeoutError):
            async with asyncio.timeout(10):
                while not writer.transport.is_closing():
                    writer.write(asked)
                    await writer.drain()
                    await asyncio.sleep(0)
        assert writer.transport.is_closing()


async def test_a_connection_that_works_is_not_closed_to_make_room(
    api_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection that has waited longest without a request is closed."""
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 3)
    async with open_api(api_settings) as api, contextlib.AsyncExitStack() as stack:
        working, to_working = await stack.enter_async_context(connect(api, SUBMIT))
        oldest, _ = await stack.enter_async_context(connect(api, REQUEST))
        newer, to_newer = await stack.enter_async_context(connect(api, REQUEST))
        await stack.enter_async_context(connect(api, REQUEST))
        assert await is_closed(oldest)
        to_newer.write(b"\r\n")
        assert b"200" in await newer.readline()
        to_working.write(BODY)
        assert b"200" in await working.readline()


def test_answers_on_a_kept_connection_are_sent_at_once(make_settings: Callable[..., Settings]) -> None:
    """Without TCP_NODELAY, which asyncio sets by the protocol of a socket, each answer waits 40 ms for an ACK."""
    listener = server.listen(make_settings())
    with (
        listener,
        socket.create_connection(listener.getsockname()),
        contextlib.closing(listener.accept()[0]) as accepted,
    ):
        assert accepted.proto == socket.IPPROTO_TCP
