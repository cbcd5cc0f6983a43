"""Typed functions over queries/documents.sql."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from headwater.core.record import record
from headwater.db.pool import Connection
from headwater.db.sql import query
from headwater.extraction.article import Article


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to save. `raw_path` is below the corpus folder, and the bytes there hash to `raw_hash`.

    The normalizer read the bytes with `fetched_url`, `content_type`, `selectors` and `removed_blocks`. They are saved,
    so that the same text can be made from the raw file again. `site_blocks` are the hashes of blocks that may recur on
    other pages of the host.
    """

    article: Article
    content_hash: bytes
    normalizer: str
    raw_path: str
    raw_hash: bytes
    raw_bytes: int
    fetched_url: str
    content_type: str | None
    selectors: Mapping[str, str] = field(default_factory=dict)
    removed_blocks: Collection[int] = ()
    site_blocks: Sequence[int] = ()


@record
class DocumentLine:
    """A document in a list."""

    id: int
    url: str
    source: str
    title: str
    published_at: datetime | None
    language: str | None
    """The plain code of its language, such as `de`."""
    region: str | None
    """The region that the page names with its language, such as `DE`."""
    fetched_at: datetime


@record
class DocumentLead:
    """The subject of a document in a sentence or two."""

    id: int
    lead: str
    """Its abstract, or else the beginning of its text, up to 300 characters."""


@record
class Revision:
    """An earlier revision of a document."""

    revision: int
    title: str
    content_hash: str
    """SHA-256 of the text."""
    raw_hash: str
    """SHA-256 of the raw bytes."""
    fetched_at: datetime
    replaced_at: datetime


@record
class Document(DocumentLine):
    """A document with its text and provenance."""

    text: str
    byline: str | None
    image: str | None
    abstract: str | None
    updated_at: datetime | None
    """When the page was last changed, by its own statement or by its feed's."""
    canonical_url: str | None
    """The address that the page names as its canonical one."""
    provenance: Mapping[str, str]
    """For each field, where its value comes from."""
    confidence: Mapping[str, float]
    """For each field, how far its value can be trusted, from 0 to 1."""
    normalizer: str
    content_hash: str
    """SHA-256 of the text."""
    raw_path: str
    """The path of the raw bytes below the corpus folder."""
    raw_hash: str
    """SHA-256 of the raw bytes."""
    raw_bytes: int
    page_kind: str | None
    """`article`, `documentation`, `forum`, `product`, `service`, `collection` or `listing`; null if it is no page."""
    removed_blocks: int
    """The number of blocks that recur on the pages of its site and were left out of the text."""
    body_status: str
    """`ok`, `scanned_no_text` for a PDF of pictures, or `too_large` for one of which only the first pages are read."""
    artifacts: list[Mapping[str, Any]]
    """Tables that the text cannot show, row by row."""
    revision: int
    """1 at first. It grows by one each time the text changes."""
    revisions: list[Revision]
    """The earlier revisions, newest first."""


@record
class RevisionText:
    """A document at one of its revisions."""

    id: int
    url: str
    revision: int
    last_revision: int
    title: str
    text: str
    came_at: datetime
    fetched_at: datetime


class SavedDocument(NamedTuple):
    """The result of a save. `is_changed`: a known document changed. `is_in_search`: search has its words already."""

    id: int
    is_changed: bool
    is_in_search: bool


class DocumentCounts(NamedTuple):
    """How many documents and how many distinct texts are stored."""

    documents: int
    texts: int


async def save_texts(connection: Connection, texts: Mapping[bytes, str], now: datetime) -> set[bytes]:
    """Save each text once. Returns the hashes of the new texts."""
    rows = await connection.fetch(query("save_texts"), list(texts), list(texts.values()), now)
    new = {row["content_hash"] for row in rows}
    if known := texts.keys() - new:
        kept = {row["content_hash"] for row in await connection.fetch(query("keep_texts"), list(known))}
        if known - kept:  # a deletion of the last document with such a text has just ended
            new |= await save_texts(connection, {digest: texts[digest] for digest in known - kept}, now)
    return new


async def save_documents(
    connection: Connection, documents: Collection[tuple[int, int, NewDocument]], now: datetime
) -> dict[int, SavedDocument]:
    """Save the documents of URLs (URL id, source id, document). Their texts must be saved before.

    Return the results by URL id.
    """
    rows = (_list_columns(url_id, source_id, document) for url_id, source_id, document in documents)
    saved = await connection.fetch(query("save_documents"), *zip(*rows, strict=True), now)
    return {url_id: SavedDocument(*result) for url_id, *result in saved}


def _list_columns(url_id: int, source_id: int, document: NewDocument) -> tuple[Any, ...]:
    article = document.article
    return (
        url_id,
        source_id,
        document.content_hash,
        article.title or "",
        article.byline,
        article.published_at,
        article.language,
        article.image,
        article.abstract,
        article.canonical_url,
        article.provenance,
        document.normalizer,
        document.raw_path,
        document.raw_hash,
        document.raw_bytes,
        document.fetched_url,
        document.content_type,
        article.body_status,
        # Two columns are texts: the driver would read a list as a dimension of the array.
        msgspec.json.encode(article.artifacts).decode(),
        article.updated_at,
        article.confidence,
        document.selectors,
        article.region,
        article.page_kind,
        f"{{{','.join(map(str, document.removed_blocks))}}}",
    )


async def current_texts(connection: Connection, url_ids: Collection[int]) -> dict[int, bytes]:
    """Return the content hash of each URL's document, for those that have one."""
    rows = await connection.fetch(query("current_texts"), list(url_ids))
    return {row["url_id"]: row["content_hash"] for row in rows}


async def get_document(connection: Connection, document_id: int) -> Document | None:
    """Return a document with its text, provenance and earlier revisions."""
    row = await connection.fetchrow(query("get_document"), document_id)
    if row is None:
        return None
    revisions = [Revision(**revision) for revision in await connection.fetch(query("revisions"), document_id)]
    return Document(**row, revisions=revisions)


async def get_revision(connection: Connection, document_id: int, revision: int | None) -> RevisionText | None:
    """Return a document at a revision, by default the last. Returns None if there is no such revision."""
    row = await connection.fetchrow(query("revision_text"), document_id, revision)
    return RevisionText(**row) if row else None


async def find_document(connection: Connection, url_id: int) -> int | None:
    """Return the id of the document of a URL."""
    value: int | None = await connection.fetchval(query("document_of_url"), url_id)
    return value


async def list_documents(
    connection: Connection, *, limit: int, before: tuple[datetime, int] | None, source: str | None
) -> list[DocumentLine]:
    """List documents, newest first. `before` is the (fetched_at, id) of the last one on the page before.

    Call it inside a transaction.
    """
    await connection.execute(query("plan_for_values"))
    fetched_before, id_before = before or (None, None)
    rows = await connection.fetch(query("list_documents"), limit, fetched_before, id_before, source)
    return [DocumentLine(**row) for row in rows]


async def list_leads(connection: Connection, ids: Collection[int], characters: int) -> list[DocumentLead]:
    """Return the leads of the documents that exist."""
    return [DocumentLead(**row) for row in await connection.fetch(query("document_leads"), list(ids), characters)]


async def count_documents(connection: Connection) -> DocumentCounts:
    """Count documents and distinct texts."""
    row = await connection.fetchrow(query("document_counts"))
    assert row is not None
    return DocumentCounts(**row)
