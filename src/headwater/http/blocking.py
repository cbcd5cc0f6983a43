"""Runs blocking exchanges of libraries in threads of their own. On a timeout or a stop it shuts their connections."""

import asyncio
import contextlib
import contextvars
import socket
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
# The threads that the program shares stay free, because an exchange may wait for minutes.
_threads = ThreadPoolExecutor(64, "exchange")


@dataclass(slots=True)
class Connections:
    """The connections of one exchange. Another thread can shut them, and then the exchange fails at once."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _copies: list[socket.socket] = field(default_factory=list)  # TLS takes the socket itself away
    _is_shut: bool = False

    def open(
        self,
        host: str,
        port: int,
        seconds: float,
        check: Callable[[str], object] = str,
        options: Iterable[tuple[Any, ...]] = (),
    ) -> socket.socket:
        """Connect to the first address of a host that passes a check and answers. Raises OSError."""
        failure: OSError = OSError(f"{host} has no address")
        for family, kind, protocol, _, found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            opened = socket.socket(family, kind, protocol)
            try:
                check(str(found[0]))
                for option in options:
                    opened.setsockopt(*option)
                opened.settimeout(seconds)
                self._add(opened)
                opened.connect(found)
            except OSError as error:
                opened.close()
                failure = error
            else:
                return opened
        raise failure

    def _add(self, opened: socket.socket) -> None:
        with self._lock:
            if self._is_shut:
                raise OSError("The exchange was stopped.")
            self._copies.append(opened.dup())

    def shut(self) -> None:
        """Shut all connections, and allow no more."""
        with self._lock:
            self._is_shut = True
            for copy in self._copies:
                with contextlib.suppress(OSError):  # it is not connected
                    copy.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Close the copies after the exchange."""
        for copy in self._copies:
            copy.close()


async def run_exchange(work: Callable[[], T], connections: Connections, seconds: float) -> T:
    """Run an exchange in a thread, and return only after its end. Raises TimeoutError.

    An exchange that succeeds just after a timeout or a stop has succeeded, and must not be repeated.
    """
    context = contextvars.copy_context()
    working = asyncio.get_running_loop().run_in_executor(_threads, lambda: context.run(work))
    try:
        try:
            done, _ = await asyncio.wait([working], timeout=seconds)
            stopped: BaseException = TimeoutError()
        except asyncio.CancelledError as error:
            done, stopped = set(), error
        if not done:
            connections.shut()
            await asyncio.wait([working])
            if working.exception():
                raise stopped
        return working.result()
    finally:
        connections.forget()
