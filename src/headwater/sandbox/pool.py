"""Child processes that parse downloaded bytes. They can be killed and have limits.

    program ── control socket ── fork server ── forks ──> child
       └──────── one socket and one shared memory a child ──┘

The fork server is a small process that has imported the parsers, so that a killed child is replaced in milliseconds.
It forks and kills on command. When the program ends, it kills its children. Calls and results are sent as msgpack,
never as pickle: a child that parsed hostile bytes must not be able to run code in the program. A long body does not
pass through the socket. The program writes it to the shared memory, which the child only reads.
"""

import asyncio
import contextlib
import functools
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Self, TypeVar, cast

import msgspec

from headwater.core import errors
from headwater.core.errors import HeadwaterError, NotNow, SandboxFailed
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.sandbox.child import COMMAND, FORK, KILL, LENGTH, READY, RESULT, Failure
from headwater.sandbox.link import ChildLink, make_memory

T = TypeVar("T")

# The fork server imports these modules once, so a new child has them at its start. Some cannot be imported later:
# trafilatura opens a socket.
_PRELOAD = (
    "headwater.feeds.parser",
    "headwater.politeness.robots",
    "headwater.feeds.sitemap_selection",
    "headwater.feeds.links",
    "headwater.extraction.pdf.pdf_v1",
    "headwater.extraction.registry",
    "headwater.extraction.interstitials",
    "trafilatura",
    "feedparser",
)
_START_SECONDS = 60.0  # for the import of the parsers on a busy machine
_STOP_SECONDS = 2.0
_REST_SECONDS = 300.0
_CALLS_PER_CHILD = 1000  # parsers leak memory; a new child costs milliseconds
_MIB = 1024 * 1024

_BOOT = (
    "import json, sys; descriptor, memory, preload, sys.path[:] = json.loads(sys.argv[1]); "
    "from headwater.sandbox.child import serve; serve(descriptor, memory, preload)"
)
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")  # no secrets
# A child sends the name of one of these errors. NotNow needs a time, which no parser knows.
_ERRORS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, HeadwaterError) and kind is not NotNow
}


@dataclass(eq=False)
class Sandbox:
    """Runs functions in child processes with limits on memory, time and output. An async context manager.

    Children start when they are needed, run one call at a time and are used again. At most `workers` calls run at once.
    All processes end when there was no call for `rest_seconds`.
    The fork server imports the modules `preload`. Only functions of `packages` may be called.
    """

    workers: int = 2
    memory_mb: int = 1024
    preload: Sequence[str] = ()
    packages: Sequence[str] = ("headwater",)
    rest_seconds: float = _REST_SECONDS
    _slots: asyncio.Semaphore = field(init=False)
    _idle: list[ChildLink] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _server: "_ForkServer | None" = None
    _closed: bool = False
    _calls: int = 0  # under way
    _last_call: float = 0.0
    _timer: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.workers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def start(self) -> None:
        """Start to import the parsers before the first call."""
        with suppress(OSError):  # the next call raises the error
            self._get_server()
        self._rest_later()

    async def run(
        self,
        function: Callable[..., T],
        *args: Any,
        returns: type[T] | UnionType,
        seconds: float = 10.0,
        output_bytes: int = 64 * _MIB,
    ) -> T:
        """Call a module-level function in a child and return its result, decoded as `returns`.

        Arguments must be plain values (str, bytes, numbers, None, datetime, list, dict). Results may be of all types
        that msgspec decodes, such as dataclasses and enums. A HeadwaterError of the function is raised here. Any other
        failure raises SandboxFailed and kills the child. A cancelled call kills the child too.
        """
        module, name = function.__module__, function.__qualname__
        if not any(module == package or module.startswith(f"{package}.") for package in self.packages):
            raise ValueError(f"{module}:{name} is not in {', '.join(self.packages)}")
        if "<" in name:
            raise ValueError(f"{module}:{name} is not a module-level function")
        async with self._slots:
            self._calls += 1
            try:
                child = await self._take_child()
            except BaseException:
                self._end_call()
                raise
            reusable = False
            try:
                reply = await self._ask(child, f"{module}:{name}", args, seconds, output_bytes)
                outcome = _decode_reply(reply, returns)
                reusable = child.calls < _CALLS_PER_CHILD and not isinstance(outcome, SandboxFailed)
            finally:
                if reusable:
                    child.free_memory()
                    self._idle.append(child)
                else:
                    self._discard(child)
                self._end_call()
        if isinstance(outcome, HeadwaterError):
            raise outcome
        return cast(T, outcome)

    def _end_call(self) -> None:
        self._calls -= 1
        self._rest_later()

    def _rest_later(self) -> None:
        """End all processes if there is no call for a while. Their memory is most of that of a program at rest."""
        loop = asyncio.get_running_loop()
        self._last_call = loop.time()
        if self._timer is None and not self._closed:
            self._timer = loop.call_later(self.rest_seconds, self._rest)

    def _rest(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer, due = None, self._last_call + self.rest_seconds
        if self._calls or loop.time() < due:
            self._timer = loop.call_at(max(due, loop.time() + self.rest_seconds / 10), self._rest)
            return
        while self._idle:
            self._discard(self._idle.pop())
        if self._server is not None:
            self._server.end()
            self._server = None

    async def close(self) -> None:
        """Kill the children and wait for their end. Current and later calls fail."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            await self._server.close()
        for _ in range(self.workers):  # current calls fail by themselves and release their children
            await self._slots.acquire()
        for _ in range(self.workers):
            self._slots.release()
        while self._idle:
            self._discard(self._idle.pop())
        await asyncio.sleep(0)  # an aborted transport closes its socket in the next iteration of the event loop

    async def _take_child(self) -> ChildLink:
        while self._idle:
            child = self._idle.pop()
            if not child.has_ended:
                return child
            self._discard(child)
        return await self._start_child()

    async def _start_child(self) -> ChildLink:
        if self._closed:
            raise self._failed("the sandbox is closed")
        number = next(self._numbers)
        try:
            child = ChildLink(number, *self._get_server().fork(number))
            try:
                async with asyncio.timeout(_START_SECONDS):
                    await child.connect()
                    await child.read(len(READY))
            except BaseException:
                self._discard(child)
                raise
        except (OSError, EOFError) as error:
            raise self._failed("no child process could be started") from error
        return child

    def _get_server(self) -> "_ForkServer":
        if self._server is not None and not self._server.is_running:
            self._server.end()
            self._server = None
        if self._server is None:
            self._server = _ForkServer(self.memory_mb * _MIB, self.preload)
        return self._server

    async def _ask(
        self, child: ChildLink, function: str, args: Sequence[Any], seconds: float, output_bytes: int
    ) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                child.call(function, args, seconds)
                (size,) = LENGTH.unpack(await child.read(LENGTH.size))
                if size > output_bytes:
                    raise SandboxFailed(f"the result is over {output_bytes} bytes", reason=Reason.SANDBOX_OUTPUT)
                return await child.read(size)
        except TimeoutError:
            raise SandboxFailed(f"stopped after {seconds:g} s", reason=Reason.SANDBOX_TIMEOUT) from None
        except (OSError, EOFError):
            raise self._failed("the child process died") from None

    def _discard(self, child: ChildLink) -> None:
        child.close()
        assert self._server is not None
        self._server.kill(child.number)

    def _failed(self, message: str) -> SandboxFailed:
        return SandboxFailed(message, reason=Reason.SHUTDOWN if self._closed else Reason.SANDBOX_CRASHED)


class _ForkServer:
    """The program's end of the process that forks the children."""

    def __init__(self, memory_bytes: int, preload: Sequence[str]) -> None:
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        path = [os.path.abspath(entry) for entry in sys.path]
        settings = json.dumps([theirs.fileno(), memory_bytes, list(preload), path])
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 (no part of it comes from outside)
                [sys.executable, "-I", "-X", "utf8", "-c", _BOOT, settings],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                start_new_session=True,  # so that Ctrl-C in the terminal does not reach it
            )

    @property
    def is_running(self) -> bool:
        try:
            return self._control.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def fork(self, number: int) -> tuple[socket.socket, int | None]:
        """Start a child. Return our end of its socket, and the memory that we share with it."""
        ours, theirs = socket.socketpair()
        memory = make_memory()
        with theirs, contextlib.ExitStack() as copies:
            links = [theirs.fileno()]
            try:
                if memory is not None:
                    links.append(os.open(f"/proc/self/fd/{memory}", os.O_RDONLY | os.O_CLOEXEC))
                    copies.callback(os.close, links[1])
                socket.send_fds(self._control, [COMMAND.pack(FORK, number)], links)
            except OSError:
                ours.close()
                if memory is not None:
                    os.close(memory)
                raise
        return ours, memory

    def kill(self, number: int) -> None:
        # The number is not the process id: only the fork server knows which ids still are its children.
        with suppress(OSError):
            self._control.send(COMMAND.pack(KILL, number))

    async def close(self) -> None:
        """Stop the fork server, which ends its children, and wait for its end."""
        try:
            with suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)
                async with asyncio.timeout(_STOP_SECONDS):
                    await asyncio.get_running_loop().sock_recv(self._control, 1)
        finally:
            self.end()

    def end(self) -> None:
        """Kill the fork server with its running children, which are in its process group."""
        self._control.close()
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@functools.cache
def _decoder(returns: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(returns)


def _decode_reply(reply: bytes, returns: Any) -> Any:
    try:
        payload = memoryview(reply)[1:]
        if reply.startswith(RESULT):
            return _decoder(returns).decode(payload)
        failure: Failure = _decoder(Failure).decode(payload)
    except Exception as error:  # noqa: BLE001 (a child under hostile control may send anything)
        return SandboxFailed(f"the child returned something else than {returns}: {error}")
    kind = _ERRORS.get(failure.kind)
    return kind(failure.message, reason=failure.reason, url=failure.url) if kind else SandboxFailed(failure.message)


def make_sandbox(settings: Settings) -> Sandbox:
    """Make the sandbox of this process."""
    return Sandbox(workers=settings.sandbox_workers, memory_mb=settings.sandbox_memory_mb, preload=_PRELOAD)
