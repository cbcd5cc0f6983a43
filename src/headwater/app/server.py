"""The web server of the API: time limits of a request, and a limited number of connections."""

import asyncio
import contextlib
import resource
import socket
from collections.abc import Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings

HEADER_SECONDS = 10.0  # from the connection, or the end of the answer before, to the last header
BODY_SECONDS = 120.0  # from the headers to the end of the body
WRITE_SECONDS = 60.0  # while a reader takes no byte of a long answer
_MOST_CONNECTIONS = 512
_SHARE_OF_FILES = 4  # connections may take a quarter of the descriptors; the rest is for our own work
_BACKLOG = 512  # connections that wait to be accepted
_ACCEPTED_AT_ONCE = 16  # before any of them is served, or closed to make room
_HEADER_BYTES = 64 * 1024


def listen(settings: Settings) -> socket.socket:
    """Listen on the API's address before any other part starts."""
    family = socket.AF_INET6 if ":" in settings.listen_host else socket.AF_INET
    # asyncio sends small answers at once only on sockets that name their protocol. Other ones wait 40 ms for an ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.listen_host, settings.listen_port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise OperatorError(
            f"Cannot listen on {settings.listen_host}:{settings.listen_port}: {error.strerror}. "
            "Stop the program that uses it, or choose another with HEADWATER_LISTEN_PORT (0 takes any free one).",
            reason=Reason.PORT_TAKEN,
        ) from None
    return listener


def get_address(listener: socket.socket) -> str:
    """Return the address of the API for people."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def get_most_connections() -> int:
    """Return the number of connections that the server serves at once."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(_MOST_CONNECTIONS, max(1, files // _SHARE_OF_FILES))


class WebServer:
    """The role that serves an app."""

    def __init__(self, app: Any, listener: socket.socket) -> None:
        self._server = _Server(_LimitedConfig(app))
        self._listener = listener

    async def run(self, stop: asyncio.Event, _grace_seconds: float) -> None:
        """Serve until `stop`."""
        serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        self._server.should_exit = True
        await serving


class _Server(uvicorn.Server):
    """A server that leaves signals to `serve`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve. asyncio has one number for the queue and for the connections that it accepts at once."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)


class _LimitedConfig(uvicorn.Config):
    """The settings of the server, and its connections without a request."""

    def __init__(self, app: Any) -> None:
        super().__init__(
            app,
            http=_LimitedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # it would otherwise log each malformed request
            access_log=False,
            server_header=False,
            backlog=_ACCEPTED_AT_ONCE,
            h11_max_incomplete_event_size=_HEADER_BYTES,
            timeout_graceful_shutdown=3,
        )
        self.malformed_answer = app.malformed_answer
        self.most_connections = get_most_connections()
        self.waiting: dict[_LimitedProtocol, None] = {}
        """The connections that wait for the headers of a request, the longest waiting first."""


class _LimitedProtocol(H11Protocol):
    """A connection. It ends if the client sends its request, or reads the answer, too slowly."""

    config: _LimitedConfig
    _read_deadline: asyncio.TimerHandle | None = None
    _write_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for the connection: the one that has waited longest without a request is closed."""
        super().connection_made(transport)
        self._wait_for_headers()
        if len(self.connections) > self.config.most_connections:
            next(iter(self.config.waiting))._abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        self._stop_write_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._follow_request()

    def _follow_request(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            return  # the headers are not complete
        if self in self.config.waiting:
            self._stop_waiting()
            self._set_read_deadline(BODY_SECONDS)
        if not self.cycle.more_body:
            self._set_read_deadline(None)

    def on_response_complete(self) -> None:
        """Wait for the next request, or begin the one that the client has sent already."""
        self._wait_for_headers()
        super().on_response_complete()
        self._follow_request()

    def send_400_response(self, msg: str) -> None:
        """Send the app's answer to bytes that are no request, unless an answer has begun. The route gets no more."""
        if self.cycle and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = self.config.malformed_answer
            for event in (
                h11.Response(status_code=answer.status_code, headers=answer.raw_headers, reason=b"Bad Request"),
                h11.Data(data=answer.body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._write_deadline = self.loop.call_later(WRITE_SECONDS, self._abort)

    def resume_writing(self) -> None:
        """Continue the answer."""
        self._stop_write_deadline()
        super().resume_writing()

    def _wait_for_headers(self) -> None:
        self.config.waiting[self] = None
        self._set_read_deadline(HEADER_SECONDS)

    def _stop_waiting(self) -> None:
        self.config.waiting.pop(self, None)
        self._set_read_deadline(None)

    def _set_read_deadline(self, seconds: float | None) -> None:
        if self._read_deadline:
            self._read_deadline.cancel()
        self._read_deadline = self.loop.call_later(seconds, self._abort) if seconds is not None else None

    def _stop_write_deadline(self) -> None:
        if self._write_deadline:
            self._write_deadline.cancel()
            self._write_deadline = None

    def _abort(self) -> None:
        self._stop_waiting()
        self.connections.discard(self)  # it makes room now; the transport is closed a moment later
        self.transport.abort()
