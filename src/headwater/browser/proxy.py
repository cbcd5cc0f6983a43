"""The browser's only way out: a proxy on loopback that passes on admitted requests and nothing else.

A host of a scheme is admitted while a request to it is in progress. Bytes pass only then, so a connection that stays
open is of no use to other requests. The proxy understands GET of `http://` URLs, one a connection, and CONNECT for
`https://`.
"""

import asyncio
import contextlib
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import structlog

from headwater.core.http import AdmittedRequest
from headwater.http.resolver import GuardedResolver

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
    """The limits of one proxy.

    The proxy cannot read an encrypted tunnel, but one request needs only few connections and sends only few chunks.
    """

    connections: int = 64  # Chromium opens 32 at most, and does not wait until those it closed have ended here
    connection_seconds: float = 120.0
    request_connections: int = 4
    request_chunks: int = 64
    request_bytes: int = 32 * 1024 * 1024


class TooMuchReceived(OSError):
    """The answers to one request have more bytes than allowed."""


class TooMuchSent(OSError):
    """The browser sent more than the one request that was admitted."""


@dataclass(slots=True, eq=False)
class Proxy:
    """Listens between `open` and `close`. `admit` allows a host for a while."""

    resolver: GuardedResolver
    clock: Callable[[], datetime]
    caps: ProxyCaps
    _admitted: dict[Endpoint, AdmittedRequest] = field(default_factory=dict)
    # Each connection and its host, once it is known.
    _connections: dict[asyncio.Task[None], Endpoint | None] = field(default_factory=dict)
    _server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, _LOOPBACK, 0)

    async def close(self) -> None:
        """Stop listening, and end all connections."""
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @contextlib.contextmanager
    def admit(self, url: str, request: AdmittedRequest) -> Iterator[None]:
        """Let the browser reach the host of a URL while the block runs, and record in `request` what happens.

        If the block fails, the browser's open connections to that host end.
        """
        parts = urlsplit(url)
        endpoint = (parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme])
        self._admitted[endpoint] = request
        try:
            yield
        except BaseException:
            for connection in [one for one, to in self._connections.items() if to == endpoint]:
                connection.cancel()
            raise
        finally:
            if self._admitted.get(endpoint) is request:
                del self._admitted[endpoint]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections[connection] = None
        # After any error the browser finds its connection closed, and the admitted request has the reason.
        with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError, ValueError, asyncio.CancelledError):
            async with _closing(writer), asyncio.timeout(self.caps.connection_seconds):
                if self._make_room(connection) and await self._is_own_user(writer):
                    await self._carry(connection, reader, writer)
        del self._connections[connection]

    def _make_room(self, connection: asyncio.Task[None]) -> bool:
        """Return whether a connection is within the limit. The oldest one that was never used makes room for it.

        A page can make the browser open many in advance, and they must not keep out the next page.
        """
        if len(self._connections) <= self.caps.connections:
            return True
        unused = (one for one, endpoint in self._connections.items() if endpoint is None and one is not connection)
        oldest = next(unused, None)
        return oldest is not None and oldest.cancel()

    async def _is_own_user(self, writer: asyncio.StreamWriter) -> bool:
        """Return whether a process of our own user has connected. Other users share the loopback interface."""
        _, theirs = writer.get_extra_info("peername")
        return await asyncio.to_thread(_find_owner, theirs, self.port) == str(os.geteuid())

    async def _carry(
        self, connection: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        endpoint, opening = _read_head(await reader.readuntil(b"\r\n\r\n"))
        self._connections[connection] = endpoint
        request = self._admitted.get(endpoint)
        if request is None:
            log.debug("proxy.refused", host=endpoint[1], port=endpoint[2])
            return
        try:
            request.connections += 1
            if request.connections > self.caps.request_connections:
                raise TooMuchSent(f"over {self.caps.request_connections} connections were made for one request")
            upstream_reader, upstream_writer = await self._connect(endpoint)
        except OSError as error:
            request.error = error
            raise
        async with _closing(upstream_writer):
            if opening is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                sending: Coroutine[Any, Any, object] = self._send(reader, upstream_writer, endpoint)
                receiving = self._receive(upstream_reader, writer, endpoint)
            else:
                self._check_end(request)
                upstream_writer.write(opening)
                sending = reader.read(1)  # ends when the browser closes the connection, or sends more
                receiving = self._receive(upstream_reader, writer, endpoint, request)
            request.sent_at = self.clock()  # after the connection, when the request really leaves
            await first_of(sending, receiving)

    async def _connect(self, endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to one of the addresses that the guard allows. The name is not resolved a second time."""
        _, host, port = endpoint
        failed = OSError(f"{host} has no address")
        for found in await self.resolver.resolve(host, port):
            try:
                return await asyncio.open_connection(found["host"], found["port"])
            except OSError as error:
                failed = error
        raise failed

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: Endpoint) -> None:
        while chunk := await reader.read(_CHUNK):
            request = self._admitted.get(endpoint)
            if request is None:
                return
            request.sent_chunks += 1
            if request.sent_chunks > self.caps.request_chunks:
                request.error = TooMuchSent("the browser sent more than one request")
                raise request.error
            self._check_end(request)
            writer.write(chunk)
            request.sent_at = self.clock()
            await writer.drain()

    def _check_end(self, request: AdmittedRequest) -> None:
        """Raise TimeoutError if the hold of the host has ended: a process that was frozen may have lost the host."""
        if request.ends_at is not None and self.clock() >= request.ends_at:
            request.error = TimeoutError("the time to send the request was over")
            raise request.error

    async def _receive(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        endpoint: Endpoint,
        plain: AdmittedRequest | None = None,
    ) -> None:
        """Pass on the bytes of a tunnel for the request in progress, or the one answer to the request `plain`."""
        answer = _PlainAnswer()
        try:
            while chunk := await reader.read(_CHUNK):
                request = self._admitted.get(endpoint)
                if request is None or (plain and request is not plain):
                    return
                if plain:
                    answer.feed(chunk)
                await self._pass_on(chunk, writer, request)
            if plain and not answer.is_complete:
                raise ConnectionError("the answer broke off")
        except OSError as error:
            if failed := plain or self._admitted.get(endpoint):
                failed.error = error
            raise

    async def _pass_on(self, chunk: bytes, writer: asyncio.StreamWriter, request: AdmittedRequest) -> None:
        request.received += len(chunk)
        if request.received > self.caps.request_bytes:
            raise TooMuchReceived(f"over {self.caps.request_bytes} bytes were received")
        writer.write(chunk)
        try:
            await writer.drain()
        except OSError:
            raise EOFError from None  # the browser closed the connection, which is not an error of the host


@dataclass(slots=True)
class _PlainAnswer:
    """An unencrypted answer, inspected while it passes to see whether it is complete."""

    _head: bytes = b""
    _has_head: bool = False
    _body_bytes: int = 0
    _end: bytes = b""

    def feed(self, chunk: bytes) -> None:
        if not self._has_head:
            self._head, end, chunk = (self._head + chunk).partition(b"\r\n\r\n")
            self._has_head = bool(end)
        self._body_bytes += len(chunk)
        self._end = (self._end + chunk)[-len(_LAST_CHUNK) :]

    @property
    def is_complete(self) -> bool:
        """Whether it has the announced length or its last chunk. One that announces neither is complete."""
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


async def first_of(*works: Coroutine[Any, Any, Any]) -> None:
    """Run coroutines until the first one ends, cancel the others, and raise its error if it has one."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _read_head(head: bytes) -> tuple[Endpoint, bytes | None]:
    """Return the host of a proxy request, and the request to send there; None: the browser sends it through a tunnel.

    Raises ValueError for requests that no page needs.
    """
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, target, version = first.split(" ")
    if method == "CONNECT":
        parts = urlsplit(f"//{target}")
        return ("https", parts.hostname or "", parts.port or 443), None
    scheme, _, rest = target.partition("://")
    if method != "GET" or scheme != "http":
        raise ValueError(f"{method} of {scheme} is not allowed")
    authority, _, path = rest.partition("/")
    parts = urlsplit(f"//{authority}")
    kept = (line for line in lines if not _is_for_the_proxy(line))
    opening = "\r\n".join((f"GET /{path} {version}", *kept, "Connection: close", "", ""))
    return ("http", parts.hostname or "", parts.port or 80), opening.encode("latin-1")


def _is_for_the_proxy(line: str) -> bool:
    name = line.partition(":")[0].strip().lower()
    return name in _FOR_THE_PROXY or name.startswith("proxy-")


def _find_owner(port: int, to_port: int) -> str | None:
    """Return the user id of the connection from one loopback port to another."""
    here = int.from_bytes(socket.inet_aton(_LOOPBACK), sys.byteorder)
    ends = [f"{here:08X}:{port:04X}", f"{here:08X}:{to_port:04X}"]
    with open("/proc/net/tcp", encoding="ascii") as table:
        return next((fields[7] for fields in map(str.split, table) if fields[1:3] == ends), None)
