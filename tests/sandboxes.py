"""One fork server for the sandboxes of all tests in a process, because importing the parsers takes 0.25 s.

The sandbox and its children are real. test_sandbox.py and every started program show how a fork server starts, dies and
ends its children.
"""

import itertools
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from headwater.sandbox.child import serve
from headwater.sandbox.pool import Sandbox, _ForkServer

_servers: dict[int, _ForkServer] = {}  # by the memory limit of a child
_numbers = itertools.count(1)


class SharedServer(_ForkServer):
    """The fork server of one sandbox. It has its own children in the process that all sandboxes share."""

    def __init__(self, server: _ForkServer) -> None:
        self._server = server
        self._common: dict[int, int] = {}  # the number of a child in this sandbox, and in the process

    @property
    def is_running(self) -> bool:
        return self._server.is_running

    def fork(self, number: int) -> tuple[socket.socket, int | None]:
        self._common[number] = next(_numbers)
        return self._server.fork(self._common[number])

    def kill(self, number: int) -> None:
        if number in self._common:
            self._server.kill(self._common.pop(number))

    async def close(self) -> None:
        self.end()

    def end(self) -> None:
        for number in list(self._common):
            self.kill(number)


class SharedSandbox(Sandbox):
    """A sandbox that uses the common fork server."""

    def _get_server(self) -> _ForkServer:
        if self._server is None or not self._server.is_running:
            common = _servers.get(self.memory_mb)
            if common is None or not common.is_running:
                common = _servers[self.memory_mb] = _ForkServer(self.memory_mb * 1024 * 1024, self.preload)
            self._server = SharedServer(common)
        return self._server


def end_servers() -> None:
    while _servers:
        _servers.popitem()[1].end()


class ForkedServer(_ForkServer):
    """A fork server that is forked from a program, which has imported the parsers already."""

    def __init__(self, memory_bytes: int, preload: Sequence[str]) -> None:
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        with theirs:
            pid = os.fork()
            if pid == 0:
                _serve(theirs.fileno(), memory_bytes, preload)
        self._process = _Forked(pid)  # type: ignore[assignment]


class _Forked:
    """The part of Popen that the owner of a fork server needs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self) -> int:
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def _serve(descriptor: int, memory_bytes: int, preload: Sequence[str]) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        os.dup2(descriptor, 3)
        os.closerange(4, 1024)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        os.close(nothing)
        os.environ.clear()
        # It starts with all memory that the program has mapped, so this is added to the limit. A child may then use as
        # much as a child of a started fork server.
        serve(3, memory_bytes + _size(), preload)
    finally:
        os._exit(0)


def _size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
