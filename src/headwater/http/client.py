"""The only HTTP client. It caps every part of an answer and connects only to addresses that the guard allows."""

import asyncio
import contextlib
import errno
import math
import re
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Self
from urllib.parse import urlsplit
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from yarl import URL

from headwater.core.errors import ExchangeFailed, HeadwaterError, InvalidURL
from headwater.core.http import Limits, Response
from headwater.core.reasons import Reason
from headwater.http.guard import AddressGuard
from headwater.http.http_errors import cause_of, map_error, shown_host, too_large
from headwater.http.resolver import ConnectTo, GuardedResolver, fixed_address
from headwater.http.responses import ACCEPT_ENCODING, inflater_for

Permit = Callable[[], Awaitable[None]]
OnSent = Callable[[], None]

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_KEEP_ALIVE_SECONDS = 15.0  # longer than the usual Crawl-delay of ten seconds
_HEADER_LINE_BYTES = 64 * 1024  # some sites send policy headers far over the usual 8 KiB
_STATUSES_WITHOUT_BODY = {204, 304}
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_MAX_INTERIM = 16  # servers send one or two
_MAX_HOSTS = 4
_CONNECT_SECONDS = 1.0
_RESULT_VALID_SECONDS = 5.0
_AFTERMATH_SECONDS = 30.0  # requests that began while we were offline still fail for a while
_NO_WAY_OUT = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EMFILE, errno.ENFILE})
_NO_ANSWER = frozenset({errno.EHOSTUNREACH, errno.ETIMEDOUT})

Address = tuple[str, int]


@dataclass(eq=False, kw_only=True)
class HttpClient:
    """Sends requests. The client is an async context manager that holds the connections.

    `connect_to` maps a host ("news.demo.test", "*.demo.test") to a fixed address and port. URL and Host header stay
    as they are. The guard checks that address like any other.
    """

    guard: AddressGuard
    clock: Callable[[], datetime]
    connect_to: ConnectTo = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.resolver = GuardedResolver(self.guard, self.connect_to)
        self.offline_detector = OfflineDetector()
        self.used_connections: WeakSet[ResponseHandler] = WeakSet()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            resolver=self.resolver,
            socket_factory=self._open_socket,
            limit=0,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
        )
        # aiohttp has no public way to choose the class of a connection.
        connector._factory = partial(_InterimLimit, loop=asyncio.get_running_loop())  # type: ignore[assignment]
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            max_line_size=_HEADER_LINE_BYTES,
            max_field_size=_HEADER_LINE_BYTES,
            request_class=_TimedRequest,
            middlewares=[_send_once],
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    def is_confidential(self, url: str) -> bool:
        """Return whether a request stays secret: the URL uses https, or the operator fixed the host's address."""
        parts = urlsplit(url)
        return parts.scheme == "https" or fixed_address(parts.hostname or "", self.connect_to) is not None

    async def request(
        self,
        method: str,
        url: str,
        *,
        user_agent: str,
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes | None = None,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        permit: Permit | None = None,
        on_sent: OnSent | None = None,
    ) -> Response:
        """Send one request and return the response of any status. The client follows no redirect.

        `url` must be normalized, because the client sends it unchanged. The client awaits `permit` right before it
        connects; an error of `permit` passes on, and the client sends nothing. The client calls `on_sent` after the
        request left. Raises ExchangeFailed without a whole response within the limits, InvalidURL for an unusable URL.
        """
        assert self._session is not None, "HttpClient is used inside `async with`"
        loop = asyncio.get_running_loop()
        if permit:
            await permit()
        seconds = limits.total_seconds
        if limits.ends_at is not None:
            seconds = min(seconds, (limits.ends_at - self.clock()).total_seconds())
        deadline = loop.time() + seconds
        sending = _Sending(self, on_sent, deadline, limits.ends_at)
        _sending.set(sending)
        try:
            async with (
                asyncio.timeout_at(deadline),
                self._session.request(
                    method,
                    _parse_normalized(url),
                    headers={"Accept-Encoding": ACCEPT_ENCODING, "User-Agent": user_agent, **headers},
                    data=body,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(connect=limits.connect_seconds, sock_read=limits.read_seconds),
                ) as answer,
            ):
                # An exit with part of the body unread closes the connection.
                content = await _read_body(answer, url, limits)
        except HeadwaterError:
            raise
        except _BrokenConnection as broken:
            if sending.on_used_connection:
                raise _connection_lost(url) from broken.error
            raise await self.classify_error(broken.error, url) from broken.error
        except Exception as error:
            raise await self.classify_error(error, url) from error
        assert sending.sent_at is not None
        return Response(
            url=url,
            status=answer.status,
            headers=_read_headers(answer),
            body=content,
            sent_at=sending.sent_at,
            elapsed_seconds=loop.time() - sending.sent_tick,
        )

    async def classify_error(self, error: Exception, url: str) -> HeadwaterError:
        """Return our own error for a failed request; its reason is OFFLINE if our own network failed."""
        classified = map_error(error, url)
        if await self.offline_detector.is_offline(cause_of(error), shown_host(url)):
            message = f"{classified}, and no other host can be reached; check this machine's network"
            return ExchangeFailed(message, reason=Reason.OFFLINE, url=url)
        return classified

    def _open_socket(self, target: aiohttp.AddrInfoType) -> socket.socket:
        """Check the address and open its socket. This is the last step before the connection to the very address."""
        family, kind, protocol, _, address = target
        self.guard.check(str(address[0]))
        return socket.socket(family, kind, protocol)


@dataclass(slots=True)
class _Sending:
    """One request on its way: its time limits, and the moment when it left."""

    client: HttpClient
    on_sent: OnSent | None
    deadline: float  # by the loop's time
    ends_at: datetime | None
    on_used_connection: bool = False
    sent_at: datetime | None = None
    sent_tick: float = 0.0


_sending: ContextVar[_Sending] = ContextVar("_sending")


class _TimedRequest(aiohttp.ClientRequest):
    """Records the time after the request left, because a busy machine may wait long before it sends.

    No request leaves after its time limit: a process that was frozen until then may have lost the host's lease. The
    loop's time stops while the machine sleeps, but the clock's time does not.
    """

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        sending, loop = _sending.get(), asyncio.get_running_loop()
        client = sending.client
        if loop.time() >= sending.deadline or (sending.ends_at is not None and client.clock() >= sending.ends_at):
            raise TimeoutError
        if conn.protocol is not None:
            sending.on_used_connection = conn.protocol in client.used_connections
            client.used_connections.add(conn.protocol)
        response = await super().send(conn)
        sending.sent_at, sending.sent_tick = client.clock(), loop.time()
        if sending.on_sent:
            sending.on_sent()
        if conn.transport and (peer := conn.transport.get_extra_info("peername")):
            client.offline_detector.add(self.url.raw_authority, peer[:2])
        return response


class _BrokenConnection(Exception):
    """The connection could not be opened, or broke before an answer."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


async def _send_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Hide a broken connection from aiohttp, which would send a GET again at once, without a turn (spec 11.7)."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _BrokenConnection(error) from error


class _InterimLimit(ResponseHandler):
    """A connection that fails after too many interim answers (1xx). aiohttp itself skips any number of them."""

    _count = 0

    async def read(self) -> tuple[RawResponseMessage, aiohttp.StreamReader]:
        """Return the next answer, which may be an interim one."""
        message, body = await super().read()
        self._count = self._count + 1 if 100 <= message.code < 200 else 0
        if self._count > _MAX_INTERIM:
            raise HttpProcessingError(message=f"over {_MAX_INTERIM} interim answers")
        return message, body


def _connection_lost(url: str) -> ExchangeFailed:
    """Return the error for a server that closed a kept connection at the moment when we sent a request on it."""
    message = f"{shown_host(url)}: the server closed the connection that was kept from an earlier request"
    return ExchangeFailed(message, reason=Reason.CONNECTION_LOST, url=url)


def _parse_normalized(url: str) -> URL:
    """Parse a normalized URL and keep its percent-escapes unchanged."""
    try:
        parsed = URL(url, encoded=True)
        if parsed.scheme in ("http", "https") and parsed.raw_host and parsed.port:
            return parsed
    except ValueError as error:
        raise InvalidURL(f"{url} cannot be used: {error}", url=url) from error
    raise InvalidURL(f"{url} is not an http or https URL with a host", url=url)


async def _read_body(answer: aiohttp.ClientResponse, url: str, limits: Limits) -> bytes:
    cap = limits.body_bytes
    if not limits.cut and answer.status not in _STATUSES_WITHOUT_BODY and (answer.content_length or 0) > cap:
        raise too_large(url, f"{shown_host(url)}: the body is", cap)
    inflater = inflater_for(", ".join(answer.headers.getall("Content-Encoding", ())))
    pieces: list[bytes] = []
    received = inflated = 0
    async for chunk in answer.content.iter_any():
        received += len(chunk)
        for piece in [chunk] if inflater is None else inflater.feed(chunk):
            pieces.append(piece)
            inflated += len(piece)
            if max(received, inflated) > cap:
                if limits.cut:
                    return b"".join(pieces)[:cap]
                raise too_large(url, f"{shown_host(url)}: the body is", cap)
            if inflater is not None:
                await asyncio.sleep(0)  # one chunk may need thousands of steps
    if inflater is not None and not inflater.complete:
        raise aiohttp.ClientPayloadError("the compressed body is cut off")
    return b"".join(pieces)


def _read_headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """Decode the headers. Drop control characters, which can be neither stored nor sent back in an ETag."""
    headers: dict[str, str] = {}
    for raw in answer.raw_headers:
        try:
            name, value = (_CONTROL_CHARACTERS.sub("", part.decode()) for part in raw)
        except UnicodeDecodeError:
            name, value = (_CONTROL_CHARACTERS.sub("", part.decode("latin-1")) for part in raw)
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def could_be_offline(error: Exception) -> bool:
    """Return whether our own network may have caused an error: no answer came back, not even a refusal."""
    return isinstance(error, TimeoutError) or is_probably_offline(error) or getattr(error, "errno", None) in _NO_ANSWER


def is_probably_offline(error: Exception) -> bool:
    """Return whether an error names our own network: no route, no name server, no free file descriptor."""
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    return isinstance(error, OSError) and error.errno in _NO_WAY_OUT


class OfflineDetector:
    """Decides if a failed request is the fault of our own network.

    The detector connects again to the hosts that answered last. If none answers, our network is offline.
    """

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, Address] = OrderedDict()  # by host
        self._testing = asyncio.Lock()
        self._tested_at = -math.inf
        self._offline_at = -math.inf  # the time of the last test that reached no host

    def add(self, host: str, address: Address) -> None:
        """Record a successful connection to a host."""
        self._addresses[host] = address
        self._addresses.move_to_end(host)
        if len(self._addresses) > _MAX_HOSTS:
            self._addresses.popitem(last=False)

    async def is_offline(self, error: Exception, host: str) -> bool:
        """Return whether our own network caused a host's error: no other recent host answers any more."""
        if not could_be_offline(error):
            return False
        others = [address for known, address in self._addresses.items() if known != host]
        if not others:
            return is_probably_offline(error)
        async with self._testing:
            now = asyncio.get_running_loop().time()
            if now - self._tested_at >= _RESULT_VALID_SECONDS:
                reached = any(await asyncio.gather(*map(_answers, others)))
                self._tested_at = asyncio.get_running_loop().time()
                if not reached:
                    self._offline_at = self._tested_at
            return self._tested_at - self._offline_at < _AFTERMATH_SECONDS


async def _answers(address: Address) -> bool:
    """Connect and close without a request. A refused connection is an answer, too."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(*address)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
