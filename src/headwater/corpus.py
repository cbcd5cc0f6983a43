"""The only raw files (spec 1.5).

Bytes go to `<data>/corpus/<source>/bodies/raw/<subpath>`: written under `.tmp/` beside, flushed to disk, moved into
place. Only then may a row that names them be committed.
"""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from headwater.errors import StorageFailed

TEMPORARY = ".tmp"


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file that is safely in place; `path` is relative to the corpus folder."""

    path: str
    sha256: bytes
    size: int


class Corpus:
    """The raw files below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, source: str, subpath: str, body: bytes, still_ours: Callable[[], bool] = lambda: True) -> RawFile:
        """Put bytes in place, whole or not at all. Blocks on the disk: call it in a thread.

        `still_ours` is asked last: a writer that was held up until another had its turn must not undo the other's work.
        """
        relative = raw_path(source, subpath)
        target = self._folder / relative
        temporary = self._folder / source / "bodies" / "raw" / TEMPORARY / secrets.token_hex(16)
        try:
            _make_folders(temporary.parent)
            _make_folders(target.parent)
            _write_durably(temporary, body)
            if not still_ours():
                raise TimeoutError("the disk took too long")
            os.replace(temporary, target)
            _flush_folder(target.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise StorageFailed(f"The raw file {relative} cannot be written: {error.strerror or error}.") from error
        return RawFile(str(relative), hashlib.sha256(body).digest(), len(body))

    def read(self, path: str) -> bytes:
        """Return the bytes of a raw file, by the path its row carries."""
        return (self._folder / path).read_bytes()


def raw_path(source: str, subpath: str) -> PurePosixPath:
    """Return the path below the corpus folder; a subpath that would leave its source's folder is refused."""
    parts = PurePosixPath(subpath).parts
    stays = parts and not subpath.startswith("/") and not any(part in ("..", ".", TEMPORARY) for part in parts)
    if not stays or not all(_is_a_name(part) for part in parts):
        raise StorageFailed(f"The subpath {subpath!r} of source {source} does not stay inside the source's folder.")
    return PurePosixPath(source, "bodies", "raw", *parts)


def _is_a_name(part: str) -> bool:
    """Tell whether a file system takes this as the name of a file."""
    try:
        return "\0" not in part and len(part.encode()) <= 255
    except UnicodeEncodeError:
        return False


def _make_folders(folder: Path) -> None:
    """Make a folder and those above it; each new one is flushed into its parent, or a power cut could take it away."""
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    folder.mkdir(exist_ok=True)
    _flush_folder(folder.parent)


def _write_durably(path: Path, body: bytes) -> None:
    with path.open("xb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
