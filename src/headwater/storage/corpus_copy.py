"""Copies of raw files: the files that the rows of one database snapshot name, while writers replace files.

A writer replaces a raw file shortly before it commits the new row. The copy therefore locks the corpus before the
snapshot is taken. While the lock is held, writers keep each version that they replace (see `Corpus`).
"""

import contextlib
import fcntl
import hashlib
import itertools
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from headwater.core.errors import BadRequest
from headwater.core.record import record
from headwater.storage.folder import (
    FILE_MODE,
    RAW,
    REPLACED,
    TEMPORARY,
    Corpus,
    RawFile,
    link_or_copy,
    make_folders,
    matches,
    path_hash,
    replaced_prefix,
)

_CHUNK = 1024 * 1024
_RETRY_SECONDS = 0.002
_CLEAN_ROUNDS = 5
_LOCK_SECONDS = 5.0  # writers hold the lock only for a rename


@record
class Extent:
    """How many files there are, and their size in bytes."""

    files: int
    size: int


class CorpusCopy:
    """A copy of a corpus in progress. It has hard links if it is on the same disk."""

    def __init__(self, corpus: Corpus, target: Path) -> None:
        self.corpus = corpus
        self._target = target
        self._folders: set[Path] = set()
        self._resized: list[RawFile] = []  # the copied file has another size than the row

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all versions of raw files during the block."""
        make_folders(self.corpus.folder)
        with self.corpus.open_lock(exclusive=True) as lock:
            _lock(lock.fileno())
            self._remove_replaced()  # a killed backup may have left some
            try:
                yield
            finally:
                self._remove_replaced()

    def has_all(self, raws: Iterable[RawFile]) -> bool:
        """Return whether the versions that rows name are in the corpus. A row without any file counts as complete."""
        for raw in raws:
            replaced = self._drafts(PurePosixPath(raw.path).parts[0]).glob(f"{replaced_prefix(raw.path)}*")
            is_complete = self.corpus.has(raw) or any(matches(version, raw) for version in replaced)
            if not is_complete and (self.corpus.folder / raw.path).exists():
                return False
        return True

    def copy(self, paths: Iterable[str]) -> None:
        """Copy raw files that are not copied yet."""
        for path in paths:
            self._copy(path)

    def copy_known(self, raws: Iterable[RawFile]) -> int:
        """Copy the raw files that rows name. Returns how many are missing."""
        missing = 0
        for raw in raws:
            if not self._copy(raw.path):
                missing += 1
            elif (self._target / raw.path).stat().st_size != raw.size:
                self._resized.append(raw)
        return missing

    def find_replaced(self) -> dict[bytes, list[Path]]:
        """Return the replaced versions of raw files, by the hash of the path of the file."""
        found = defaultdict(list)
        for source in self.corpus.folders():
            for version in self._drafts(source).glob(f"{REPLACED}.*"):
                found[bytes.fromhex(version.name.split(".")[1])].append(version)
        return dict(found)

    def correct(self, raws: Collection[RawFile], replaced: Mapping[bytes, Sequence[Path]]) -> int:
        """Give replaced and resized files the version of their row. Returns for how many there is no such version."""
        doubtful = {raw.path: raw for raw in (*raws, *self._resized)}
        return sum(not self._correct(raw, replaced.get(path_hash(path), ())) for path, raw in doubtful.items())

    def _correct(self, raw: RawFile, versions: Sequence[Path]) -> bool:
        copy = self._target / raw.path
        if matches(copy, raw):
            return True
        for version in versions:
            if matches(version, raw):
                copy.unlink(missing_ok=True)
                link_or_copy(version, copy)
                return True
        return False

    def _copy(self, path: str) -> bool:
        if not _is_below(path):
            return False
        copy = self._target / path
        if copy.parent not in self._folders:
            make_folders(copy.parent)
            self._folders.add(copy.parent)
        try:
            link_or_copy(self.corpus.folder / path, copy)
        except FileExistsError:
            return True
        except (FileNotFoundError, IsADirectoryError):
            return False
        return True

    def _remove_replaced(self) -> None:
        """Remove the replaced versions. Writers may add some meanwhile; the next backup removes those."""
        for _ in range(_CLEAN_ROUNDS):
            versions = self.find_replaced()
            if not versions:
                return
            for version in itertools.chain.from_iterable(versions.values()):
                version.unlink(missing_ok=True)

    def _drafts(self, source: str) -> Path:
        return self.corpus.folder.joinpath(source, *RAW, TEMPORARY)


def list_raw_files(corpus: Path) -> Iterator[str]:
    """Yield the path of each raw file below a corpus folder. Drafts are left out."""
    sources = [entry for entry in os.scandir(corpus) if entry.is_dir()] if corpus.is_dir() else []
    for source in sources:
        for folder, folders, names in os.walk(Path(source.path, *RAW), onerror=_raise):
            if TEMPORARY in folders:
                folders.remove(TEMPORARY)
            for name in names:
                yield str(Path(folder, name).relative_to(corpus))


def measure(corpus: Path) -> Extent:
    """Count the raw files below a corpus folder."""
    sizes = [(corpus / path).stat().st_size for path in list_raw_files(corpus)]
    return Extent(len(sizes), sum(sizes))


def is_missing(corpus: Path, raw: RawFile) -> bool:
    """Return whether a raw file that a row names is not below a corpus folder."""
    return not (_is_below(raw.path) and (corpus / raw.path).is_file())


def copy_files(source: Path, target: Path, paths: Iterable[str]) -> None:
    """Copy files that are not in the target yet. No links: damage to one folder must not reach the other."""
    for path in paths:
        if not (target / path).exists():
            _copy(source / path, target / path)


def copy_known_files(source: Path, target: Path, raws: Iterable[RawFile]) -> list[str]:
    """Copy the raw files that rows name and that exist. Returns the paths of files that differ from their row."""
    differing = []
    for raw in raws:
        if is_missing(source, raw):
            continue
        if (target / raw.path).exists():
            is_right = matches(target / raw.path, raw)
        else:
            is_right = _copy(source / raw.path, target / raw.path) == raw.sha256
        if not is_right:
            differing.append(raw.path)
    return differing


def _copy(file: Path, copy: Path) -> bytes:
    digest = hashlib.sha256()
    make_folders(copy.parent)
    with file.open("rb") as reading, copy.open("xb") as writing:
        while chunk := reading.read(_CHUNK):
            digest.update(chunk)
            writing.write(chunk)
    shutil.copystat(file, copy)
    copy.chmod(FILE_MODE)
    return digest.digest()


def _is_below(path: str) -> bool:
    """Return whether the path of a row stays below the folder. A damaged row may have another path."""
    return ".." not in PurePosixPath(path).parts and not path.startswith("/")


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _lock(descriptor: int) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise BadRequest(
                    "Another backup of this data folder is running. Wait for its end, or stop it."
                ) from None
            time.sleep(_RETRY_SECONDS)
