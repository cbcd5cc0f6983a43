"""Temporary folders, in memory if there is enough: no file of a test has to survive a power cut."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def _memory() -> Path | None:
    folder = Path("/dev/shm")
    if not folder.exists():
        return None
    room = os.statvfs(folder)
    is_plenty = room.f_bavail * room.f_frsize > 8 << 30
    return folder if is_plenty and not room.f_flag & os.ST_NOEXEC else None


MEMORY = _memory()


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Open a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="headwater-tests-", dir=MEMORY, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
