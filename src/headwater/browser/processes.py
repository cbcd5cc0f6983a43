"""The processes and the temporary folder of a browser.

A browser and its driver write only to one folder, which is removed when they end. The owner of the folder holds a lock
in it. The next start of a browser removes the folders of owners that were killed, and ends the processes they left.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

# Memory of one process, or shared within its browser, without the program file that all of them map. psutil reads these
# numbers from /proc/PID/smaps, which is closed for processes in Chromium's own sandbox.
_HELD = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s*(\d+) kB", re.MULTILINE)
_BUSY_SECONDS = 0.2  # a process that worked less does not block the browser

_PREFIX = "hw-browser-"
# Chromium puts a socket into the folder. The path of a socket has at most 107 characters.
_MAX_PARENT_LENGTH = 34
_LOCK = "owner"
_TRIES, _PAUSE_SECONDS = 40, 0.05  # a process that was just killed may still write


def is_running(pid: int) -> bool:
    """Return whether the process runs. A zombie does not."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False


def kill_session(session: int) -> None:
    """Kill every process of a session, also stopped ones."""
    for process in _session_processes(session):
        _kill(process)


def kill_marked(variable: str, value: str) -> None:
    """Kill every process that has this variable in its environment, as far as this user may read it."""
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if pid != os.getpid() and process.environ().get(variable) == value:
                _kill(process)


def find_network_processes(session: int) -> list[int]:
    """Return the processes of a session that send the requests of all its pages."""
    return [one.pid for one in _session_processes(session) if "network.mojom.NetworkService" in _command(one)]


def limit_memory(session: int, max_bytes: int) -> int:
    """Kill the largest process of a session that uses too much memory. Returns the memory in use then, else 0."""
    held = {process: _held_bytes(process.pid) for process in _session_processes(session)}
    total = sum(held.values())
    if total <= max_bytes:
        return 0
    _kill(max(held, key=held.__getitem__))
    return total


def measure_page_work(session: int) -> dict[psutil.Process, float]:
    """Return the CPU seconds of each process that runs pages."""
    seconds = {}
    for process in _session_processes(session):
        with contextlib.suppress(psutil.Error):
            if "--type=renderer" in _command(process):
                times = process.cpu_times()
                seconds[process] = times.user + times.system
    return seconds


def kill_busiest(session: int, before: Mapping[psutil.Process, float]) -> bool:
    """Kill the process that worked most on pages since `before` was measured. Returns False if none worked much."""
    worked = {process: seconds - before.get(process, 0) for process, seconds in measure_page_work(session).items()}
    if max(worked.values(), default=0) < _BUSY_SECONDS:
        return False
    _kill(max(worked, key=worked.__getitem__))
    return True


def _session_processes(session: int) -> Iterator[psutil.Process]:
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(pid) == session:
                yield psutil.Process(pid)


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _held_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        return sum(map(int, _HELD.findall(Path(f"/proc/{pid}/status").read_bytes()))) * 1024
    return 0


def _kill(process: psutil.Process) -> None:
    # It may have ended. A helper of Chromium's sandbox belongs to another user and ends with the others.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class BrowserFolder:
    """The temporary folder of one browser."""

    path: Path
    lock: int  # the descriptor of the locked file

    def remove(self) -> None:
        """Kill the processes that use the folder, and remove it."""
        _clear(self.path)
        os.close(self.lock)


def make_folder() -> BrowserFolder:
    """Make the folder of a new browser, and remove the folders that have no owner any more."""
    parent = Path(tempfile.gettempdir())
    if len(str(parent)) > _MAX_PARENT_LENGTH:
        parent = Path("/tmp")  # noqa: S108 (mkdtemp makes a folder that only this user may enter)
    ours = f"{_PREFIX}{os.getpid()}-"  # a process that opens its own lock file again would lose the lock
    for path in parent.glob(f"{_PREFIX}*"):
        if not path.name.startswith(ours) and _is_abandoned(path):
            _clear(path)
    path = Path(tempfile.mkdtemp(prefix=ours, dir=parent))
    unlocked = path / f".{_LOCK}"
    lock = os.open(unlocked, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.lockf(lock, fcntl.LOCK_EX)
    unlocked.rename(path / _LOCK)  # other processes find the file only when it is locked
    return BrowserFolder(path, lock)


def _is_abandoned(path: Path) -> bool:
    try:
        if path.lstat().st_uid != os.geteuid():
            return False
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False  # another process makes or removes it just now
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(lock)


def _clear(path: Path) -> None:
    for _ in range(_TRIES):
        kill_marked("TMPDIR", str(path))
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(_PAUSE_SECONDS)
