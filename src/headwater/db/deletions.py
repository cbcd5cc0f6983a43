"""Deletes documents and reports sizes: typed functions over queries/deletions.sql."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.db.pool import Connection
from headwater.db.sql import query


class UnusedFile(NamedTuple):
    """A raw file that no document of its URL names."""

    url_id: int
    path: str


class KeptSource(NamedTuple):
    """A source that keeps documents for some days only."""

    id: int
    keep_days: int


class DocumentAge(NamedTuple):
    """A document, and whether its source keeps it no longer."""

    id: int
    url_id: int
    is_expired: bool


@record
class SourceSize:
    """The disk use of a source."""

    name: str
    documents: int
    raw_bytes: int
    """The size of the raw files of its documents."""
    text_bytes: int
    """The size of the texts of its documents. A text that several documents share counts for each."""


async def lock_idle_urls(connection: Connection, url_ids: Collection[int]) -> list[int]:
    """Lock those URLs that no worker fetches, until the transaction ends. No worker can fetch them meanwhile."""
    queued = [row["url_id"] for row in await connection.fetch(query("lock_queued_urls"), list(url_ids))]
    return [row["id"] for row in await connection.fetch(query("lock_idle_urls"), list(url_ids), queued)]


async def delete_documents(connection: Connection, url_ids: Collection[int], reason: Reason, now: datetime) -> int:
    """Delete the documents of locked URLs, and end the URLs. Return the number of documents."""
    ids = list(url_ids)
    gone = await connection.fetch(query("delete_documents"), ids, reason, now)
    await connection.execute(query("end_deleted_urls"), ids, reason)
    await connection.execute(query("fail_ready_jobs"), ids, reason, now)
    await connection.execute(query("withdraw_articles"), ids, reason)
    hashes = list({row["content_hash"] for row in gone})
    await connection.execute(query("lock_texts"), hashes)
    await connection.execute(query("delete_unused_texts"), hashes)
    return len({row["id"] for row in gone})


async def find_document_url(connection: Connection, document_id: int) -> int | None:
    """Return the id of the URL of a document."""
    value: int | None = await connection.fetchval(query("url_of_document"), document_id)
    return value


async def find_kept_source(connection: Connection, after: int) -> KeptSource | None:
    """Return the next source that keeps documents for some days only, by id."""
    row = await connection.fetchrow(query("next_kept_source"), after)
    return KeptSource(**row) if row else None


async def read_ages(
    connection: Connection, source_id: int, before: datetime, after: int, limit: int
) -> list[DocumentAge]:
    """Return a page of the documents of a source, by id."""
    rows = await connection.fetch(query("documents_by_age"), source_id, before, after, limit)
    return [DocumentAge(**row) for row in rows]


async def find_expired_urls(
    connection: Connection, source_id: int, before: datetime, locked: Collection[int]
) -> list[int]:
    """Return those locked URLs whose documents a source still has and last fetched before a time."""
    rows = await connection.fetch(query("expired_urls"), source_id, before, list(locked))
    return [row["url_id"] for row in rows]


async def list_unused_files(
    connection: Connection, after: UnusedFile, limit: int, url_ids: Collection[int] | None = None
) -> list[UnusedFile]:
    """Return a page of the raw files to remove, of some URLs or of all."""
    if url_ids is None:
        rows = await connection.fetch(query("unused_raw_files"), *after, limit)
    else:
        rows = await connection.fetch(query("unused_raw_files_of_urls"), *after, limit, list(url_ids))
    return [UnusedFile(**row) for row in rows]


async def find_removable_files(
    connection: Connection, files: Sequence[UnusedFile]
) -> tuple[list[UnusedFile], list[UnusedFile]]:
    """Lock the URLs of raw files. Return the files to remove now, and those to forget because a document names them.

    No worker can write the files to remove until the transaction ends.
    """
    idle = set(await lock_idle_urls(connection, {file.url_id for file in files}))
    rows = await connection.fetch(query("used_raw_files"), *(list(column) for column in zip(*files, strict=True)))
    awaited = {UnusedFile(row["url_id"], row["path"]) for row in rows if row["is_awaited"]}
    named = {UnusedFile(row["url_id"], row["path"]) for row in rows if not row["is_awaited"]}
    return [file for file in files if file.url_id in idle and file not in awaited | named], sorted(named)


async def forget_files(connection: Connection, files: Sequence[UnusedFile]) -> None:
    """Forget raw files that were removed or that a document names."""
    if files:
        await connection.execute(query("forget_raw_files"), *(list(column) for column in zip(*files, strict=True)))


async def list_sizes(connection: Connection, name: str | None = None) -> list[SourceSize]:
    """List the sizes of sources, the largest first."""
    return [SourceSize(**row) for row in await connection.fetch(query("list_sizes"), name)]


async def read_database_size(connection: Connection) -> int:
    """Return the size of the database on its disk, in bytes."""
    value: int = await connection.fetchval(query("database_size"))
    return value


async def merge_source_sizes(connection: Connection) -> None:
    """Merge the rows of the sizes. Must run inside a transaction."""
    await connection.execute(query("merge_source_sizes"))
