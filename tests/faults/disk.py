"""A small disk that can be full."""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Disk:
    """A mounted disk."""

    folder: Path

    def make_room(self, size: str = "64m") -> None:
        """Make the disk larger."""
        subprocess.run(["mount", "-o", f"remount,size={size}", self.folder], check=True)

    def make_read_only(self, *, read_only: bool = True) -> None:
        """Refuse all writes, as the kernel does after an error of the disk; or allow them again."""
        option = f"remount,{'ro' if read_only else 'rw'}"
        for attempt in range(200):  # a file that is being written makes the disk busy for a moment
            done = subprocess.run(["mount", "-o", option, self.folder], check=attempt == 199, capture_output=True)
            if done.returncode == 0:
                return


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "320k") -> Iterator[Disk]:
    """Mount a disk, by default with space for about eighty files."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a disk here (needs root)")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", folder], check=True)
