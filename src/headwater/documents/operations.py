"""Operations on documents: list, read, compare, and render them as Markdown."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime

from headwater.core.errors import HeadwaterError, StorageFailed
from headwater.core.reasons import Reason
from headwater.core.record import LARGEST_ID, RowId, extend, record
from headwater.core.text import make_storable
from headwater.core.url_input import redact
from headwater.db import documents
from headwater.db.context import DatabaseContext
from headwater.db.deletions import find_document_url
from headwater.db.documents import Document as Document
from headwater.db.documents import DocumentCounts, DocumentLead, DocumentLine, RevisionText
from headwater.db.items import ContentFilter as ContentFilter
from headwater.db.items import DayFilter as DayFilter
from headwater.db.pool import Connection
from headwater.db.verify import StoredDocument, get_stored_document
from headwater.db.why import HandoffFacts, JobFacts, SourceSighting, trace_document
from headwater.documents.deletion import delete_documents, remove_unused_files
from headwater.documents.diff import TextDiff, diff_texts
from headwater.documents.verify import normalize_again
from headwater.frontier.submit import find_url
from headwater.sandbox.pool import Sandbox
from headwater.storage.folder import Corpus

_LEAD_CHARACTERS = 300
_LONGEST_ID = 19  # digits
_LARGEST_REVISION = 2**31 - 1
_CURSOR_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
OpenSandbox = Callable[[], AbstractAsyncContextManager[Sandbox]]


@record
class DocumentPage:
    """A page of documents, newest first."""

    documents: list[DocumentLine]
    next: str | None
    """The `before` of the next page. Null on the last page."""


@record
class DocumentLeads:
    """The leads of documents."""

    leads: list[DocumentLead]


@record
class DocumentDiff(TextDiff):
    """The changes of a document from one revision to another. The counts are of paragraphs."""

    document_id: int
    url: str
    before: int
    """The earlier revision."""
    after: int
    """The later revision."""
    last: int
    """The last revision of the document."""
    before_came_at: datetime
    """When the page first had the text of the earlier revision."""
    after_came_at: datetime
    before_fetched_at: datetime
    """When the page last had the text of the earlier revision."""
    after_fetched_at: datetime


@dataclass(frozen=True, slots=True)
class RawBody:
    """The raw file of a document: the bytes that its page answered with. They may be hostile."""

    name: str
    """A name for a download. Its ending is that of the reader that read the file."""
    body: bytes


@record
class DocumentTrace:
    """The sources that list a document, and its way to other programs."""

    sightings: list[SourceSighting]
    sightings_total: int
    handoffs: list[HandoffFacts]
    """Newest first."""
    jobs: list[JobFacts]
    """Newest first."""


@record
class DocumentDeletion:
    """The result of a deletion."""

    id: int


class DocumentOperations:
    """Operations on documents."""

    def __init__(self, context: DatabaseContext, open_sandbox: OpenSandbox) -> None:
        self._context = context
        self._open_sandbox = open_sandbox
        self._corpus = Corpus(context.settings.data_dir / "corpus")
        self.markdown_wait_seconds = 5.0
        # One at a time, so that readers leave the sandbox to the crawl.
        self.markdown_lock = asyncio.Lock()

    async def list_page(self, *, limit: int = 50, before: str | None = None, source: str | None = None) -> DocumentPage:
        """List documents, newest first, from the cursor `before` on."""
        position = _read_cursor(before) if before is not None else None
        name = make_storable(source) if source else None
        rows = await self._context.database.transact(
            documents.list_documents, limit=limit, before=position, source=name
        )
        last = rows[-1] if len(rows) == limit else None
        return DocumentPage(rows, f"{last.fetched_at:{_CURSOR_TIME}}_{last.id}" if last else None)

    async def get(self, document_id: int) -> Document:
        """Return a document with its text, provenance and earlier revisions."""
        _check_id(document_id)
        document = await self._context.database.run(documents.get_document, document_id)
        if document is None:
            raise _unknown(document_id)
        return document

    async def list_leads(self, ids: Sequence[RowId]) -> DocumentLeads:
        """Return the leads of documents. Unknown ids are left out."""
        return DocumentLeads(await self._context.database.run(documents.list_leads, ids, _LEAD_CHARACTERS))

    async def delete(self, document_id: int) -> DocumentDeletion:
        """Delete a document, its revisions and its raw file. Its page is fetched again only on request."""
        _check_id(document_id)
        context = self._context

        async def work(connection: Connection) -> int | None:
            url_id = await find_document_url(connection, document_id)
            if url_id is None:
                raise _unknown(document_id)
            deleted = await delete_documents(connection, [url_id], Reason.DELETED, context.clock.now())
            return url_id if deleted else None

        url_id = await context.database.transact(work)
        if url_id is None:
            raise HeadwaterError(
                f"A worker fetches the page of document {document_id} now. Try again in a moment.", reason=Reason.BUSY
            )
        await remove_unused_files(context, [url_id])
        return DocumentDeletion(document_id)

    async def count(self) -> DocumentCounts:
        """Count documents and distinct texts."""
        return await self._context.database.run(documents.count_documents)

    async def find(self, text: str) -> int:
        """Return the id of a document, given as its id or its URL."""
        if text.isascii() and text.isdigit():
            digits = text.lstrip("0") or "0"
            if len(digits) > _LONGEST_ID:
                raise _refused(f"There is no document with an id of {len(digits):,} digits.")
            return int(digits)
        if "/" not in text and "." in text and text.replace(".", "").strip("+-").isdigit():
            raise _refused(f"{redact(text)} is not the id of a document. Ids are whole numbers from 1 on.")
        async with self._context.database.connection() as connection:
            known = await find_url(connection, make_storable(text))
            document_id = await documents.find_document(connection, known.id) if known else None
        if document_id is None and known is None and not {"/", "."} & set(text):
            raise _refused(
                f"{redact(text)} is neither the id of a document, which is a whole number, nor a URL. "
                "`headwater search WORDS` finds documents by their words."
            )
        if document_id is None:
            raise _refused(f"There is no document of {redact(text)}.")
        return document_id

    async def diff(self, document_id: int, before: int | None = None, after: int | None = None) -> DocumentDiff:
        """Compare two revisions of a document, by default the last one with the one before it."""
        _check_id(document_id)
        async with self._context.database.connection() as connection:
            new = await _get_revision(connection, document_id, after)
            if before is None and after == 1 < new.last_revision:
                raise HeadwaterError(
                    f"Revision 1 is the first of document {document_id}, so there is no earlier one to compare. "
                    f"Name another revision, up to {new.last_revision}.",
                    reason=Reason.UNKNOWN_REVISION,
                )
            old = await _get_revision(connection, document_id, max(1, new.revision - 1) if before is None else before)
        diff = await asyncio.to_thread(diff_texts, old.text, new.text, old.title, new.title)
        return extend(
            diff,
            DocumentDiff,
            document_id=document_id,
            url=new.url,
            before=old.revision,
            after=new.revision,
            last=new.last_revision,
            before_came_at=old.came_at,
            after_came_at=new.came_at,
            before_fetched_at=old.fetched_at,
            after_fetched_at=new.fetched_at,
        )

    async def make_markdown(self, document_id: int) -> str:
        """Return a document as Markdown, made from its raw file by the normalizer that read it first."""
        _check_id(document_id)
        document = await self._context.database.transact(get_stored_document, document_id)
        if document is None:
            raise _unknown(document_id)
        try:
            async with asyncio.timeout(self.markdown_wait_seconds):
                await self.markdown_lock.acquire()
        except TimeoutError:
            raise HeadwaterError(Reason.BUSY.sentence, reason=Reason.BUSY) from None
        try:
            body = await asyncio.to_thread(self._read_raw, document)
            async with self._open_sandbox() as sandbox:
                page = await normalize_again(sandbox, document, body, self._context.settings.sandbox_timeout_seconds)
        finally:
            self.markdown_lock.release()
        return page.article.markdown or page.article.text

    async def read_raw(self, document_id: int) -> RawBody:
        """Return the raw file of a document, if it is the one that was stored."""
        _check_id(document_id)
        document = await self._context.database.transact(get_stored_document, document_id)
        if document is None:
            raise _unknown(document_id)
        body = await asyncio.to_thread(self._read_raw, document)
        return RawBody(f"document-{document_id}.{document.normalizer.partition('_')[0]}", body)

    async def trace(self, document_id: int) -> DocumentTrace:
        """Return the sources that list a document, and its hand-offs and jobs, at most 20 of each."""
        _check_id(document_id)
        found = await self._context.database.run(trace_document, document_id)
        if found is None:
            raise _unknown(document_id)
        return DocumentTrace(*found)

    async def raw_file_matches(self, document: Document) -> bool:
        """Return whether the raw file of a document has the hash in its row."""
        body = await asyncio.to_thread(self._corpus.read, document.raw_path)
        return hashlib.sha256(body).hexdigest() == document.raw_hash

    def _read_raw(self, document: StoredDocument) -> bytes:
        try:
            body = self._corpus.read(document.raw_path, document.raw_bytes + 1)
        except OSError:
            body = b""
        if hashlib.sha256(body).digest() != document.raw_hash:
            raise StorageFailed(
                f"The raw file of document {document.id} is missing or differs from its row. Run `headwater verify`."
            )
        return body


async def _get_revision(connection: Connection, document_id: int, number: int | None) -> RevisionText:
    storable = None if number is None else min(number, _LARGEST_REVISION)
    if found := await documents.get_revision(connection, document_id, storable):
        return found
    last = await documents.get_revision(connection, document_id, None)
    if last is None:
        raise _unknown(document_id)
    raise HeadwaterError(
        f"Document {document_id} has no revision {number}; its last is {last.revision}.",
        reason=Reason.UNKNOWN_REVISION,
    )


def _read_cursor(text: str) -> tuple[datetime, int]:
    moment, _, number = text.rpartition("_")
    try:
        fetched_at, document_id = datetime.fromisoformat(moment), int(number)
    except ValueError:
        fetched_at, document_id = None, 0
    if fetched_at is None or fetched_at.tzinfo is None or not 0 < document_id <= LARGEST_ID:
        raise HeadwaterError("before: must be the `next` of the page before.", reason=Reason.BAD_REQUEST)
    return fetched_at, document_id


def _check_id(document_id: int) -> None:
    if not 0 < document_id <= LARGEST_ID:
        raise _unknown(document_id)


def _unknown(document_id: int) -> HeadwaterError:
    return _refused(f"There is no document {document_id}.")


def _refused(message: str) -> HeadwaterError:
    return HeadwaterError(message, reason=Reason.UNKNOWN_DOCUMENT)
