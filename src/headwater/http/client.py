"""The one HTTP client: a request with caps on everything, sent once, to an address the guard has seen."""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Self
from urllib.parse import urlsplit
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from yarl import URL

from headwater.core.errors import ExchangeFailed, HeadwaterError, InvalidURL
from headwater.core.http import Limits, Response
from headwater.core.reasons import Reason
from headwater.http.decode import ACCEPT_ENCODING, inflater_for
from headwater.http.guard import AddressGuard, AddressRefused
from headwater.http.http_errors import cause_of, failure, shown_host, too_large
from headwater.http.offline_detector import OfflineDetector

ConnectTo = Mapping[str, tuple[str, int]]
Permit = Callable[[], Awaitable[None]]
OnSent = Callable[[], None]

_NOTHING: Mapping[str, str] = MappingProxyType({})
_FIXED_NOWHERE: ConnectTo = MappingProxyType({})
_KEEP_ALIVE_SECONDS = 15.0  # longer than the pause that most who want one ask for, which is ten seconds
_HEADER_LINE_BYTES = 64 * 1024  # some sites send policies far over the usual 8 KiB
_BODILESS = {204, 304}
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class HttpClient:
    """An async context manager holding the connections; `get` and `post` are all it does.

    `connect_to` sends the connections for a host ("news.demo.test", "*.demo.test") to a fixed address and port, while
    URL and Host header stay as they are. The guard judges that address like any other.
    """

    def __init__(
        self,
        *,
        guard: AddressGuard,
        clock: Callable[[], datetime],
        connect_to: ConnectTo = _FIXED_NOWHERE,
        max_connections: int = 100,
    ) -> None:
        self._guard = guard
        self._clock = clock
        self._connect_to = connect_to
        self.resolver = GuardedResolver(guard, connect_to)
        # Not the connector's own limit: waiting for a place must not eat up the time the host has to answer.
        self._places = asyncio.Semaphore(max_connections)
        self._witnesses = OfflineDetector()
        self._kept: WeakSet[ResponseHandler] = WeakSet()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            resolver=self.resolver,
            socket_factory=self._open_socket,
            limit=0,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
        )
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
        """Tell whether nobody on the way can read what is sent: it is encrypted, or goes where an operator leads it."""
        parts = urlsplit(url)
        return parts.scheme == "https" or fixed_address(parts.hostname or "", self._connect_to) is not None

    async def get(
        self,
        url: str,
        *,
        user_agent: str,
        headers: Mapping[str, str] = _NOTHING,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        permit: Permit | None = None,
        on_sent: OnSent | None = None,
    ) -> Response:
        """Send one GET and return the answer, whatever its status; redirects are not followed.

        `url` is sent as it is: it must be normalized. Raises ExchangeFailed where no whole answer came within the
        limits, InvalidURL where the address cannot be used, and nothing else. `permit` is asked last, when nothing more
        has to be waited for; what it raises is passed on, and nothing is sent. `on_sent` is told when it has left.
        """
        request = _Request("GET", url, {"User-Agent": user_agent, **headers}, on_sent=on_sent)
        return await self._send(request, limits, permit)

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        user_agent: str,
        headers: Mapping[str, str],
        limits: Limits,
        permit: Permit | None = None,
    ) -> Response:
        """Send one POST and return the answer, in all else as `get` does."""
        return await self._send(_Request("POST", url, {"User-Agent": user_agent, **headers}, body), limits, permit)

    async def _send(self, request: "_Request", limits: Limits, permit: Permit | None = None) -> Response:
        url = request.url
        async with self._places:
            if permit:
                await permit()
            deadline = _now() + self._seconds(limits)
            try:
                async with asyncio.timeout_at(deadline):
                    return await self._exchange(request, limits, deadline)
            except HeadwaterError:
                raise
            except Exception as error:
                raise await self.blame(error, url) from error

    def _seconds(self, limits: Limits) -> float:
        """Return how long an exchange may take that begins now."""
        if limits.ends_at is None:
            return limits.total_seconds
        return min(limits.total_seconds, (limits.ends_at - self._clock()).total_seconds())

    async def blame(self, error: Exception, url: str) -> HeadwaterError:
        """Say in our words why there was no answer, and whether that is our own network's fault."""
        told = failure(error, url)
        if await self._witnesses.is_ours(cause_of(error), shown_host(url)):
            return ExchangeFailed(f"{told}, and nobody else can be reached", reason=Reason.OFFLINE, url=url)
        return told

    async def _exchange(self, request: "_Request", limits: Limits, deadline: float) -> Response:
        assert self._session is not None, "HttpClient is used inside `async with`"
        url = request.url
        on_connected = partial(self._witnesses.add, shown_host(url))
        sending = _Sending(self._clock, on_connected, request.on_sent, deadline, limits.ends_at, self._kept)
        _sending.set(sending)
        async with self._session.request(
            request.method,
            _as_given(url),
            headers={"Accept-Encoding": ACCEPT_ENCODING, **request.headers},
            data=request.body,
            allow_redirects=False,
            timeout=_timeout(limits.connect_seconds, limits.read_seconds),
        ) as answer:
            # Leaving with part of the body unread closes the connection.
            body = await _read_body(answer, url, limits)
        assert sending.at is not None
        return Response(
            url=url,
            status=answer.status,
            headers=_headers(answer),
            body=body,
            sent_at=sending.at,
            elapsed_seconds=_now() - sending.tick,
        )

    def _open_socket(self, target: aiohttp.AddrInfoType) -> socket.socket:
        """Make the socket for one address: the last step before connecting, so nothing can change in between."""
        family, kind, protocol, _, address = target
        self._guard.check(str(address[0]))
        return socket.socket(family, kind, protocol)


def fixed_address(host: str, connect_to: ConnectTo) -> tuple[str, int] | None:
    """Return where connections for a host go without a look-up, if it is one of those."""
    name = host.lower().rstrip(".")
    labels = name.split(".")
    patterns = [name, *("*." + ".".join(labels[start:]) for start in range(1, len(labels)))]
    return next((connect_to[pattern] for pattern in patterns if pattern in connect_to), None)


@dataclass(frozen=True, slots=True)
class _Request:
    """What is sent, and who is told when it has left."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None
    on_sent: OnSent | None = None


@dataclass(slots=True)
class _Sending:
    """When a request left, and by when it must."""

    clock: Callable[[], datetime]
    on_connected: Callable[[tuple[str, int]], None]
    on_sent: OnSent | None
    deadline: float  # by the loop's time
    ends_at: datetime | None
    kept: WeakSet[ResponseHandler]  # connections that something was sent on
    on_kept: bool = False
    at: datetime | None = None
    tick: float = 0.0

    @property
    def is_too_late(self) -> bool:
        """Whether its time is up; the loop's stands still while the machine sleeps, the clock's does not."""
        return _now() >= self.deadline or (self.ends_at is not None and self.clock() >= self.ends_at)

    def note(self, connection: Connection) -> None:
        self.at, self.tick = self.clock(), _now()
        if self.on_sent:
            self.on_sent()
        if connection.protocol is not None:
            self.on_kept = connection.protocol in self.kept
            self.kept.add(connection.protocol)
        if connection.transport and (peer := connection.transport.get_extra_info("peername")):
            self.on_connected(peer[:2])


_sending: ContextVar[_Sending] = ContextVar("_sending")


class _TimedRequest(aiohttp.ClientRequest):
    """Notes when it has left, not when it is about to: on a busy machine much time may lie between.

    It does not leave once its time is up: whoever was frozen until then may no longer hold the host. (What is posted
    has left when its head has; the body follows.)
    """

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        sending = _sending.get()
        if sending.is_too_late:
            raise TimeoutError
        response = await super().send(conn)
        sending.note(conn)
        return response


class GuardedResolver(AbstractResolver):
    """Looks names up and passes on only the addresses the guard lets through."""

    def __init__(self, guard: AddressGuard, connect_to: ConnectTo) -> None:
        self._guard = guard
        self._connect_to = connect_to

    async def close(self) -> None:
        """Close nothing: there is nothing open."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses that may be connected to; raise OSError where there are none."""
        fixed = fixed_address(host, self._connect_to)
        found = [fixed] if fixed else await self._look_up(host, port, family)
        allowed, refusal = [], OSError(f"{host} has no address")
        for address, to_port in found:
            try:
                self._guard.check(address)
            except AddressRefused as error:
                refusal = error
            else:
                allowed.append((address, to_port))
        if not allowed:
            raise refusal
        return [_resolved(host, address, to_port) for address, to_port in allowed]

    async def _look_up(self, host: str, port: int, family: socket.AddressFamily) -> list[tuple[str, int]]:
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.getaddrinfo(
                host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
            )
        except UnicodeError:  # a label that no name server could hold
            raise OSError(f"{host} is not a host name") from None
        return [(str(address[0]), port) for *_, address in answers]


def _resolved(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST)


async def _send_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from sending a GET again by itself when the connection breaks: a visit is one request.

    A kept connection is closed in good order by a server that has waited long enough. Nobody hears a request that
    crosses this, so it is sent anew; on a connection that was made for it, the same is a failure.
    """
    while True:
        try:
            return await handler(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            is_closed = isinstance(error, aiohttp.ServerDisconnectedError) and _sending.get().on_kept
            if not (is_closed and request.method == "GET"):
                raise failure(error, str(request.url)) from error


def _as_given(url: str) -> URL:
    """Take a normalized URL without touching its escapes."""
    try:
        parsed = URL(url, encoded=True)
        if parsed.scheme in ("http", "https") and parsed.raw_host and parsed.port:
            return parsed
    except ValueError as error:
        raise InvalidURL(f"{url} cannot be used: {error}", url=url) from error
    raise InvalidURL(f"{url} is not a web address", url=url)


async def _read_body(answer: aiohttp.ClientResponse, url: str, limits: Limits) -> bytes:
    cap = limits.body_bytes
    if not limits.cut and answer.status not in _BODILESS and (answer.content_length or 0) > cap:
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
                await asyncio.sleep(0)  # a step is short, but a chunk may hold thousands
    if inflater is not None and not inflater.complete:
        raise aiohttp.ClientPayloadError("the compressed body is cut off")
    return b"".join(pieces)


def _headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in answer.raw_headers:
        name, value = _text(raw_name).lower(), _text(raw_value)
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _text(raw: bytes) -> str:
    """Decode any header; what could be neither stored nor sent back (a control character in an ETag) is dropped."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return _CONTROL_CHARACTERS.sub("", text)


@lru_cache(maxsize=64)
def _timeout(connect: float, read: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(connect=connect, sock_read=read)


def _now() -> float:
    return asyncio.get_running_loop().time()
