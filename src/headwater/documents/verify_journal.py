"""What a verify has found so far, in a file: one that is interrupted goes on where it was."""

import contextlib
import fcntl
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.documents.verify import Fault, Finding

LISTED = 100_000  # findings that are kept in memory and told one by one; the rest is only counted


class _Head(msgspec.Struct):
    """The first line."""

    begun_at: datetime


class _Page(msgspec.Struct, array_like=True):
    """Each further line: documents that were looked at, up to an id, and what was wrong with them."""

    last: int
    checked: int
    findings: list[Finding]


@dataclass(slots=True)
class Progress:
    """How far a verify has come, and what it has found."""

    begun_at: datetime
    after: int = 0
    checked: int = 0
    wrong: int = 0  # documents; one may have several faults
    faults: Counter[Fault] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, page: _Page) -> None:
        """Count a page in."""
        self.after = page.last
        self.checked += page.checked
        self.wrong += len({finding.document_id for finding in page.findings})
        self.faults.update(finding.fault for finding in page.findings)
        self.findings += page.findings[: LISTED - len(self.findings)]


class Journal:
    """The file of one verify, and the progress that it tells of. To be closed; when all is told, to be removed."""

    def __init__(self, path: Path, *, now: datetime, restart: bool) -> None:
        """Go on where one was left off or, on `restart`, begin anew. Two at once are refused."""
        self._path = path
        with self._noting():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
        try:
            _lock(self._file)
            with self._noting():
                read = None if restart else _read(self._file)
                self.progress = read or _begin(self._file, now)
        except BaseException:
            self.close()
            raise

    def add(self, last: int, checked: int, findings: Sequence[Finding]) -> None:
        """Note a page: what is not noted is looked at again."""
        page = _Page(last, checked, list(findings))
        with self._noting():
            self._file.write(msgspec.json.encode(page) + b"\n")
            self._file.flush()
        self.progress.add(page)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def remove(self) -> None:
        """Let the next verify begin anew."""
        with self._noting():
            self._path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OperatorError(
                f"How far the verify has come cannot be noted in {self._path}: {error.strerror or error}.",
                reason=Reason.FOLDER_UNUSABLE,
            ) from None


def _lock(file: BinaryIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OperatorError(
            "A verify of the same documents is running; let it end, or end it.", reason=Reason.BAD_REQUEST
        ) from None


def _begin(file: BinaryIO, now: datetime) -> Progress:
    file.truncate(0)
    file.write(msgspec.json.encode(_Head(now)) + b"\n")
    file.flush()
    return Progress(now)


def _read(file: BinaryIO) -> Progress | None:
    """Read what was noted, and cut off what was not noted to its end; None when nothing is left."""
    file.seek(0)
    progress, whole = None, 0
    with contextlib.suppress(msgspec.MsgspecError):
        for line in file:
            if not line.endswith(b"\n"):
                break
            if progress is None:
                progress = Progress(msgspec.json.decode(line, type=_Head).begun_at)
            else:
                progress.add(msgspec.json.decode(line, type=_Page))
            whole += len(line)
    file.truncate(whole)
    file.seek(whole)
    return progress
