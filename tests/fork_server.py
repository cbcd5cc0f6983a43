"""Programs in a moment: each is forked from a process that has imported everything, so that a kill meets work.

The real program, started as users do, takes a second of a core to import what it needs: of a hundred kills all but a
few would meet that, and tests that run a command after another would do little else. What is forked is no less real,
and dies no less.
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
ENVIRONMENT = dict(os.environ)  # before any test has changed something
# Of others, what programs import only once they need it.
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
    """What a program is to be."""

    words: tuple[str, ...]  # for victim.py: a point, a plant, and then the program's own
    folder: str
    environment: Mapping[str, str]
    namespace: str | None = None  # the network to be in, if not the common one
    module: str = "tests.faults.victim"  # whose `main` is given the words


class Program:
    """A running program."""

    def __init__(self, line: socket.socket, pid: int) -> None:
        self._line = line
        self.pid = pid
        self._returncode: int | None = None

    @property
    def returncode(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        if self._returncode is None:
            with contextlib.suppress(BlockingIOError):
                self._returncode = int(self._line.recv(16))
                self._line.close()
        return self._returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Signal it, if it still runs."""
        if self.returncode is None:
            os.kill(self.pid, number)

    async def wait(self) -> int:
        """Wait for its end."""
        while (code := self.returncode) is None:
            await asyncio.sleep(0.005)
        return code

    def wait_here(self, seconds: float) -> int | None:
        """Wait for its end and let nothing else happen meanwhile; None when it still runs after so long."""
        if self._returncode is None:
            select.select([self._line], [], [], seconds)
        return self.returncode


class Nursery:
    """The process that programs come from; it takes them along when it goes. A context manager."""

    def __enter__(self) -> Self:
        cluster = model()
        self._line, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno()), str(cluster)],
                pass_fds=(theirs.fileno(),),
                cwd=ROOT,
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,  # as a program's may be, whose streams take the place of these
                stdout=subprocess.DEVNULL,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()
        self._process.communicate(timeout=20)

    def start(self, order: Order, streams: Sequence[int] = ()) -> Program:
        """Start a program, with these as its standard streams, or with none."""
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._line, [json.dumps(asdict(order)).encode()], [theirs.fileno(), *streams])
        pid = int(ours.recv(16))
        ours.setblocking(False)
        return Program(ours, pid)

    def run(self, order: Order, given: bytes, seconds: float) -> "subprocess.CompletedProcess[bytes]":
        """Run a program to its end, with something on standard input; return how it ended and what it said."""
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
_nurseries: list[Nursery] = []


def fork_server() -> Nursery:
    """Return the nursery of all tests in this process; the first who asks has it opened."""
    if not _nurseries:
        _nurseries.append(_common.enter_context(Nursery()))
    return _nurseries[0]


def close_fork_server() -> None:
    """Close it, if it was opened."""
    _nurseries.clear()
    _common.close()


def main() -> None:
    ours = (module.name for module in pkgutil.walk_packages(headwater.__path__, "headwater."))
    for name in (*ours, *WHEN_NEEDED, *pool._PRELOAD):
        importlib.import_module(name)
    gc.freeze()  # keeps the pages shared with the programs
    born = _bear(socket.socket(fileno=int(sys.argv[1])))
    if born:
        order, streams = born
        _become(order, streams)
        pool._ForkServer = ForkedServer  # type: ignore[misc]
        with use_for_clusters(copying(Path(sys.argv[2]))):
            _run(order)


def _run(order: Order) -> None:
    """Run a program, and end it as Python does, but for taking all modules apart: those are shared with the nursery.

    To copy their pages in order to free them would take longer than most programs do.
    """
    try:
        importlib.import_module(order.module).main(order.words)
    except SystemExit as ending:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):  # what cannot be written is Python's to tell
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            if isinstance(ending.code, int):
                os._exit(ending.code)
        raise


def _bear(control: socket.socket) -> tuple[Order, list[int]] | None:
    """Fork a child for each order; return order and streams in the child, and None here when there are no more."""
    children: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for ready in select.select([control.fileno(), *children], [], [])[0]:
            if ready in children:
                pid, line = children.pop(ready)
                os.close(ready)
                _tell(line, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
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
            _tell(line, pid)
            children[os.pidfd_open(pid)] = (pid, line)


def _tell(line: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the test may have lost its interest
        line.send(str(number).encode())


def _become(order: Order, streams: Sequence[int]) -> None:
    """Be as if started in that folder by a shell: with nothing of the nursery's open, nor of its environment."""
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
