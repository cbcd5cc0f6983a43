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

    def make_room(self) -> None:
        """Make the disk larger."""
        subprocess.run(["mount", "-o", "remount,size=64m", self.folder], check=True)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """Mount a disk with space for about eighty files."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=320k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a disk here (needs root)")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", folder], check=True)
