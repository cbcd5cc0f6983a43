"""One fork server for the sandboxes of all tests in a process: each would take a quarter of a second to import parsers.

The sandbox is the real one, and so are its children. How a fork server starts, dies and takes its children along is
shown by test_sandbox.py and by every program that is started.
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

_servers: dict[int, _ForkServer] = {}  # by how much memory a child may have
_numbers = itertools.count(1)


class LentServer(_ForkServer):
    """A fork server as one sandbox sees it: the children are its own, the process is everybody's."""

    def __init__(self, server: _ForkServer) -> None:
        self._server = server
        self._common: dict[int, int] = {}  # the sandbox's number of a child, and everybody's

    @property
    def is_running(self) -> bool:
        return self._server.is_running

    def fork(self, number: int) -> socket.socket:
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


class LodgingSandbox(Sandbox):
    """A sandbox that has no fork server of its own."""

    def _get_server(self) -> _ForkServer:
        if self._server is None or not self._server.is_running:
            common = _servers.get(self._memory_bytes)
            if common is None or not common.is_running:
                common = _servers[self._memory_bytes] = _ForkServer(self._memory_bytes, self._preload)
            self._server = LentServer(common)
        return self._server


def end_servers() -> None:
    while _servers:
        _servers.popitem()[1].end()


class ForkedServer(_ForkServer):
    """A fork server that is forked itself, from a program that has imported the parsers already."""

    def __init__(self, memory_bytes: int, preload: Sequence[str]) -> None:
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        with theirs:
            pid = os.fork()
            if pid == 0:
                _serve(theirs.fileno(), memory_bytes, preload)
        self._process = _Forked(pid)  # type: ignore[assignment]


class _Forked:
    """As much of a Popen as a fork server's owner needs."""

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
        # It begins with more than a fork server that was started: all that the program has mapped. So much is added to
        # the limit; what a child may take beyond that is the same, but for pages that it shares and never uses.
        serve(3, memory_bytes + _size(), preload)
    finally:
        os._exit(0)


def _size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
