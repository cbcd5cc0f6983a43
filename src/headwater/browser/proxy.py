"""The browser's only way out: a proxy on loopback that lets through what was admitted, and nothing else.

What is admitted is a host of a scheme, for as long as the request to it is under way. Bytes pass only then, so that a
connection that is kept open is of no use to whoever was not asked for. It speaks just enough HTTP for that: GET of
`http://` addresses, one a connection, and CONNECT for `https://`.
"""

import asyncio
import contextlib
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import filterfalse
from typing import Any
from urllib.parse import urlsplit

import structlog

from headwater.core.http import AdmittedRequest
from headwater.http.client import GuardedResolver

log = structlog.get_logger()

Endpoint = tuple[str, str, int]  # scheme, host, port
_PORTS = {"http": 80, "https": 443}
_LOOPBACK = "127.0.0.1"
_CHUNK = 64 * 1024
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r]*\bchunked\b")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*(?:\r|$)")
_NO_BODY = re.compile(rb"http/1\.[01] (?:1\d\d|204|304)\b")
_LAST_CHUNK = b"0\r\n\r\n"
_FOR_THE_PROXY = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})


@dataclass(frozen=True, slots=True)
class ProxyCaps:
    """How much one proxy carries: connections at once, the life of each, and what one request may take and bring.

    Nobody can look into a tunnel, but whoever asks for one thing needs few connections and has little to say.
    """

    connections: int = 32
    connection_seconds: float = 120.0
    request_connections: int = 4
    request_words: int = 64
    request_bytes: int = 32 * 1024 * 1024


class TooMuchCame(OSError):
    """More bytes came for one request than are taken."""


class TooMuchAsked(OSError):
    """The browser asked for more than the one request that was let out."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a connection is for: where to, and what is said there first; None: a tunnel, the browser speaks itself."""

    endpoint: Endpoint
    opening: bytes | None


class Proxy:
    """Listens between `open` and `close`; `admit` says where to, and for how long."""

    def __init__(self, resolver: GuardedResolver, clock: Callable[[], datetime], caps: ProxyCaps) -> None:
        self._resolver = resolver
        self._clock = clock
        self._caps = caps
        self._admitted: dict[Endpoint, AdmittedRequest] = {}
        self._connections: dict[asyncio.Task[None], Endpoint | None] = {}  # and where to, once that is known
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, _LOOPBACK, 0)

    async def close(self) -> None:
        """Listen no more, and break off what is under way."""
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @contextlib.contextmanager
    def admit(self, url: str, passage: AdmittedRequest) -> Iterator[None]:
        """Let the browser reach the host of a URL while the block runs; what happens is told in the passage.

        If the block fails, so does what the browser still waits for.
        """
        parts = urlsplit(url)
        endpoint = (parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme])
        self._admitted[endpoint] = passage
        try:
            yield
        except BaseException:
            for connection in [one for one, to in self._connections.items() if to == endpoint]:
                connection.cancel()
            raise
        finally:
            if self._admitted.get(endpoint) is passage:
                del self._admitted[endpoint]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections[connection] = None
        # Whatever goes wrong, the browser finds its connection closed, and the passage has the reason.
        with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError, ValueError, asyncio.CancelledError):
            async with _closing(writer), asyncio.timeout(self._caps.connection_seconds):
                if len(self._connections) <= self._caps.connections and await self._is_of_our_user(writer):
                    await self._carry(connection, reader, writer)
        del self._connections[connection]

    async def _is_of_our_user(self, writer: asyncio.StreamWriter) -> bool:
        """Tell whether the other end of a connection is a process of our own user: others share our loopback."""
        _, theirs = writer.get_extra_info("peername")
        # On a busy machine the list is long.
        return await asyncio.to_thread(_owner, theirs, self.port) == str(os.geteuid())

    async def _carry(
        self, connection: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        wanted = _read_head(await reader.readuntil(b"\r\n\r\n"))
        self._connections[connection] = wanted.endpoint
        passage = self._admitted.get(wanted.endpoint)
        if passage is None:
            log.debug("proxy.refused", host=wanted.endpoint[1], port=wanted.endpoint[2])
            return
        try:
            passage.connections += 1
            if passage.connections > self._caps.request_connections:
                raise TooMuchAsked(f"over {self._caps.request_connections} connections were made for one request")
            upstream_reader, upstream_writer = await self._connect(wanted.endpoint)
        except OSError as error:
            passage.error = error
            raise
        async with _closing(upstream_writer):
            if wanted.opening is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                going = self._send(reader, upstream_writer, wanted.endpoint)
                coming = self._receive(upstream_reader, writer, wanted.endpoint)
            else:
                self._check_end(passage)
                upstream_writer.write(wanted.opening)
                going = _until_it_speaks(reader)
                coming = self._receive_plain(upstream_reader, writer, wanted.endpoint, passage)
            passage.sent_at = self._clock()  # when it has left, not when it is about to
            await first_of(going, coming)

    async def _connect(self, endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to one of the addresses that the guard has passed: the very address, not the name."""
        _, host, port = endpoint
        failed = OSError(f"{host} has no address")
        for found in await self._resolver.resolve(host, port):
            try:
                return await asyncio.open_connection(found["host"], found["port"])
            except OSError as error:
                failed = error
        raise failed

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: Endpoint) -> None:
        while chunk := await reader.read(_CHUNK):
            passage = self._admitted.get(endpoint)
            if passage is None:
                return
            passage.format_duration += 1
            if passage.format_duration > self._caps.request_words:
                passage.error = TooMuchAsked("the browser said more than one request takes")
                raise passage.error
            self._check_end(passage)
            writer.write(chunk)
            passage.sent_at = self._clock()
            await writer.drain()

    def _check_end(self, passage: AdmittedRequest) -> None:
        """Raise TimeoutError where a hold is over: whoever was frozen until then may no longer have the host."""
        if passage.ends_at is not None and self._clock() >= passage.ends_at:
            passage.error = TimeoutError("the time to ask in was over")
            raise passage.error

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: Endpoint) -> None:
        """Pass on what comes through a tunnel, for whichever request is under way."""
        try:
            while chunk := await reader.read(_CHUNK):
                passage = self._admitted.get(endpoint)
                if passage is None:
                    return
                await self._hand_over(chunk, writer, passage)
        except OSError as error:
            if passage := self._admitted.get(endpoint):
                passage.error = error
            raise

    async def _receive_plain(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: Endpoint, passage: AdmittedRequest
    ) -> None:
        """Pass one answer on, and note whether it was whole."""
        answer = _PlainAnswer()
        try:
            while chunk := await reader.read(_CHUNK):
                if self._admitted.get(endpoint) is not passage:
                    return
                answer.feed(chunk)
                await self._hand_over(chunk, writer, passage)
            if not answer.is_whole:
                raise ConnectionError("the answer broke off")
        except OSError as error:
            passage.error = error
            raise

    async def _hand_over(self, chunk: bytes, writer: asyncio.StreamWriter, passage: AdmittedRequest) -> None:
        passage.received += len(chunk)
        if passage.received > self._caps.request_bytes:
            raise TooMuchCame(f"over {self._caps.request_bytes} bytes came")
        writer.write(chunk)
        try:
            await writer.drain()
        except OSError:
            raise EOFError from None  # the browser has left, which is no fault of the host's


class _PlainAnswer:
    """An answer that is not encrypted, looked at as it passes, so that one that breaks off is told from a whole one."""

    def __init__(self) -> None:
        self._head = b""
        self._has_head = False
        self._body_bytes = 0
        self._end = b""

    def feed(self, chunk: bytes) -> None:
        """Look at what comes next."""
        if not self._has_head:
            self._head, end, chunk = (self._head + chunk).partition(b"\r\n\r\n")
            self._has_head = bool(end)
        self._body_bytes += len(chunk)
        self._end = (self._end + chunk)[-len(_LAST_CHUNK) :]

    @property
    def is_whole(self) -> bool:
        """Whether it is as long as its head says, or has its last chunk; one that says neither ends where it ends."""
        head = self._head.lower()
        if _CHUNKED.search(head):
            return self._end == _LAST_CHUNK
        length = _LENGTH.search(head)
        is_empty = _NO_BODY.match(head) is not None
        return self._has_head and (is_empty or length is None or self._body_bytes >= int(length[1]))


@contextlib.asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close a stream at the end of the block, after all that was written."""
    try:
        yield
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _until_it_speaks(reader: asyncio.StreamReader) -> None:
    """Wait until the browser leaves, or wants more of a connection that is good for one request."""
    await reader.read(1)


async def first_of(*works: Coroutine[Any, Any, Any]) -> None:
    """Work at several things until one of them is done; what it raises is raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _read_head(head: bytes) -> _Wanted:
    """Read what the browser asks of a proxy; a ValueError for what no page needs."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, target, version = first.split(" ")
    if method == "CONNECT":
        parts = urlsplit(f"//{target}")
        return _Wanted(("https", parts.hostname or "", parts.port or 443), None)
    scheme, _, rest = target.partition("://")
    if method != "GET" or scheme != "http":
        raise ValueError(f"{method} of {scheme} is not let through")
    authority, _, path = rest.partition("/")
    parts = urlsplit(f"//{authority}")
    onward = filterfalse(_is_for_the_proxy, lines)
    opening = "\r\n".join((f"GET /{path} {version}", *onward, "Connection: close", "", ""))
    return _Wanted(("http", parts.hostname or "", parts.port or 80), opening.encode("latin-1"))


def _is_for_the_proxy(line: str) -> bool:
    name = line.partition(":")[0].strip().lower()
    return name in _FOR_THE_PROXY or name.startswith("proxy-")


def _owner(port: int, to_port: int) -> str | None:
    """Return the user whose connection it is that leads from one port of the loopback to another."""
    here = int.from_bytes(socket.inet_aton(_LOOPBACK), sys.byteorder)
    ends = [f"{here:08X}:{port:04X}", f"{here:08X}:{to_port:04X}"]
    with open("/proc/net/tcp", encoding="ascii") as table:
        return next((fields[7] for fields in map(str.split, table) if fields[1:3] == ends), None)
