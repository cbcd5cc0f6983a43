"""The only raw files (spec 1.5).

Bytes go to `<data>/corpus/<source>/bodies/raw/<subpath>`: written under `.tmp/` beside, flushed to disk, moved into
place. Only then may a row that names them be committed. A kill in between may leave a draft, for `sweep` to remove.

While a backup is under way (corpus_copy.py) it holds `<data>/corpus/.lock`, and what is replaced is set aside first.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from headwater.core.errors import StorageFailed

RAW = ("bodies", "raw")
TEMPORARY = ".tmp"
LOCK = ".lock"
ASIDE = "replaced"
_DRAFT_BYTES = 16
_DRAFT = re.compile(rf"[0-9a-f]{{{_DRAFT_BYTES * 2}}}")


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file that is safely in place; `path` is relative to the corpus folder."""

    path: str
    sha256: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Swept:
    """How many drafts were left behind, and how many bytes they had together."""

    drafts: int = 0
    size: int = 0


class Corpus:
    """The raw files below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def folders(self) -> list[str]:
        """Name the folders that raw files were ever put in: one a source."""
        if not self.folder.is_dir():
            return []
        return sorted(entry.name for entry in self.folder.iterdir() if entry.is_dir())

    def write(self, source: str, subpath: str, body: bytes, still_ours: Callable[[], bool] = lambda: True) -> RawFile:
        """Put bytes in place, whole or not at all. Blocks on the disk: call it in a thread.

        `still_ours` is asked last: a writer that was held up until another had its turn must not undo the other's work.
        """
        relative = raw_path(source, subpath)
        target = self.folder / relative
        temporary = self.folder.joinpath(source, *RAW, TEMPORARY, secrets.token_hex(_DRAFT_BYTES))
        try:
            _make_folders(temporary.parent)
            _make_folders(target.parent)
            _write_durably(temporary, body)
            if not still_ours():
                raise TimeoutError("the disk took too long")
            with self._no_backup_beginning() as backup_under_way:
                if backup_under_way:
                    _set_aside(target, str(relative), temporary.parent)
                os.replace(temporary, target)
            _flush_folder(target.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise StorageFailed(f"The raw file {relative} cannot be written: {error.strerror or error}.") from error
        return RawFile(str(relative), hashlib.sha256(body).digest(), len(body))

    def read(self, path: str, most: int = -1) -> bytes:
        """Return the bytes of a raw file, by the path its row carries; the first `most`, where so many are enough."""
        return _read(self.folder / path, most)

    def holds(self, raw: RawFile) -> bool:
        """Tell whether a file is there and is the one that was put in place. Blocks on the disk."""
        return is_that(self.folder / raw.path, raw)

    def open_lock(self, *, to_hold: bool = False) -> BinaryIO:
        """Open what a backup keeps locked; to be closed. The folder must be there."""
        path = self.folder / LOCK
        if not path.exists():
            path.touch()
            owner = self.folder.stat()
            if os.geteuid() == 0:  # a backup that root makes must not lock out who fetches
                os.chown(path, owner.st_uid, owner.st_gid)
        return path.open("r+b" if to_hold else "rb")  # a network file system lets only a writer hold

    @contextlib.contextmanager
    def _no_backup_beginning(self) -> Iterator[bool]:
        """Let no backup begin until this ends; True when one is under way already."""
        with self.open_lock() as lock:
            under_way = False
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                under_way = True
            except OSError:  # a file system without locks, on which no backup can be made
                pass
            yield under_way

    def sweep(self, source: str, before: datetime, *, dry_run: bool = False) -> Swept:
        """Remove the drafts of a source that were last written before a time, or only count them.

        Nothing else is ever removed: drafts are the regular files directly in the source's folder of drafts that have a
        draft's name, and no link below the corpus folder is followed. Blocks on the disk: call it in a thread.
        """
        try:
            with _opened(self.folder, source, *RAW, TEMPORARY) as folder:
                found = _old_drafts(folder, before.timestamp())
                sizes = [size for name, size in found if dry_run or _removed(folder, name)]
        except FileNotFoundError:
            return Swept()  # nothing was ever drafted
        except OSError as error:
            raise StorageFailed(
                f"The drafts of source {source} cannot be swept: {error.strerror} (links are not followed)."
            ) from error
        return Swept(len(sizes), sum(sizes))


def raw_path(source: str, subpath: str) -> PurePosixPath:
    """Return the path below the corpus folder; a subpath that would leave its source's folder is refused."""
    parts = PurePosixPath(subpath).parts
    stays = parts and not subpath.startswith("/") and not any(part in ("..", ".", TEMPORARY) for part in parts)
    if not stays or not all(_is_a_name(part) for part in parts):
        raise StorageFailed(f"The subpath {subpath!r} of source {source} does not stay inside the source's folder.")
    return PurePosixPath(source, *RAW, *parts)


def is_that(file: Path, raw: RawFile) -> bool:
    """Tell whether a file is there and has the bytes that were put in place, wherever it is. Blocks on the disk."""
    try:
        body = _read(file, raw.size + 1)
    except OSError:
        return False
    return len(body) == raw.size and hashlib.sha256(body).digest() == raw.sha256


def aside_name(path: str) -> str:
    """Return how the names begin of what was set aside for a raw file, in the drafts' folder of its source."""
    return f"{ASIDE}.{path_hash(path).hex()}."


def path_hash(path: str) -> bytes:
    """Return what a raw file's path is told by in the names of its versions that were set aside."""
    return hashlib.sha256(path.encode()).digest()


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name, which costs nothing and is safe as no file is ever changed in place; else copy it."""
    try:
        os.link(source, target)
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError:  # on another disk, or on one that knows no links
        shutil.copy2(source, target)


def _read(file: Path, most: int) -> bytes:
    with file.open("rb") as opened:
        return opened.read(most)


def _set_aside(target: Path, path: str, folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # nothing is replaced
        link_or_copy(target, folder / f"{aside_name(path)}{secrets.token_hex(_DRAFT_BYTES)}")


def _is_a_name(part: str) -> bool:
    """Tell whether a file system takes this as the name of a file."""
    try:
        return "\0" not in part and len(part.encode()) <= 255
    except UnicodeEncodeError:
        return False


@contextlib.contextmanager
def _opened(folder: Path, *below: str) -> Iterator[int]:
    """Open a folder step by step, so that no name and no link on the way down can lead elsewhere."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in below:
            if name == ".." or "/" in name:
                raise NotADirectoryError(errno.ENOTDIR, f"{name} is not a folder's name")
            outer = descriptor
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=outer)
            os.close(outer)
        yield descriptor
    finally:
        os.close(descriptor)


def _old_drafts(folder: int, before: float) -> Iterator[tuple[str, int]]:
    """Find drafts last written before a time: their names and sizes."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # it was put in place just now
                known = entry.stat(follow_symlinks=False)
                if _DRAFT.fullmatch(entry.name) and stat.S_ISREG(known.st_mode) and known.st_mtime < before:
                    yield entry.name, known.st_size


def _removed(folder: int, name: str) -> bool:
    """Remove a file; False when somebody else has."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


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
