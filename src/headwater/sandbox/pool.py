"""The only child processes: where bytes from outside are parsed, killable and limited.

    program ── control socket ── fork server ── forks ──> child
       └───────────────── one socket a child ───────────────┘

The fork server is a small process of its own with the parsers imported, so that a killed child is replaced in
milliseconds. It forks and kills on command; when the program goes away, however it does, it takes its children along.
Calls and results travel as msgpack, never as pickle: a child that parsed hostile bytes must not be able to run code
out here.
"""

import asyncio
import functools
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import UnionType
from typing import Any, Self, TypeVar, cast

import msgspec

from headwater.core import errors
from headwater.core.errors import HeadwaterError, NotNow, SandboxFailed
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.sandbox.child import COMMAND, FORK, KILL, LENGTH, READY, RESULT, Failure

T = TypeVar("T")

# Imported once in the fork server, so that a new child starts with them in place.
_PRELOAD = (
    "headwater.feeds.parser",
    "headwater.politeness.robots",
    "headwater.feeds.sitemap_selection",
    "headwater.feeds.links",
    "headwater.extraction.pdf.pdf_v1",
    "headwater.extraction.registry",
    "headwater.extraction.interstitials",
    "trafilatura",
)


_START_SECONDS = 60.0  # importing the parsers on a busy machine
_STOP_SECONDS = 2.0
_CALLS_PER_CHILD = 1000  # parsers leak; a fresh child costs milliseconds
_MIB = 1024 * 1024
_ENCODER = msgspec.msgpack.Encoder()

_BOOT = (
    "import json, sys; descriptor, memory, preload, sys.path[:] = json.loads(sys.argv[1]); "
    "from headwater.sandbox.child import serve; serve(descriptor, memory, preload)"
)
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")  # no secrets
# A child tells which of these it means by name; NotNow asks for a time that no parser knows.
_ERRORS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, HeadwaterError) and kind is not NotNow
}


class Sandbox:
    """Runs functions in child processes with limits on memory, time and output. An async context manager.

    Children start when first needed, do one call at a time and are used again; calls beyond `workers` wait their turn.
    `preload` names the modules imported before forking, `packages` those whose functions may be run.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        memory_mb: int = 1024,
        preload: Sequence[str] = (),
        packages: Sequence[str] = ("headwater",),
    ) -> None:
        self._workers = workers
        self._memory_bytes = memory_mb * _MIB
        self._preload = preload
        self._packages = packages
        self._places = asyncio.Semaphore(workers)
        self._idle: list[_Child] = []
        self._numbers = itertools.count(1)
        self._server: _ForkServer | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def start(self) -> None:
        """Let the parsers be imported ahead of the first call, which would else wait for that."""
        with suppress(OSError):  # told by the call that needs it
            self._running_server()

    async def run(
        self,
        function: Callable[..., T],
        *args: Any,
        returns: type[T] | UnionType,
        seconds: float = 10.0,
        output_bytes: int = 64 * _MIB,
    ) -> T:
        """Call a module-level function in a child and return its result as a `returns`.

        Arguments arrive as plain values (str, bytes, numbers, None, datetime, list, dict); results may be dataclasses,
        enums and all else that msgspec can decode by type. An error of ours raised there is raised here; any other
        end but a result is SandboxFailed, and that child is killed. Cancelling kills it too.
        """
        request = bytearray(LENGTH.size)
        _ENCODER.encode_into((self._name(function), args, seconds), request, LENGTH.size)
        LENGTH.pack_into(request, 0, len(request) - LENGTH.size)
        async with self._places:
            child = await self._take()
            reusable = False
            try:
                reply = await self._ask(child, request, seconds, output_bytes)
                outcome = _outcome(reply, returns)
                reusable = child.calls < _CALLS_PER_CHILD and not isinstance(outcome, SandboxFailed)
            finally:
                if reusable:
                    self._idle.append(child)
                else:
                    self._discard(child)
        if isinstance(outcome, HeadwaterError):
            raise outcome
        return cast(T, outcome)

    async def close(self) -> None:
        """Kill the children and wait until they are gone; calls under way fail, later ones too."""
        self._closed = True
        if self._server is not None:
            await self._server.close()
        for _ in range(self._workers):  # those calls notice by themselves, and let go of their child
            await self._places.acquire()
        for _ in range(self._workers):
            self._places.release()
        while self._idle:
            self._discard(self._idle.pop())
        await asyncio.sleep(0)  # an aborted transport closes its socket in the loop's next turn

    def _name(self, function: Callable[..., Any]) -> str:
        module, name = function.__module__, function.__qualname__
        if not any(module == package or module.startswith(package + ".") for package in self._packages):
            raise ValueError(f"{module}:{name} is not in {', '.join(self._packages)}")
        if "<" in name:
            raise ValueError(f"{module}:{name} is not a module-level function")
        return f"{module}:{name}"

    async def _take(self) -> "_Child":
        while self._idle:
            child = self._idle.pop()
            if not child.ended:
                return child
            self._discard(child)
        return await self._start_child()

    async def _start_child(self) -> "_Child":
        if self._closed:
            raise self._failed("the sandbox is closed")
        number = next(self._numbers)
        try:
            link = self._running_server().fork(number)
            child = _Child(number, *await asyncio.open_connection(sock=link, limit=_MIB))
            try:
                async with asyncio.timeout(_START_SECONDS):
                    await child.reader.readexactly(len(READY))
            except BaseException:
                self._discard(child)
                raise
        except (OSError, EOFError) as error:
            raise self._failed("no child process could be started") from error
        return child

    def _running_server(self) -> "_ForkServer":
        if self._server is not None and not self._server.running:
            self._server.end()
            self._server = None
        if self._server is None:
            self._server = _ForkServer(self._memory_bytes, self._preload)
        return self._server

    async def _ask(self, child: "_Child", request: bytearray, seconds: float, output_bytes: int) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                return await child.ask(request, output_bytes)
        except TimeoutError:
            raise SandboxFailed(f"stopped after {seconds:g} s", reason=Reason.SANDBOX_TIMEOUT) from None
        except (OSError, EOFError):
            raise self._failed("the child process died") from None

    def _discard(self, child: "_Child") -> None:
        child.writer.transport.abort()
        assert self._server is not None
        self._server.kill(child.number)

    def _failed(self, message: str) -> SandboxFailed:
        return SandboxFailed(message, reason=Reason.SHUTDOWN if self._closed else Reason.SANDBOX_CRASHED)


@dataclass(slots=True, eq=False)
class _Child:
    """The program's end of one child."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    calls: int = 0

    @property
    def ended(self) -> bool:
        """Whether there is something to read from a child that was not asked: that can only be its end."""
        look = select.poll()
        look.register(self.writer.get_extra_info("socket"), select.POLLIN)
        return bool(look.poll(0))

    async def ask(self, request: bytearray, output_bytes: int) -> bytes:
        self.calls += 1
        # As a view: a body of many megabytes is not to be copied more often than it must be.
        self.writer.write(memoryview(request))
        await self.writer.drain()
        (size,) = LENGTH.unpack(await self.reader.readexactly(LENGTH.size))
        if size > output_bytes:
            raise SandboxFailed(f"the result is over {output_bytes} bytes", reason=Reason.SANDBOX_OUTPUT)
        return await self.reader.readexactly(size)


class _ForkServer:
    """The program's end of the process that forks the children."""

    def __init__(self, memory_bytes: int, preload: Sequence[str]) -> None:
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        path = [os.path.abspath(entry) for entry in sys.path]
        settings = json.dumps([theirs.fileno(), memory_bytes, list(preload), path])
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 (nothing in it comes from outside)
                [sys.executable, "-I", "-X", "utf8", "-c", _BOOT, settings],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                start_new_session=True,  # away from the terminal and its Ctrl-C
            )

    @property
    def running(self) -> bool:
        try:
            return self._control.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def fork(self, number: int) -> socket.socket:
        """Have a child forked and return the socket that it listens on."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [COMMAND.pack(FORK, number)], [theirs.fileno()])
            except OSError:
                ours.close()
                raise
        return ours

    def kill(self, number: int) -> None:
        # By number, not by process id: only the fork server knows which ids still are its children.
        with suppress(OSError):
            self._control.send(COMMAND.pack(KILL, number))

    async def close(self) -> None:
        """Let it kill and bury its children, which only it can, and wait until it is gone."""
        try:
            with suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)
                async with asyncio.timeout(_STOP_SECONDS):
                    await asyncio.get_running_loop().sock_recv(self._control, 1)
        finally:
            self.end()

    def end(self) -> None:
        """End it at once, with children that may have outlived it: they are of its process group."""
        self._control.close()
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@functools.cache
def _decoder(returns: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(returns)


def _outcome(reply: bytes, returns: Any) -> Any:
    """Return the call's result, or the error it is to raise."""
    try:
        payload = memoryview(reply)[1:]
        if reply.startswith(RESULT):
            return _decoder(returns).decode(payload)
        failure: Failure = _decoder(Failure).decode(payload)
    except Exception as error:  # noqa: BLE001 (a child taken over may send what it likes)
        return SandboxFailed(f"the child gave back something else than {returns}: {error}")
    kind = _ERRORS.get(failure.kind)
    return kind(failure.message, reason=failure.reason, url=failure.url) if kind else SandboxFailed(failure.message)


def make_sandbox(settings: Settings) -> Sandbox:
    """Make the sandbox of this process; its children start when first needed."""
    return Sandbox(workers=settings.sandbox_workers, memory_mb=settings.sandbox_memory_mb, preload=_PRELOAD)
