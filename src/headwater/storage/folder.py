"""The corpus folder: the only place of raw files (spec 1.5).

Bytes go to `<data>/corpus/<source>/bodies/raw/<subpath>`. They are written below `.tmp/`, flushed to the disk and moved
into place. Only then may a row that names the file be committed. A kill may leave a draft, which `sweep` removes.

A running backup (corpus_copy.py) locks `<data>/corpus/.lock`. A writer then keeps the replaced version for the backup.
"""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

import structlog

from headwater.core.errors import StorageFailed

log = structlog.get_logger()
RAW = ("bodies", "raw")
TEMPORARY = ".tmp"
LOCK = ".lock"
REPLACED = "replaced"
FILE_MODE, FOLDER_MODE = 0o640, 0o750  # raw files are for Headwater and for readers of its group
_DRAFT_BYTES = 16
_KNOWN_FOLDERS = 10_000
_begin_write = getattr(ctypes.CDLL(None), "sync_file_range", None)  # of Linux; without it, fsync does all the work
_WRITE = 2
_DRAFT = re.compile(rf"[0-9a-f]{{{_DRAFT_BYTES * 2}}}")


class RawFile(NamedTuple):
    """A file in the corpus. `path` is relative to the corpus folder."""

    path: str
    sha256: bytes
    size: int


class NewRawFile(NamedTuple):
    """A file to write. `still_ours` is called last: a slow writer that lost its lease must not undo the next one's."""

    source: str
    subpath: str
    body: bytes
    still_ours: Callable[[], bool] = lambda: True


class Drafts(NamedTuple):
    """How many drafts killed writers left, and their size in bytes."""

    files: int = 0
    size: int = 0


class Corpus:
    """The raw files below one folder. All methods block on the disk: call them in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: set[Path] = set()  # folders that are there, unless a source was removed meanwhile

    def folders(self) -> list[str]:
        """List the folders of sources."""
        if not self.folder.is_dir():
            return []
        return sorted(entry.name for entry in self.folder.iterdir() if entry.is_dir())

    def write(self, source: str, subpath: str, body: bytes) -> RawFile:
        """Put bytes in place, whole or not at all."""
        (written,) = self.write_batch([NewRawFile(source, subpath, body)])
        if isinstance(written, StorageFailed):
            raise written
        return written

    def write_batch(self, files: Sequence[NewRawFile]) -> list[RawFile | StorageFailed]:
        """Put files in place, each whole or not at all. Return the result of each.

        All drafts are written first, so that the disk works on all of them at once. Each folder is flushed once.
        """
        drafts = [_Draft(self.folder, file) for file in files]
        _do_each(drafts, self._write_draft)
        _do_each(drafts, _Draft.flush)
        if any(not draft.error for draft in drafts):
            try:
                with self._no_backup_starting() as backup_is_running:
                    _do_each(drafts, lambda draft: draft.put_in_place(backup_is_running))
            except OSError as error:
                for draft in drafts:
                    draft.fail(error)
        for folder in dict.fromkeys(draft.target.parent for draft in drafts if not draft.error):
            try:
                _flush_folder(folder)
            except OSError as error:
                for draft in drafts:
                    if draft.target.parent == folder:
                        draft.fail(error)
        if any(draft.error for draft in drafts):  # another program may have removed folders
            self._known.clear()
        return [draft.error or RawFile(draft.path, draft.sha256, len(draft.file.body)) for draft in drafts]

    def _write_draft(self, draft: "_Draft") -> None:
        try:
            for folder in (draft.temporary.parent, draft.target.parent):
                self._make_folders(folder)
            draft.write()
        except FileNotFoundError:  # the folders were removed with their source
            self._known.clear()
            for folder in (draft.temporary.parent, draft.target.parent):
                self._make_folders(folder)
            draft.write()

    def _make_folders(self, folder: Path) -> None:
        """Make a folder, unless it was made before."""
        if folder in self._known:
            return
        make_folders(folder)
        if len(self._known) >= _KNOWN_FOLDERS:
            self._known.clear()
        self._known.add(folder)

    def read(self, path: str, limit: int = -1) -> bytes:
        """Return the bytes of a raw file, or the first `limit` of them, by the path in its row."""
        with (self.folder / path).open("rb") as file:
            return file.read(limit)

    def has(self, raw: RawFile) -> bool:
        """Return whether a file is in place with the size and hash of its row."""
        return matches(self.folder / raw.path, raw)

    def open_lock(self, *, exclusive: bool = False) -> BinaryIO:
        """Open the file that a running backup locks. The corpus folder must exist."""
        path = self.folder / LOCK
        if not path.exists():
            path.touch(FILE_MODE)
            owner = self.folder.stat()
            if os.geteuid() == 0:  # fetchers of another user need the file too
                os.chown(path, owner.st_uid, owner.st_gid)
        return path.open("r+b" if exclusive else "rb")  # network file systems let only a writer lock exclusively

    def remove(self, paths: Iterable[str]) -> set[str] | None:
        """Remove raw files, by the paths in their rows. Return the paths of those that are gone.

        A running backup may need the files, so they stay until it has ended, and the result is None. A file that cannot
        be removed stays too.
        """
        if not self.folder.is_dir():
            return set()
        gone = set()
        with self._no_backup_starting() as backup_is_running:
            if backup_is_running:
                return None
            for path in paths:
                try:
                    (self.folder / path).unlink(missing_ok=True)
                except OSError as error:
                    log.warning("raw_file.not_removed", path=path, error=str(error))
                else:
                    gone.add(path)
        return gone

    def copy(self, path: str, target: str) -> None:
        """Give a raw file a second path, which is safe on the disk afterwards. A missing file has none."""
        source, place = self.folder / path, self.folder / target
        try:
            if source == place or not source.exists():
                return
            make_folders(place.parent)
            place.unlink(missing_ok=True)  # a copy that a kill may have cut
            link_or_copy(source, place)
            with place.open("rb") as file:
                os.fsync(file.fileno())
            _flush_folder(place.parent)
        except OSError as error:
            raise StorageFailed(f"The raw file {path} cannot be moved: {error.strerror or error}.") from error

    def remove_source(self, source: str) -> None:
        """Remove the folder of a source."""
        folder = self.folder / source
        if not folder.is_dir():
            return
        with self._no_backup_starting() as backup_is_running:
            if backup_is_running:
                raise StorageFailed(f"The folder of source {source} stays while a backup runs. Try again later.")
            try:
                shutil.rmtree(folder)
            except OSError as error:
                raise StorageFailed(f"The folder {folder} cannot be removed: {error.strerror}.") from error

    @contextlib.contextmanager
    def _no_backup_starting(self) -> Iterator[bool]:
        """Keep a backup from starting during the block. Yields whether one runs already."""
        with self.open_lock() as lock:
            is_running = False
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                is_running = True
            except OSError:  # a file system without locks: no backup can run there
                pass
            yield is_running

    def sweep(self, source: str, before: datetime, dry_run: bool = False) -> Drafts:
        """Remove the drafts of a source that were last written before a time, or only count them.

        Only regular files directly in the draft folder with the name of a draft are removed. No link is followed.
        """
        try:
            with _open_folder(self.folder, source, *RAW, TEMPORARY) as folder:
                found = _find_old_drafts(folder, before.timestamp())
                sizes = [size for name, size in found if dry_run or _remove(folder, name)]
        except FileNotFoundError:
            return Drafts()
        except OSError as error:
            raise StorageFailed(
                f"The drafts of source {source} cannot be swept: {error.strerror} (links are not followed)."
            ) from error
        return Drafts(len(sizes), sum(sizes))


class _Draft:
    """A raw file on its way to its place."""

    def __init__(self, corpus: Path, file: NewRawFile) -> None:
        self.file = file
        self.error: StorageFailed | None = None
        self.path, self.target, self.temporary = "", corpus, corpus
        self._opened: int | None = None
        try:
            self.path = str(raw_path(file.source, file.subpath))
        except StorageFailed as error:
            self.error = error
            return
        self.target = corpus / self.path
        self.temporary = corpus.joinpath(file.source, *RAW, TEMPORARY, secrets.token_hex(_DRAFT_BYTES))

    def write(self) -> None:
        """Write the bytes, and begin to move them to the disk."""
        self._opened = _write_draft(self.temporary, self.file.body)
        self.sha256 = hashlib.sha256(self.file.body).digest()

    def flush(self) -> None:
        """Wait until the bytes are on the disk."""
        assert self._opened is not None
        os.fsync(self._opened)
        self._close()

    def put_in_place(self, backup_is_running: bool) -> None:
        """Rename the file to its place."""
        if not self.file.still_ours():
            raise TimeoutError("the disk took too long")
        if backup_is_running:
            _set_aside(self.target, self.path, self.temporary.parent)
        os.replace(self.temporary, self.target)

    def fail(self, error: OSError) -> None:
        """Keep the error, and remove the draft."""
        if self.error is None:
            self.error = StorageFailed(f"The raw file {self.path} cannot be written: {error.strerror or error}.")
            self.error.__cause__ = error
        with contextlib.suppress(OSError):
            self._close()
        with contextlib.suppress(OSError):
            self.temporary.unlink(missing_ok=True)

    def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            os.close(opened)


def _do_each(drafts: Iterable[_Draft], step: Callable[[_Draft], None]) -> None:
    """Take a step with each draft that has not failed."""
    for draft in drafts:
        if draft.error is None:
            try:
                step(draft)
            except OSError as error:
                draft.fail(error)


def raw_path(source: str, subpath: str) -> PurePosixPath:
    """Return the path below the corpus folder. Raises StorageFailed if the subpath leaves the folder of its source."""
    parts = PurePosixPath(subpath).parts
    stays = parts and not subpath.startswith("/") and not any(part in ("..", ".", TEMPORARY) for part in parts)
    if not stays or not all(_is_file_name(part) for part in parts):
        raise StorageFailed(f"The subpath {subpath!r} of source {source} does not stay inside the source's folder.")
    return PurePosixPath(source, *RAW, *parts)


def matches(file: Path, raw: RawFile) -> bool:
    """Return whether a file exists with the size and hash of a raw file."""
    try:
        with file.open("rb") as opened:
            body = opened.read(raw.size + 1)
    except OSError:
        return False
    return len(body) == raw.size and hashlib.sha256(body).digest() == raw.sha256


def replaced_prefix(path: str) -> str:
    """Return how the names of the replaced versions of a raw file begin."""
    return f"{REPLACED}.{path_hash(path).hex()}."


def path_hash(path: str) -> bytes:
    """Return the hash that names a raw file in the names of its replaced versions."""
    return hashlib.sha256(path.encode()).digest()


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it if the disk has no links. A link is safe: files never change in place."""
    try:
        os.link(source, target)
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError:
        shutil.copy2(source, target)


def make_folders(folder: Path) -> None:
    """Make a folder and its parents. Each new folder is flushed into its parent, to survive a power cut."""
    if folder.is_dir():
        return
    make_folders(folder.parent)
    folder.mkdir(FOLDER_MODE, exist_ok=True)
    _flush_folder(folder.parent)


def _set_aside(target: Path, path: str, folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # the file is new
        link_or_copy(target, folder / f"{replaced_prefix(path)}{secrets.token_hex(_DRAFT_BYTES)}")


def _is_file_name(part: str) -> bool:
    try:
        return "\0" not in part and len(part.encode()) <= 255
    except UnicodeEncodeError:
        return False


@contextlib.contextmanager
def _open_folder(folder: Path, *below: str) -> Iterator[int]:
    """Open a folder step by step, so that no name and no link on the way leads elsewhere."""
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


def _find_old_drafts(folder: int, before: float) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # its writer has just moved it into place
                known = entry.stat(follow_symlinks=False)
                if _DRAFT.fullmatch(entry.name) and stat.S_ISREG(known.st_mode) and known.st_mtime < before:
                    yield entry.name, known.st_size


def _remove(folder: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def _write_draft(path: Path, body: bytes) -> int:
    """Write the bytes of a draft, and return its descriptor. The disk begins to write, and `fsync` waits for it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        written = 0
        while written < len(body):
            written += os.write(descriptor, memoryview(body)[written:])
        if _begin_write is not None:
            _begin_write(descriptor, ctypes.c_int64(0), ctypes.c_int64(0), _WRITE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
