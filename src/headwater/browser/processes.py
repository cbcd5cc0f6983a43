"""The processes that a browser consists of, as the machine tells of them: whether they run, what they hold, their end.

Of a process in Chromium's own sandbox its status can still be read, though little else.
"""

import contextlib
import os
import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

# What a process has for itself, or shares with its browser's others, but not the program that all of them run.
_HELD = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s*(\d+) kB", re.MULTILINE)
_ENDED = (b"Z", b"X")
_BUSY_TICKS = 20  # whoever has worked for less than this disturbs nobody


def is_running(pid: int) -> bool:
    """Tell whether there is such a process, and more of it than its exit code."""
    stat = _stat(pid)
    return stat is not None and stat[0] not in _ENDED


def end_session(session: int) -> None:
    """End every process of a session, stopped ones too."""
    for pid in _members(session):
        _kill(pid)


def end_marked(variable: str) -> None:
    """End every process that has a variable in its environment, `NAME=value`, as far as it may be looked at."""
    for pid in filter(lambda pid: pid != os.getpid(), _all()):
        with contextlib.suppress(OSError):
            if os.fsencode(variable) in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                _kill(pid)


def of_network(session: int) -> list[int]:
    """Return the processes of a session that carry what all of its pages ask for."""
    return [pid for pid in _members(session) if b"network.mojom.NetworkService" in _words(pid)]


def curb(session: int, most_bytes: int) -> int:
    """End the largest process of a session that holds too much memory, and return how much it holds in all, else 0."""
    held = {pid: _held_bytes(pid) for pid in _members(session)}
    total = sum(held.values())
    if total <= most_bytes:
        return 0
    _kill(max(held, key=held.__getitem__))
    return total


def page_ticks(session: int) -> dict[int, int]:
    """Return how long each process that runs pages has worked so far, in the machine's ticks."""
    ticks = {}
    for pid in _members(session):
        stat = _stat(pid)
        if stat and b"--type=renderer" in _words(pid):
            ticks[pid] = int(stat[11]) + int(stat[12])
    return ticks


def end_busiest(session: int, since: Mapping[int, int]) -> bool:
    """End the process that has worked the most on pages since it was looked at, and tell whether there was one."""
    worked = {pid: ticks - since.get(pid, 0) for pid, ticks in page_ticks(session).items()}
    if max(worked.values(), default=0) < _BUSY_TICKS:
        return False
    _kill(max(worked, key=worked.__getitem__))
    return True


def _all() -> Iterator[int]:
    return map(int, filter(str.isdecimal, os.listdir("/proc")))


def _members(session: int) -> Iterator[int]:
    for pid in _all():
        stat = _stat(pid)
        if stat and stat[0] not in _ENDED and int(stat[3]) == session:
            yield pid


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _stat(pid: int) -> list[bytes] | None:
    """Return what is told of a process after its name: its state, its parent, its group, its session."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None


def _held_bytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return 0
    return sum(map(int, _HELD.findall(status))) * 1024


def _kill(pid: int) -> None:
    # It may be gone, or a helper of Chromium's sandbox, which is another user's and ends with the rest.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
