"""The processes that a browser consists of, as the machine tells of them: whether they run, what they hold, their end.

Of a process in Chromium's own sandbox its status can still be read, though little else.
"""

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

# What a process has for itself, or shares with its browser's others, but not the program that all of them run.
_HELD = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s*(\d+) kB", re.MULTILINE)
_ENDED = (b"Z", b"X")


def is_running(pid: int) -> bool:
    """Tell whether there is such a process, and more of it than its exit code."""
    stat = _stat(pid)
    return stat is not None and stat[0] not in _ENDED


def end_session(session: int) -> None:
    """End every process of a session, stopped ones too."""
    for pid in _members(session):
        _kill(pid)


def curb(session: int, most_bytes: int) -> bool:
    """End the largest process of a session that holds too much memory, and tell whether that was necessary."""
    held = {pid: _held_bytes(pid) for pid in _members(session)}
    if sum(held.values()) <= most_bytes:
        return False
    _kill(max(held, key=held.__getitem__))
    return True


def _members(session: int) -> Iterator[int]:
    for name in filter(str.isdecimal, os.listdir("/proc")):
        stat = _stat(int(name))
        if stat and stat[0] not in _ENDED and int(stat[3]) == session:
            yield int(name)


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
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
