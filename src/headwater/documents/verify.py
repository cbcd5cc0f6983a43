"""Documents held against their raw files: is each still what its file says (spec 1.5).

A row names a raw file, the hash of its bytes, the normalizer that read them and the hash of the text that came out. It
also keeps what the normalizer was given besides the bytes: the address they came from after redirects (a relative link
means something else elsewhere), the Content-Type (the charset may stand there alone) and the selectors of the source.
So the text can be derived again, in the sandbox as the first time, and must be the same to the byte. Rows from before
address and type were kept are read with the page's own address and without a content type.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headwater.core.errors import SandboxFailed, Unreadable
from headwater.db.pool import Database
from headwater.db.verify import StoredDocument, documents_to_verify
from headwater.extraction.registry import NORMALIZERS, NormalizedPage, normalize_as
from headwater.sandbox.pool import Sandbox
from headwater.storage.folder import Corpus

_LOOK_SECONDS = 0.2  # between two looks at a page that somebody is fetching


class Fault(StrEnum):
    """What can be wrong with a document."""

    RAW_MISSING = "raw_missing"
    RAW_UNREADABLE = "raw_unreadable"
    RAW_DIFFERS = "raw_differs"
    TEXT_DAMAGED = "text_damaged"
    TEXT_DIFFERS = "text_differs"
    NO_NORMALIZER = "no_normalizer"
    NOT_DERIVED = "not_derived"

    @property
    def sentence(self) -> str:
        """What a person reads."""
        return _SENTENCES[self]


_SENTENCES = {
    Fault.RAW_MISSING: "The raw file is not there.",
    Fault.RAW_UNREADABLE: "The raw file is there and cannot be read.",
    Fault.RAW_DIFFERS: "The raw file is not the one that the row was made from.",
    Fault.TEXT_DAMAGED: "The text in the database is not the one that was saved.",
    Fault.TEXT_DIFFERS: "The raw file is right, but what is read from it now is not the text that was saved.",
    Fault.NO_NORMALIZER: "This program does not have the normalizer that read the raw file.",
    Fault.NOT_DERIVED: "Reading the raw file again was stopped or failed, so nothing can be said of the text.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a document."""

    document_id: int
    url: str
    source: str
    raw_path: str
    fault: Fault
    detail: str


class Verifier:
    """Holds documents against their raw files, `at_once` of them at a time."""

    def __init__(
        self, *, database: Database, corpus: Corpus, sandbox: Sandbox, sandbox_seconds: float, at_once: int
    ) -> None:
        self._database = database
        self._corpus = corpus
        self._sandbox = sandbox
        self._sandbox_seconds = sandbox_seconds
        self._places = asyncio.Semaphore(at_once)

    async def verify(
        self, documents: Sequence[StoredDocument], on_each: Callable[[], None] = lambda: None
    ) -> list[Finding]:
        """Return what is wrong with documents."""

        async def check(document: StoredDocument) -> list[Finding]:
            async with self._places:
                findings = await self._check(document)
            on_each()
            return findings

        try:
            async with asyncio.TaskGroup() as group:
                checks = [group.create_task(check(document)) for document in documents]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [finding for done in checks for finding in done.result()]

    async def _check(self, document: StoredDocument) -> list[Finding]:
        """Look until nothing is wrong, or until two looks at the same row have found something wrong.

        A page that is fetched again has its new file in place a moment before its row says so: while somebody is at it
        what does not match tells nothing.
        """
        suspected = False
        while found := await self._look(document):
            current = await self._current(document)
            if current is None:
                return []
            settled = current == document and not current.being_fetched
            if settled and suspected:
                return [_finding(current, fault, detail) for fault, detail in found]
            if current.being_fetched:
                await asyncio.sleep(_LOOK_SECONDS)
            document, suspected = current, settled
        return []

    async def _current(self, document: StoredDocument) -> StoredDocument | None:
        """Return a document as it is by now; None when there is none any more."""
        found = await self._database.transact(
            lambda connection: documents_to_verify(
                connection, after=document.id - 1, last=document.id, source_id=None, limit=1
            )
        )
        return found[0] if found else None

    async def _look(self, document: StoredDocument) -> list[tuple[Fault, str]]:
        found = []
        if document.text_hash != document.content_hash:
            found.append((Fault.TEXT_DAMAGED, _unlike(document.content_hash, document.text_hash)))
        wrong = await self._look_at_raw(document)
        return [*found, wrong] if wrong else found

    async def _look_at_raw(self, document: StoredDocument) -> tuple[Fault, str] | None:
        try:
            # A byte more than there should be is enough to see that it is another file.
            body = await asyncio.to_thread(self._corpus.read, document.raw_path, document.raw_bytes + 1)
        except (FileNotFoundError, NotADirectoryError):
            return Fault.RAW_MISSING, ""
        except OSError as error:
            return Fault.RAW_UNREADABLE, error.strerror or str(error)
        if len(body) != document.raw_bytes:
            return Fault.RAW_DIFFERS, f"It has not the {document.raw_bytes} bytes that were saved."
        digest = hashlib.sha256(body).digest()
        if digest != document.raw_hash:
            return Fault.RAW_DIFFERS, _unlike(document.raw_hash, digest)
        return await self._derive(document, body)

    async def _derive(self, document: StoredDocument, body: bytes) -> tuple[Fault, str] | None:
        if document.normalizer not in NORMALIZERS:
            return Fault.NO_NORMALIZER, document.normalizer
        try:
            page = await normalize_again(self._sandbox, document, body, self._sandbox_seconds)
        except Unreadable as error:
            return Fault.TEXT_DIFFERS, str(error)
        except SandboxFailed as error:
            return Fault.NOT_DERIVED, str(error)
        digest = bytes.fromhex(page.content_hash)
        if digest == document.content_hash:
            return None
        return Fault.TEXT_DIFFERS, _unlike(document.content_hash, digest)


async def normalize_again(sandbox: Sandbox, document: StoredDocument, body: bytes, seconds: float) -> NormalizedPage:
    """Normalize the raw file of a document with the same normalizer and input as when it was stored."""
    return await sandbox.run(
        normalize_as,
        document.normalizer,
        body,
        document.fetched_url or document.url,
        document.content_type,
        document.selectors,
        returns=NormalizedPage,
        seconds=seconds,
    )


def _unlike(saved: bytes, found: bytes) -> str:
    return f"SHA-256 {saved.hex()[:16]}... was saved, {found.hex()[:16]}... is found."


def _finding(document: StoredDocument, fault: Fault, detail: str) -> Finding:
    if document.fetched_url is None and fault is Fault.TEXT_DIFFERS:
        detail += " The page was fetched before its content type was kept."
    if document.queued:
        detail += " The page is queued to be fetched again."
    return Finding(document.id, document.url, document.source, document.raw_path, fault, detail.strip())
