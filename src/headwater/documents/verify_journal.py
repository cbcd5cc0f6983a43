"""The progress of a verify, in a file, so that an interrupted verify can resume."""

import contextlib
import fcntl
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from headwater.core.errors import BadRequest, FolderUnusable
from headwater.documents.verify import Fault, Finding

MAX_LISTED = 100_000  # findings in memory; more are counted only


class _Head(msgspec.Struct):
    """The first line."""

    begun_at: datetime


class _Page(msgspec.Struct, array_like=True):
    """Each further line: the documents that were checked, up to an id, and their faults."""

    last: int
    checked: int
    findings: list[Finding]


@dataclass(slots=True)
class Progress:
    """How far a verify is, and what it found."""

    begun_at: datetime
    after: int = 0
    checked: int = 0
    wrong: int = 0  # documents; one may have several faults
    faults: Counter[Fault] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, page: _Page) -> None:
        """Count a page."""
        self.after = page.last
        self.checked += page.checked
        self.wrong += len({finding.document_id for finding in page.findings})
        self.faults.update(finding.fault for finding in page.findings)
        self.findings += page.findings[: MAX_LISTED - len(self.findings)]


class Journal:
    """The file of one verify, and its progress. Close it after use, and remove it after the report was shown."""

    def __init__(self, path: Path, *, now: datetime, restart: bool) -> None:
        """Resume an interrupted verify, or begin again on `restart`. A second one of the same documents is refused."""
        self._path = path
        with self._reporting_errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
        try:
            _lock(self._file)
            with self._reporting_errors():
                read = None if restart else _read(self._file)
                self.progress = read or _begin(self._file, now)
        except BaseException:
            self.close()
            raise

    def add(self, last: int, checked: int, findings: Sequence[Finding]) -> None:
        """Write a page. A resumed verify checks a page again that was not written."""
        page = _Page(last, checked, list(findings))
        with self._reporting_errors():
            self._file.write(msgspec.json.encode(page) + b"\n")
            self._file.flush()
        self.progress.add(page)

    def close(self) -> None:
        """Close the file, and free its lock."""
        self._file.close()

    def remove(self) -> None:
        """Remove the file, so that the next verify begins again."""
        with self._reporting_errors():
            self._path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _reporting_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FolderUnusable(
                f"The progress of the verify cannot be written to {self._path}: {error.strerror or error}."
            ) from None


def _lock(file: BinaryIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BadRequest("A verify of the same documents is running. Wait for its end, or stop it.") from None


def _begin(file: BinaryIO, now: datetime) -> Progress:
    file.truncate(0)
    file.write(msgspec.json.encode(_Head(now)) + b"\n")
    file.flush()
    return Progress(now)


def _read(file: BinaryIO) -> Progress | None:
    """Read the whole lines, and cut off the rest. Returns None if there is no whole line."""
    file.seek(0)
    progress, length = None, 0
    with contextlib.suppress(msgspec.MsgspecError):
        for line in file:
            if not line.endswith(b"\n"):
                break
            if progress is None:
                progress = Progress(msgspec.json.decode(line, type=_Head).begun_at)
            else:
                progress.add(msgspec.json.decode(line, type=_Page))
            length += len(line)
    file.truncate(length)
    file.seek(length)
    return progress
