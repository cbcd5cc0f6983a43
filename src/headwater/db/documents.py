"""Typed functions over queries/documents.sql."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import asyncpg

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.db.pool import Connection
from headwater.db.sql import query
from headwater.extraction.article import Article

# A tsvector holds at most 1 MB; this many characters fit, whatever the script.
SEARCHED_CHARACTERS = 100_000
_INDEXING_SECONDS = 7 * 86_400.0  # longer than it takes, however many there are


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document about to be saved; `raw_path` is below the corpus folder and its bytes hash to `raw_hash`.

    `fetched_url`, `content_type` and `selectors` are what its normalizer was given besides the bytes: with them the
    same text can be derived from the raw file again.
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


async def save_texts(connection: Connection, texts: Mapping[bytes, str], now: datetime) -> set[bytes]:
    """Keep each text once; return the hashes of those that were new."""
    rows = await connection.fetch(query("save_texts"), list(texts), list(texts.values()), now)
    return {row["content_hash"] for row in rows}


async def save_document(
    connection: Connection, url_id: int, source_id: int, document: NewDocument, now: datetime
) -> bool:
    """Keep the document of a URL; its text must be saved before. Tell whether it says something else than it did."""
    article = document.article
    is_another: bool = await connection.fetchval(
        query("save_document"),
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
        now,
        article.text[:SEARCHED_CHARACTERS],
        document.fetched_url,
        document.content_type,
        article.body_status,
        [asdict(artifact) for artifact in article.artifacts],
        article.updated_at,
        article.confidence,
        document.selectors,
    )
    return is_another


async def current_texts(connection: Connection, url_ids: Collection[int]) -> dict[int, bytes]:
    """Return the content hash of each URL's document, for those that have one."""
    rows = await connection.fetch(query("current_texts"), list(url_ids))
    return {row["url_id"]: row["content_hash"] for row in rows}


async def revisions(connection: Connection, document_id: int) -> list[dict[str, Any]]:
    """List what a document's text was before, newest first."""
    return [dict(row) for row in await connection.fetch(query("revisions"), document_id)]


async def revision_text(connection: Connection, document_id: int, revision: int | None) -> dict[str, Any] | None:
    """Return a document's title and text at a revision, by default the last; None where there is no such."""
    row = await connection.fetchrow(query("revision_text"), document_id, revision)
    return dict(row) if row else None


async def document_of_url(connection: Connection, url_id: int) -> int | None:
    """Return the document of a URL."""
    document_id: int | None = await connection.fetchval(query("document_of_url"), url_id)
    return document_id


async def list_documents(
    connection: Connection, *, limit: int, before: tuple[datetime, int] | None, source: str | None
) -> list[dict[str, Any]]:
    """List documents, newest first; `before` is the (fetched_at, id) of the last of the page before.

    Must run inside a transaction.
    """
    await connection.execute(query("plan_anew"))
    fetched_before, id_before = before or (None, None)
    rows = await connection.fetch(query("list_documents"), limit, fetched_before, id_before, source)
    return [dict(row) for row in rows]


async def get_document(connection: Connection, document_id: int) -> dict[str, Any] | None:
    """Return a document with its text and provenance."""
    row = await connection.fetchrow(query("get_document"), document_id)
    return dict(row) if row else None


async def search_documents(connection: Connection, words: str, limit: int, offset: int) -> list[dict[str, Any]]:
    """Search titles and texts, best first; matches in the snippet stand between the marks ⟦ and ⟧."""
    return [dict(row) for row in await connection.fetch(query("search_documents"), words, limit, offset)]


async def document_counts(connection: Connection) -> tuple[int, int]:
    """Count documents and distinct texts."""
    row = await connection.fetchrow(query("document_counts"))
    assert row is not None
    return row["documents"], row["texts"]


async def search_index_is_whole(connection: Connection) -> bool | None:
    """Tell whether the index that documents are searched by can be used; None where there is none."""
    whole: bool | None = await connection.fetchval(query("search_index_is_whole"))
    return whole


async def mend_search_index(connection: Connection) -> bool:
    """Make the index that documents are searched by anew, unless it is whole or another is at it; tell whether.

    It is done in no transaction. The connection is to be closed afterwards: it has a lock, and no limit of time.
    """
    if not await connection.fetchval(query("try_to_lock_search_index")) or await search_index_is_whole(connection):
        return False
    await connection.execute(query("let_statements_take_long"))
    try:
        await connection.execute(query("drop_search_index"), timeout=_INDEXING_SECONDS)
        await connection.execute(query("make_search_index"), timeout=_INDEXING_SECONDS)
    except asyncpg.InsufficientPrivilegeError as error:
        raise OperatorError(
            f"The search index cannot be made: {error}. Connect as the owner of the table documents.",
            reason=Reason.SCHEMA_MISMATCH,
        ) from None
    return True
