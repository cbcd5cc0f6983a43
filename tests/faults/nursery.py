"""Programs in a moment: each is forked from a process that has imported everything, so that a kill meets work.

The real program, started as users do, takes a second of a core to import what it needs: of a hundred kills all but a
few would meet that. What is forked is no less real, and dies no less.
"""

import asyncio
import contextlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from tests.faults import victim
from tests.faults.network import enter

ROOT = Path(__file__).parents[2]
IMPORTED = (
    "headwater.cli",
    "headwater.api",
    "headwater.net.client",
    "headwater.service.running",
    "headwater.sources.site",
)


@dataclass(frozen=True)
class Order:
    """What a program is to be."""

    words: tuple[str, ...]  # of victim.py: a point, a plant, and then the program's own
    folder: str
    environment: Mapping[str, str]
    namespace: str | None = None  # the network to be in, if not the common one


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


class Nursery:
    """The process that programs come from; it takes them along when it goes. A context manager."""

    def __enter__(self) -> Self:
        self._line, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.nursery", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                cwd=ROOT,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()
        self._process.wait(timeout=20)

    def start(self, order: Order) -> Program:
        """Start a program."""
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._line, [json.dumps(asdict(order)).encode()], [theirs.fileno()])
        pid = int(ours.recv(16))
        ours.setblocking(False)
        return Program(ours, pid)


def main() -> None:
    for module in IMPORTED:
        importlib.import_module(module)
    order = _bear(socket.socket(fileno=int(sys.argv[1])))
    if order:
        _become(order)
        victim.main(order.words)


def _bear(control: socket.socket) -> Order | None:
    """Fork a child for each order; return the order in the child, and None here when there are no more."""
    children: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for ready in select.select([control.fileno(), *children], [], [])[0]:
            if ready in children:
                pid, line = children.pop(ready)
                os.close(ready)
                _tell(line, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                line.close()
                continue
            message, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 1)
            if not message:
                for pid, _ in children.values():
                    os.kill(pid, signal.SIGKILL)
                return None
            line = socket.socket(fileno=descriptors[0])
            pid = os.fork()
            if pid == 0:
                return Order(**json.loads(message))
            _tell(line, pid)
            children[os.pidfd_open(pid)] = (pid, line)


def _tell(line: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the test may have lost its interest
        line.send(str(number).encode())


def _become(order: Order) -> None:
    """Be as if started in that folder by a shell: with nothing of the nursery's open, nor of its environment."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1) if os.environ.get("FAULTS_LOUD") else (0, 1, 2):
        os.dup2(nothing, stream)
    os.closerange(3, 1024)
    if order.namespace:
        enter(order.namespace)
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)


if __name__ == "__main__":
    main()
