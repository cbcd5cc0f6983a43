"""Writes documents and failed jobs directly into the database, for tests of what happens to them later."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from headwater.db import documents
from headwater.db.documents import NewDocument
from headwater.db.pool import Connection, Database
from headwater.extraction.article import Article

HOST = "http://news.test"
NOON = datetime(2026, 3, 12, 12, tzinfo=UTC)


async def write(
    connection: Connection, name: str, text: str, at: datetime = NOON, host: str = "news.test", **fields: Any
) -> bool:
    """Save the document of an address with this text, as a commit does. Returns whether the document changed."""
    source_id, url_id = await _address(connection, name, at, host)
    digest = hashlib.sha256(text.encode()).digest()
    article = replace(Article(text=text, title=f"{name}: {text}", language="en"), **fields)
    document = NewDocument(article, digest, "html_v1", f"news/{name}", digest, len(text), f"http://{host}/{name}", None)
    await documents.save_texts(connection, {digest: text}, at)
    saved = await documents.save_documents(connection, [(url_id, source_id, document)], at)
    return saved[url_id].is_changed


async def write_all(database: Database, *names: str, text: str = "first") -> None:
    """Save documents, each in a transaction of its own."""
    for name in names:
        async with database.connection() as connection, connection.transaction():
            await write(connection, name, text)


async def fail_job(connection: Connection, name: str, reason: str) -> int:
    """Add a job that waits for a page, and let the page fail."""
    source_id, url_id = await _address(connection, name, NOON)
    item = hashlib.sha256(name.encode()).hexdigest()
    await connection.execute(
        "INSERT INTO items (id, source_id, url, url_id, title, published_at, published_is_sighting, first_seen_at, "
        "last_seen_at) VALUES ($1, $2, $3, $4, $3, $5, false, $5, $5)",
        item,
        source_id,
        f"{HOST}/{name}",
        url_id,
        NOON,
    )
    job_id: int = await connection.fetchval(
        "INSERT INTO ingestion_jobs (reference_id, payload_hash, source_id, url_id, created_at, updated_at) "
        "VALUES ($1, $1, $2, $3, $4, $4) RETURNING job_id",
        item,
        source_id,
        url_id,
        NOON,
    )
    await connection.execute("UPDATE url_frontier SET status = 'dead', reason = $2 WHERE id = $1", url_id, reason)
    return job_id


async def _address(connection: Connection, name: str, at: datetime, host: str = "news.test") -> tuple[int, int]:
    await connection.execute(
        "INSERT INTO sources (name, kind, created_at) VALUES ('news', 'site', $1) ON CONFLICT DO NOTHING", at
    )
    source_id: int = await connection.fetchval("SELECT id FROM sources WHERE name = 'news'")
    url_id: int = await connection.fetchval(
        "INSERT INTO url_frontier (url, url_hash, host, source_id, origin, discovered_at) "
        "VALUES ($1, sha256($1::text::bytea), $4, $2, 'manual', $3) "
        "ON CONFLICT (url_hash) DO UPDATE SET host = excluded.host RETURNING id",
        f"http://{host}/{name}",
        source_id,
        at,
        host,
    )
    return source_id, url_id
