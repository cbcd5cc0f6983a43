"""Typed functions over queries/verify.sql."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headwater.db.pool import Connection
from headwater.db.sql import query


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """What is kept of a document. `text_hash` is the hash of the text as it is, `content_hash` as it was saved.

    Two are equal when nothing was saved in between; whether the page waits for another visit, or has one just now, is
    another matter.
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
    content_hash: bytes
    text_hash: bytes
    fetched_at: datetime
    queued: bool = field(compare=False)
    being_fetched: bool = field(compare=False)


async def documents_to_verify(
    connection: Connection, *, after: int, last: int, source_id: int | None, limit: int
) -> list[StoredDocument]:
    """Return the next documents after an id, up to another. In a transaction."""
    # So that a page of one source's is planned for itself, and finds its index.
    await connection.execute(query("plan_anew"))
    rows = await connection.fetch(query("documents_to_verify"), after, last, source_id, limit)
    return [StoredDocument(**row) for row in rows]


async def raw_file_of(connection: Connection, url_id: int) -> tuple[str, bytes, int] | None:
    """Return path, hash and size of the raw file of a URL's document, if it has one."""
    row = await connection.fetchrow(query("raw_file_of"), url_id)
    return (row["raw_path"], row["raw_hash"], row["raw_bytes"]) if row else None


async def extent_to_verify(connection: Connection, *, after: int, source_id: int | None) -> tuple[int, int]:
    """Count the documents after an id, and tell the id of the last."""
    row = await connection.fetchrow(query("extent_to_verify"), after, source_id)
    assert row is not None
    return row["documents"], row["last"]
