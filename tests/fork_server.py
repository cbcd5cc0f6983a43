"""A fork server for programs: each program is forked from a process that has imported all modules.

A program that a user starts needs a second of CPU time for its imports. Most kills would then hit imports, and tests
that run many commands would spend their time on imports. A forked program runs the same code and dies in the same way.
"""

import asyncio
import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import headwater
from headwater.sandbox import pool
from tests.clusters import copying, model, use_for_clusters
from tests.faults.network import enter
from tests.sandboxes import ForkedServer

ROOT = Path(__file__).parents[1]
ENVIRONMENT = dict(os.environ)  # before a test changes it
# Modules of libraries that programs import only when they need them.
WHEN_NEEDED = (
    "apscheduler.executors.asyncio",
    "playwright.async_api",
    "pydantic.v1",
    "tests.faults.victim",
    "typer._adapters",
    "uvicorn.protocols.http.h11_impl",
)


@dataclass(frozen=True)
class Order:
    """A program to start."""

    words: tuple[str, ...]  # for victim.py: a point, a plant, and the words of the command
    folder: str
    environment: Mapping[str, str]
    namespace: str | None = None  # None: the common network
    module: str = "tests.faults.victim"  # its `main` gets the words


class Program:
    """A running program."""

    def __init__(self, line: socket.socket, pid: int) -> None:
        self._line = line
        self.pid = pid
        self._returncode: int | None = None

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self._returncode is None:
            with contextlib.suppress(BlockingIOError):
                self._returncode = int(self._line.recv(16))
                self._line.close()
        return self._returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal if the program still runs."""
        if self.returncode is None:
            os.kill(self.pid, number)

    async def wait(self) -> int:
        """Wait until it ends."""
        while (code := self.returncode) is None:
            await asyncio.sleep(0.005)
        return code

    def wait_here(self, seconds: float) -> int | None:
        """Block until it ends, for so many seconds at most. Returns None if it still runs."""
        if self._returncode is None:
            select.select([self._line], [], [], seconds)
        return self.returncode


class ForkServer:
    """The process that forks programs. It kills them when it ends."""

    def __enter__(self) -> Self:
        cluster = model()
        self._line, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno()), str(cluster)],
                pass_fds=(theirs.fileno(),),
                cwd=ROOT,
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,  # programs may get streams of their own
                stdout=subprocess.DEVNULL,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()
        self._process.communicate(timeout=20)

    def start(self, order: Order, streams: Sequence[int] = ()) -> Program:
        """Start a program with these standard streams, or with none."""
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._line, [json.dumps(asdict(order)).encode()], [theirs.fileno(), *streams])
        pid = int(ours.recv(16))
        ours.setblocking(False)
        return Program(ours, pid)

    def run(self, order: Order, given: bytes, seconds: float) -> "subprocess.CompletedProcess[bytes]":
        """Run a program to its end with this standard input. Returns its exit code and its output."""
        (stdin, to_stdin), (from_stdout, stdout), (from_stderr, stderr) = (os.pipe() for _ in range(3))
        with ThreadPoolExecutor(3) as side_by_side:
            writing = side_by_side.submit(_write, to_stdin, given)
            output, errors = side_by_side.submit(_read, from_stdout), side_by_side.submit(_read, from_stderr)
            try:
                program = self.start(order, (stdin, stdout, stderr))
            finally:
                for stream in (stdin, stdout, stderr):
                    os.close(stream)
            code = program.wait_here(seconds)
            if code is None:
                program.send_signal(signal.SIGKILL)
                raise subprocess.TimeoutExpired(order.words, seconds)
            writing.result()
            return subprocess.CompletedProcess(order.words, code, output.result(), errors.result())


def _write(pipe: int, given: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(pipe, "wb") as file:
        file.write(given)


def _read(pipe: int) -> bytes:
    with open(pipe, "rb") as file:
        return file.read()


_common = contextlib.ExitStack()
_servers: list[ForkServer] = []


def fork_server() -> ForkServer:
    """Return the fork server of all tests in this process. The first call starts it."""
    if not _servers:
        _servers.append(_common.enter_context(ForkServer()))
    return _servers[0]


def close_fork_server() -> None:
    """Close the fork server if it was started."""
    _servers.clear()
    _common.close()


def main() -> None:
    ours = (module.name for module in pkgutil.walk_packages(headwater.__path__, "headwater."))
    for name in (*ours, *WHEN_NEEDED, *pool._PRELOAD):
        importlib.import_module(name)
    gc.freeze()  # keeps memory pages shared with the programs
    forked = _fork_programs(socket.socket(fileno=int(sys.argv[1])))
    if forked:
        order, streams = forked
        _set_up_program(order, streams)
        pool._ForkServer = ForkedServer  # type: ignore[misc]
        with use_for_clusters(copying(Path(sys.argv[2]))):
            _run(order)


def _run(order: Order) -> None:
    """Run a program and end it as Python does, but without freeing its modules.

    Their memory pages are shared with the fork server. Copying them to free them would take longer than most programs.
    """
    try:
        importlib.import_module(order.module).main(order.words)
    except SystemExit as ending:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):  # Python reports what cannot be written
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            if isinstance(ending.code, int):
                os._exit(ending.code)
        raise


def _fork_programs(control: socket.socket) -> tuple[Order, list[int]] | None:
    """Fork a child for each order. Returns the order and its streams in the child, or None in the server."""
    children: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for ready in select.select([control.fileno(), *children], [], [])[0]:
            if ready in children:
                pid, line = children.pop(ready)
                os.close(ready)
                _send(line, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                line.close()
                continue
            message, descriptors, _, _ = socket.recv_fds(control, 1 << 17, 4)
            if not message:
                for pid, _ in children.values():
                    os.kill(pid, signal.SIGKILL)
                return None
            line, streams = socket.socket(fileno=descriptors[0]), descriptors[1:]
            pid = os.fork()
            if pid == 0:
                return Order(**json.loads(message)), streams
            for stream in streams:
                os.close(stream)
            _send(line, pid)
            children[os.pidfd_open(pid)] = (pid, line)


def _send(line: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the test may have closed its end
        line.send(str(number).encode())


def _set_up_program(order: Order, streams: Sequence[int]) -> None:
    """Set up the process as a shell would: its folder, its environment and its open files."""
    if streams:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
    else:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1) if os.environ.get("FAULTS_LOUD") else (0, 1, 2):
            os.dup2(nothing, stream)
    os.closerange(3, 1024)
    if order.namespace:
        enter(order.namespace)
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    further = order.environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [place for place in further if place and place not in sys.path]


if __name__ == "__main__":
    main()
