"""Verify documents: compare each with its raw file (spec 1.5).

A row names a raw file, the hash of its bytes, the normalizer that read them and the hash of the text. It also has the
input of the normalizer besides the bytes: the fetched URL (for relative links), the Content-Type (it may name the
charset), the selectors of the source and the removed blocks of the site. The sandbox can therefore make the text again,
and it must be the same to the byte. Rows from before those columns are normalized with the URL of the page and without
a content type.
"""

import asyncio
import contextlib
import fcntl
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

import msgspec

from headwater.core.errors import BadRequest, FolderUnusable, SandboxFailed, Unreadable
from headwater.core.record import record
from headwater.db.context import DatabaseContext
from headwater.db.verify import StoredDocument, get_stored_document
from headwater.extraction.registry import NORMALIZERS, NormalizedPage, normalize_as
from headwater.sandbox.pool import Sandbox
from headwater.storage.folder import Corpus

MAX_LISTED = 100_000  # findings in memory; more are counted only
_RETRY_SECONDS = 0.2


class Fault(StrEnum):
    """A fault of a document."""

    RAW_MISSING = "raw_missing"
    RAW_UNREADABLE = "raw_unreadable"
    RAW_DIFFERS = "raw_differs"
    TEXT_DAMAGED = "text_damaged"
    TEXT_DIFFERS = "text_differs"
    NO_NORMALIZER = "no_normalizer"
    NOT_DERIVED = "not_derived"

    @property
    def sentence(self) -> str:
        """The fault in a sentence."""
        return _SENTENCES[self]


_SENTENCES = {
    Fault.RAW_MISSING: "The raw file is missing.",
    Fault.RAW_UNREADABLE: "The raw file cannot be read.",
    Fault.RAW_DIFFERS: "The raw file differs from the one in the row.",
    Fault.TEXT_DAMAGED: "The text in the database differs from the saved one.",
    Fault.TEXT_DIFFERS: "The raw file is right, but normalizing it makes another text than the saved one.",
    Fault.NO_NORMALIZER: "This program does not have the normalizer that read the raw file.",
    Fault.NOT_DERIVED: "The sandbox could not normalize the raw file again, so the text is not verified.",
}


@record
class DocumentFault:
    """A fault of a document, with its details."""

    document_id: int
    url: str
    source: str
    raw_path: str
    fault: Fault
    detail: str


class Verifier:
    """Compares documents with their raw files, a few at a time."""

    def __init__(self, context: DatabaseContext, sandbox: Sandbox) -> None:
        self._context = context
        self._corpus = Corpus(context.settings.data_dir / "corpus")
        self._sandbox = sandbox
        # The disk reads one document while a child normalizes another.
        self._slots = asyncio.Semaphore(2 * context.settings.sandbox_workers)

    async def verify(
        self, documents: Sequence[StoredDocument], on_each: Callable[[], None] = lambda: None
    ) -> list[DocumentFault]:
        """Return the faults of documents."""

        async def check(document: StoredDocument) -> list[DocumentFault]:
            async with self._slots:
                findings = await self._check(document)
            on_each()
            return findings

        try:
            async with asyncio.TaskGroup() as group:
                checks = [group.create_task(check(document)) for document in documents]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [finding for done in checks for finding in done.result()]

    async def _check(self, document: StoredDocument) -> list[DocumentFault]:
        """Return the faults that two checks of the same row find.

        A new file is there shortly before its new row. A fault that is found during a fetch is ignored.
        """
        is_suspect = False
        while found := await self._check_once(document):
            current = await self._context.database.transact(get_stored_document, document.id)
            if current is None:
                return []
            is_settled = current == document and not current.being_fetched
            if is_settled and is_suspect:
                return [_make_finding(current, fault, detail) for fault, detail in found]
            if current.being_fetched:
                await asyncio.sleep(_RETRY_SECONDS)
            document, is_suspect = current, is_settled
        return []

    async def _check_once(self, document: StoredDocument) -> list[tuple[Fault, str]]:
        found = []
        if document.text_hash != document.content_hash:
            found.append((Fault.TEXT_DAMAGED, _compare_hashes(document.content_hash, document.text_hash)))
        fault = await self._check_raw_file(document)
        return [*found, fault] if fault else found

    async def _check_raw_file(self, document: StoredDocument) -> tuple[Fault, str] | None:
        try:
            # One byte more than the row states is enough to find a larger file.
            body = await asyncio.to_thread(self._corpus.read, document.raw_path, document.raw_bytes + 1)
        except (FileNotFoundError, NotADirectoryError):
            return Fault.RAW_MISSING, ""
        except OSError as error:
            return Fault.RAW_UNREADABLE, error.strerror or str(error)
        if len(body) != document.raw_bytes:
            return Fault.RAW_DIFFERS, f"Its size is not the saved one of {document.raw_bytes} bytes."
        digest = hashlib.sha256(body).digest()
        if digest != document.raw_hash:
            return Fault.RAW_DIFFERS, _compare_hashes(document.raw_hash, digest)
        return await self._check_text(document, body)

    async def _check_text(self, document: StoredDocument, body: bytes) -> tuple[Fault, str] | None:
        if document.normalizer not in NORMALIZERS:
            return Fault.NO_NORMALIZER, document.normalizer
        try:
            page = await normalize_again(self._sandbox, document, body, self._context.settings.sandbox_timeout_seconds)
        except Unreadable as error:
            return Fault.TEXT_DIFFERS, str(error)
        except SandboxFailed as error:
            return Fault.NOT_DERIVED, str(error)
        digest = bytes.fromhex(page.content_hash)
        if digest == document.content_hash:
            return None
        return Fault.TEXT_DIFFERS, _compare_hashes(document.content_hash, digest)


async def normalize_again(sandbox: Sandbox, document: StoredDocument, body: bytes, seconds: float) -> NormalizedPage:
    """Normalize the raw file of a document with the same normalizer and input as when it was stored."""
    return await sandbox.run(
        normalize_as,
        document.normalizer,
        body,
        document.fetched_url or document.url,
        document.content_type,
        document.selectors,
        document.removed_blocks,
        returns=NormalizedPage,
        seconds=seconds,
    )


def _compare_hashes(saved: bytes, found: bytes) -> str:
    return f"The saved SHA-256 is {saved.hex()[:16]}..., and the present one {found.hex()[:16]}..."


def _make_finding(document: StoredDocument, fault: Fault, detail: str) -> DocumentFault:
    if document.fetched_url is None and fault is Fault.TEXT_DIFFERS:
        detail += " The page was fetched before content types were saved."
    if document.queued:
        detail += " The page is queued to be fetched again."
    return DocumentFault(document.id, document.url, document.source, document.raw_path, fault, detail.strip())


class _Head(msgspec.Struct):
    """The first line."""

    begun_at: datetime


class _Page(msgspec.Struct, array_like=True):
    """Each further line: the documents that were checked, up to an id, and their faults."""

    last: int
    checked: int
    findings: list[DocumentFault]


@dataclass(slots=True)
class Progress:
    """How far a verify is, and what it found."""

    begun_at: datetime
    after: int = 0
    checked: int = 0
    wrong: int = 0  # documents; one may have several faults
    faults: Counter[Fault] = field(default_factory=Counter)
    findings: list[DocumentFault] = field(default_factory=list)

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

    def add(self, last: int, checked: int, findings: Sequence[DocumentFault]) -> None:
        """Write a page of the journal. A resumed verify repeats the checks that the journal does not contain."""
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
