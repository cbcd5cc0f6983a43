"""The queries of stories read what a document needs, and no table in whole (issue 23)."""

from collections.abc import AsyncIterator

import pytest

from headwater.db.pool import Connection, Database
from tests.integration.test_plans import MODES, explain

pytestmark = pytest.mark.both_servers

DOCUMENTS = 20_000
TABLES = ("story_documents", "story_keys", "documents", "texts", "url_frontier", "changes", "document_search")
IDS = [77, 19_000]

# Every second document joins the one before. Each has keys of its own, and all have one common key.
LOAD = f"""
SET session_replication_role = replica;
INSERT INTO sources (name, kind, created_at) VALUES ('s', 'site', '2026-03-12');
INSERT INTO url_frontier (url, url_hash, host, source_id, origin, discovered_at)
SELECT n::text, sha256(convert_to(n::text, 'UTF8')), 'h.test', 1, 'feed', '2026-03-12'
FROM generate_series(1, {DOCUMENTS}) n;
INSERT INTO texts (content_hash, body, first_seen_at) SELECT url_hash, repeat('word ', 100), '2026-03-12'
FROM url_frontier;
INSERT INTO documents (url_id, source_id, content_hash, title, provenance, normalizer, raw_path, raw_hash,
                       raw_bytes, fetched_at)
SELECT id, 1, url_hash, url, '{{}}', 'html_v1', '', url_hash, 1, '2026-03-12' FROM url_frontier;
INSERT INTO document_search (document_id, dated_at, marks, titles, words)
SELECT id, '2026-03-12', '{{}}', '', '' FROM documents;
INSERT INTO changes (position, url_id, document_id, revision, changed_at)
SELECT id, url_id, id, 1, '2026-03-12' FROM documents;
INSERT INTO story_documents (document_id, story_id, links, signature)
SELECT id, id - (id + 1) % 2, '{{}}', repeat('x', 800)::bytea FROM documents;
INSERT INTO story_keys (key, document_id)
SELECT id * 16 + k, id FROM documents, generate_series(1, 15) k UNION ALL SELECT 7, id FROM documents;
ANALYZE;
"""


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    """A database with 20,000 documents in stories of two."""
    async with database.connection() as connection:
        await connection.execute(LOAD)
        yield connection


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("changed_documents", (19_000, 100)),
        ("documents_for_stories", (IDS, 8000)),
        ("story_rows", (IDS,)),
        ("documents_before", ([7, 1233, 7], [77, 77, 19_000], 20, 16)),
        ("documents_after", ([7, 1233, 7], [77, 77, 19_000], 20)),
        ("last_story_document", ()),
        ("remove_story_keys", ([1233], [77])),
        ("remove_story_rows", (IDS,)),
        ("merge_stories", (IDS, [1, 1])),
        ("links_of_stories", (IDS,)),
        ("story_members", (77, 51)),
        ("newest_of_story", (77, 50)),
        ("list_stories", (None, 20, 100)),
        ("list_stories", (5000, 20, 100)),
        ("stories_of_documents", (IDS, 100, 6)),
        ("stories_by_document", (IDS,)),
        ("count_story_changes", (1000,)),
    ],
)
async def test_no_query_of_stories_reads_a_whole_table(
    database: Database, connection: Connection, name: str, parameters: tuple[object, ...]
) -> None:
    del connection
    for mode in MODES:
        explained = await explain(database, name, *parameters, mode=mode)
        assert not [table for table in TABLES if explained.reads_whole(table)], mode
