"""The queries of the pages read what a page shows, and no table in whole (issue 22).

Each is explained with a plan made for its values and with the one PostgreSQL may keep for all values.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from headwater.db.pool import Connection, Database
from tests.integration.test_plans import MODES, explain

pytestmark = pytest.mark.both_servers

NOON = datetime(2026, 3, 12, 12, tzinfo=UTC)
DAYS, A_DAY, SOURCES = 40, 500, 50
TABLES = ("items", "daily_index", "documents", "texts", "url_frontier")
NO_FILTER = (None,) * 8


# The rows of DAYS days, without triggers, which take long. A number is the address of each page.
LOAD = f"""
SET session_replication_role = replica;
INSERT INTO sources (name, kind, created_at)
SELECT 's' || n, 'site', '{NOON}' FROM generate_series(1, {SOURCES}) n;
INSERT INTO url_frontier (url, url_hash, host, source_id, origin, discovered_at)
SELECT n::text, sha256(convert_to(n::text, 'UTF8')), 'h.test', 1, 'feed', '{NOON}'
FROM generate_series(0, {DAYS * A_DAY - 1}) n;
INSERT INTO texts (content_hash, body, first_seen_at)
SELECT url_hash, repeat('word ', 100), '{NOON}' FROM url_frontier;
INSERT INTO items (id, source_id, url, url_id, title, published_at, published_is_sighting, tags, first_seen_at,
                   last_seen_at)
SELECT encode(url_hash, 'hex'), url::int % {SOURCES} + 1, url, id, url,
       timestamptz '{NOON}' - (url::int / {A_DAY}) * interval '1 day', false, '{{"topic": ["a"]}}', '{NOON}', '{NOON}'
FROM url_frontier;
INSERT INTO documents (url_id, source_id, content_hash, title, provenance, normalizer, raw_path, raw_hash, raw_bytes,
                       fetched_at)
SELECT id, 1, url_hash, url, '{{}}', 'html_v1', '', url_hash, 1, '{NOON}' FROM url_frontier;
INSERT INTO daily_index (source_id, day, item_id, url_id, topics, bucket, published_at)
SELECT source_id, (published_at AT TIME ZONE 'UTC')::date, id, url_id, make_topics(tags), 'NEW', published_at
FROM items;
ANALYZE {", ".join(TABLES)}, sources;
"""


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    """A database with 20,000 documents of 40 days."""
    async with database.connection() as connection:
        await connection.execute(LOAD)
        yield connection


async def test_a_day_is_read_and_counted_without_the_other_days(database: Database, connection: Connection) -> None:
    del connection
    day = NOON.date() - timedelta(days=3)
    for mode in MODES:
        for name, rest in (("read_day", (50, None, None, None, None)), ("count_day", (30, 1000))):
            explained = await explain(database, name, day, *NO_FILTER, *rest, mode=mode)
            assert not [table for table in TABLES if explained.reads_whole(table)], (name, mode)
            assert explained.rows_handled < 40 * A_DAY, (name, mode)


async def test_leads_and_the_trace_of_a_document_are_looked_up_by_index(
    database: Database, connection: Connection
) -> None:
    ids = [row["id"] for row in await connection.fetch("SELECT id FROM documents ORDER BY id LIMIT 50")]
    for mode in MODES:
        for name, arguments in (("document_leads", (ids, 300)), ("traced_url", (ids[0],))):
            explained = await explain(database, name, *arguments, mode=mode)
            assert not [table for table in TABLES if explained.reads_whole(table)], (name, mode)
            assert explained.rows_handled < 10 * len(ids), (name, mode)
