"""Typed functions over queries/verify.sql."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headwater.db.pool import Connection
from headwater.db.sql import query


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as it is stored. `text_hash` is the hash of the text now, `content_hash` the hash when it was saved.

    Two are equal if the document was not saved in between. The state of the queue does not count.
    """

    id: int
    url: str
    source: str
    raw_path: str
    raw_hash: bytes
    raw_bytes: int
    normalizer: str
    fetched_url: str | None
    content_type: str | None
    selectors: Mapping[str, str]
    removed_blocks: list[int]
    content_hash: bytes
    text_hash: bytes
    fetched_at: datetime
    queued: bool = field(compare=False)
    being_fetched: bool = field(compare=False)


async def documents_to_verify(
    connection: Connection, *, after: int, last: int, source_id: int | None, limit: int
) -> list[StoredDocument]:
    """Return the next documents after an id, up to another. Call it in a transaction."""
    # A generic plan would not use the index by source.
    await connection.execute(query("plan_for_values"))
    rows = await connection.fetch(query("documents_to_verify"), after, last, source_id, limit)
    return [StoredDocument(**row) for row in rows]


async def get_stored_document(connection: Connection, document_id: int) -> StoredDocument | None:
    """Return a document as it is stored. Call it in a transaction."""
    found = await documents_to_verify(connection, after=document_id - 1, last=document_id, source_id=None, limit=1)
    return found[0] if found else None


async def raw_file_of(connection: Connection, url_id: int) -> tuple[str, bytes, int] | None:
    """Return path, hash and size of the raw file of the document of a URL."""
    row = await connection.fetchrow(query("raw_file_of"), url_id)
    return (row["raw_path"], row["raw_hash"], row["raw_bytes"]) if row else None


async def extent_to_verify(connection: Connection, *, after: int, source_id: int | None) -> tuple[int, int]:
    """Return the number of documents after an id, and the last id."""
    row = await connection.fetchrow(query("extent_to_verify"), after, source_id)
    assert row is not None
    return row["documents"], row["last"]
