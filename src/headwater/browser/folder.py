"""The one folder that a browser and its driver write to, whatever they call it: it goes with them, however they end.

Its owner has a lock in it. What a process left behind that was killed is removed, with what still runs there, by the
next one that starts a browser.
"""

import fcntl
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from headwater.browser.processes import end_marked

_PREFIX = "hw-browser-"
# Chromium puts a socket into it, whose whole name may not be longer than 107 characters.
_LONGEST_PARENT = 34
_LOCK = "owner"
_TRIES, _PAUSE_SECONDS = 40, 0.05  # what was just ended may still be writing


@dataclass(frozen=True, slots=True)
class BrowserFolder:
    """A folder of ours."""

    path: Path
    lock: int  # the open file that says so

    def remove(self) -> None:
        """End what runs in it, and remove it."""
        _clear(self.path)
        os.close(self.lock)


def make_folder() -> BrowserFolder:
    """Make a folder for a browser that is to be started; those that nobody owns any more are removed."""
    _sweep()
    path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_parent()))
    beginning = path / f".{_LOCK}"
    lock = os.open(beginning, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.lockf(lock, fcntl.LOCK_EX)
    beginning.rename(path / _LOCK)  # nobody finds it before it is locked
    return BrowserFolder(path, lock)


def _parent() -> Path:
    usual = tempfile.gettempdir()
    return Path(usual if len(usual) <= _LONGEST_PARENT else "/tmp")  # noqa: S108 (only we may enter what is made)


def _sweep() -> None:
    ours = f"{_PREFIX}{os.getpid()}-"  # to look at a lock of one's own would undo it
    for path in _parent().glob(f"{_PREFIX}*"):
        if not path.name.startswith(ours) and _is_nobodys(path):
            _clear(path)


def _is_nobodys(path: Path) -> bool:
    try:
        if path.lstat().st_uid != os.geteuid():
            return False
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False  # it is being made or removed
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
        end_marked(f"TMPDIR={path}")
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(_PAUSE_SECONDS)
