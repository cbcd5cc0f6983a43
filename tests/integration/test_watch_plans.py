"""The cost of watched pages does not grow with their number (spec 2.5, 11.2)."""

from datetime import timedelta

import pytest

from headwater.db import sources
from headwater.db.pool import Database
from tests.integration.test_plans import MODES, NOW, explain, load

pytestmark = pytest.mark.both_servers

PAGES, TAKEN = 20_000, 100
IDS = list(range(1, TAKEN + 1))
TABLES = ("watches", "url_frontier", "documents")
FILL = (
    "SET session_replication_role = replica",
    "INSERT INTO watches (url_id, policy, next_at, learned_interval) SELECT id, "
    "CASE WHEN id % 100 = 0 THEN 'every 6h' END, '2026-03-12 12:00Z'::timestamptz - id * interval '1 s', '1 h' "
    "FROM url_frontier",
    "INSERT INTO documents (url_id, source_id, content_hash, title, provenance, normalizer, raw_path, raw_hash, "
    "raw_bytes, fetched_at) "
    "SELECT id, 1, sha256(''), '', '{}', 'x', '', sha256(''), 1, now() FROM url_frontier",
    "RESET session_replication_role",
    "ANALYZE watches, documents, url_frontier, sources",
)
QUERIES: list[tuple[str, tuple[object, ...]]] = [
    ("get_watches", (IDS,)),
    ("take_due_watches", (NOW, TAKEN)),
    ("documents_to_replan", (1, 0, TAKEN)),
    ("lock_replanned_source", ()),
    ("save_plans", (IDS, [NOW] * TAKEN, [timedelta(hours=1)] * TAKEN, [0] * TAKEN, [0] * TAKEN)),
    ("move_watches", (IDS, [number + TAKEN for number in IDS], NOW)),
    ("end_watches", (IDS,)),
]
LISTS: list[tuple[str, tuple[object, ...]]] = [
    ("list_watches", (False, 5000, TAKEN)),
    ("list_watches", (True, 5000, TAKEN)),
]


async def test_no_query_of_watches_reads_more_from_many(database: Database) -> None:
    async with database.connection() as connection:
        await sources.add_source(connection, "s", "site", {}, now=NOW, due={})
        await load(connection, "'h' || n % 50", PAGES)
        for statement in FILL:
            await connection.execute(statement)
    questions = [(*each, mode) for each in QUERIES for mode in MODES] + [(*each, MODES[0]) for each in LISTS]
    complaints = {}
    for name, arguments, mode in questions:
        explained = await explain(database, name, *arguments, mode=mode)
        found = [f"{table} is read from end to end" for table in TABLES if explained.reads_whole(table)]
        if explained.rows_handled > 40 * TAKEN:
            found.append(f"{explained.rows_handled} rows handled")
        if found:
            complaints[name, mode] = found
    assert complaints == {}
