"""The raw files of a backup: those that the rows of one snapshot of the database name, while others are written.

A page that is fetched again replaces its raw file, a moment before its new row is committed. So whoever copies holds
the corpus' lock from before the snapshot is taken: as long as he does, what is replaced is set aside first (`Corpus`),
and every version that was there since is still to be had.
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
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.storage.folder import (
    ASIDE,
    RAW,
    TEMPORARY,
    Corpus,
    RawFile,
    aside_name,
    is_that,
    link_or_copy,
    path_hash,
)

_PIECE = 1024 * 1024
_LOOK_SECONDS = 0.002
_SWEEPS = 5
_BEGIN_SECONDS = 5.0  # writers hold the lock for as long as a rename takes


@dataclass(frozen=True, slots=True)
class Extent:
    """How many files there are, and how many bytes they have together."""

    files: int
    size: int


class CorpusCopy:
    """A copy of a corpus in the making, of hard links where the disk is the same."""

    def __init__(self, corpus: Corpus, target: Path) -> None:
        self.corpus = corpus
        self._target = target
        self._folders: set[Path] = set()
        self.odd: list[RawFile] = []  # whose file has not even the size that its row tells

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Let nothing that is replaced be lost until this ends. Blocks for a moment."""
        self.corpus.folder.mkdir(parents=True, exist_ok=True)
        with self.corpus.open_lock(to_hold=True) as lock:
            _lock(lock.fileno())
            self._drop_aside()  # what a killed backup left
            try:
                yield
            finally:
                self._drop_aside()

    def has_all(self, raws: Iterable[RawFile]) -> bool:
        """Tell whether the bytes that rows speak of are to be had; a file that is not there is not waited for."""
        return all(
            self.corpus.holds(raw)
            or any(is_that(version, raw) for version in self._aside(raw.path))
            or not (self.corpus.folder / raw.path).exists()
            for raw in raws
        )

    def take(self, paths: Iterable[str]) -> None:
        """Copy raw files, but for those that were before."""
        for path in paths:
            self._take(path)

    def take_known(self, raws: Iterable[RawFile]) -> int:
        """Copy the raw files that rows speak of; count those that are not there, and keep the odd ones in mind."""
        missing = 0
        for raw in raws:
            if not self._take(raw.path):
                missing += 1
            elif (self._target / raw.path).stat().st_size != raw.size:
                self.odd.append(raw)
        return missing

    def replaced(self) -> dict[bytes, list[Path]]:
        """Find what was set aside: versions of raw files by the hash of the file's path."""
        found = defaultdict(list)
        for source in self.corpus.folders():
            for version in self._drafts(source).glob(f"{ASIDE}.*"):
                found[bytes.fromhex(version.name.split(".")[1])].append(version)
        return dict(found)

    def settle(self, raws: Collection[RawFile], replaced: Mapping[bytes, Sequence[Path]]) -> int:
        """Of raw files that were replaced, or are odd, take the version that the row speaks of; count where none is."""
        doubtful = {raw.path: raw for raw in (*raws, *self.odd)}
        return sum(not self._settle(raw, replaced.get(path_hash(path), ())) for path, raw in doubtful.items())

    def _settle(self, raw: RawFile, versions: Sequence[Path]) -> bool:
        copy = self._target / raw.path
        if is_that(copy, raw):
            return True
        for version in versions:
            if is_that(version, raw):
                copy.unlink(missing_ok=True)
                link_or_copy(version, copy)
                return True
        return False

    def _take(self, path: str) -> bool:
        if not _is_below(path):
            return False
        copy = self._target / path
        if copy.parent not in self._folders:
            copy.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(copy.parent)
        try:
            link_or_copy(self.corpus.folder / path, copy)
        except FileExistsError:
            return True
        except (FileNotFoundError, IsADirectoryError):
            return False
        return True

    def _aside(self, path: str) -> list[Path]:
        return list(self._drafts(PurePosixPath(path).parts[0]).glob(f"{aside_name(path)}*"))

    def _drop_aside(self) -> None:
        """Remove what was set aside. More may come meanwhile; the little that stays is removed by the next backup."""
        for _ in range(_SWEEPS):
            versions = self.replaced()
            if not versions:
                return
            for version in itertools.chain.from_iterable(versions.values()):
                version.unlink(missing_ok=True)

    def _drafts(self, source: str) -> Path:
        return self.corpus.folder.joinpath(source, *RAW, TEMPORARY)


def raw_files(corpus: Path) -> Iterator[str]:
    """Name every file below a corpus folder, whether a row speaks of it or not; drafts are none."""
    sources = [entry for entry in os.scandir(corpus) if entry.is_dir()] if corpus.is_dir() else []
    for source in sources:
        for folder, folders, names in os.walk(Path(source.path, *RAW), onerror=_raise):
            if TEMPORARY in folders:
                folders.remove(TEMPORARY)
            for name in names:
                yield str(Path(folder, name).relative_to(corpus))


def measure(corpus: Path) -> Extent:
    """Count the files below a corpus folder."""
    sizes = [(corpus / path).stat().st_size for path in raw_files(corpus)]
    return Extent(len(sizes), sum(sizes))


def missing_files(corpus: Path, raws: Iterable[RawFile]) -> Iterator[str]:
    """Name the raw files that rows speak of and that are not below a corpus folder. Blocks on the disk."""
    return (raw.path for raw in raws if not (_is_below(raw.path) and (corpus / raw.path).is_file()))


def copy_files(source: Path, target: Path, paths: Iterable[str]) -> int:
    """Copy files from one corpus folder to another, but for those that were before; count them.

    Not by links: what harms one of the two must not harm the other.
    """
    copied = 0
    for path in paths:
        if not (target / path).exists():
            _copy(source / path, target / path)
            copied += 1
    return copied


def copy_known(source: Path, target: Path, raws: Iterable[RawFile]) -> list[str]:
    """Do the same with raw files that rows speak of, where they are there; name those that are not the rows'."""
    unlike = []
    for raw in raws:
        if next(missing_files(source, [raw]), None):
            continue
        if (target / raw.path).exists():
            is_like = is_that(target / raw.path, raw)
        else:
            is_like = _copy(source / raw.path, target / raw.path) == raw.sha256
        if not is_like:
            unlike.append(raw.path)
    return unlike


def _copy(file: Path, copy: Path) -> bytes:
    """Copy a file; return its hash, so that it is read only once."""
    digest = hashlib.sha256()
    copy.parent.mkdir(parents=True, exist_ok=True)
    with file.open("rb") as reading, copy.open("xb") as writing:
        while piece := reading.read(_PIECE):
            digest.update(piece)
            writing.write(piece)
    shutil.copystat(file, copy)
    return digest.digest()


def _is_below(path: str) -> bool:
    """Tell whether a row's path leads nowhere else; one that somebody has damaged may."""
    return ".." not in PurePosixPath(path).parts and not path.startswith("/")


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _lock(descriptor: int) -> None:
    give_up = time.monotonic() + _BEGIN_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise OperatorError(
                    "Another backup of this data folder is under way; let it end, or end it.", reason=Reason.BAD_REQUEST
                ) from None
            time.sleep(_LOOK_SECONDS)
        else:
            return
