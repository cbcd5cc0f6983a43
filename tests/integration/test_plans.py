"""The queries of the frontier read no more from a large backlog, or with one large host (spec 2.5).

Each is explained with a plan made for its values and with the one PostgreSQL may keep for all values, on a table whose
statistics are fresh.
"""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from headwater.core.urls import url_hash
from headwater.db import sources
from headwater.db.hosts import FOREVER
from headwater.db.items import rebuild_days
from headwater.db.pool import Connection, Database
from headwater.db.sql import query

pytestmark = pytest.mark.both_servers

NOW = datetime(2026, 3, 12, 12, 0, tzinfo=UTC)
SOON = NOW + timedelta(hours=1)
GROWING = ("frontier_queue", "url_frontier", "host_state", "fetch_log")
MODES = ("force_custom_plan", "force_generic_plan")
TAKEN = 20
A_DAY = 3000


class Explained:
    """A plan that was carried out."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan

    def complaints(self) -> list[str]:
        """The steps that read a growing table completely, or sort its rows."""
        found = [f"Seq Scan on {node['Relation Name']}" for node in self._reads(self.plan, ("Seq Scan",))]
        for node in _nodes(self.plan):
            if node["Node Type"].endswith("Sort"):
                found += [f"Sort over {read['Relation Name']}" for read in self._reads(node)]
        return found

    def reads_whole(self, table: str) -> bool:
        """Return whether a step reads a whole table."""
        return any(node["Node Type"] == "Seq Scan" and node["Relation Name"] == table for node in _nodes(self.plan))

    @property
    def rows_read(self) -> float:
        """How many rows of growing tables were looked at, those that were passed over among them."""
        return sum(
            node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
            for node in self._reads(self.plan)
        )

    @property
    def rows_handled(self) -> float:
        """The number of rows that its steps return or compare."""
        passed_over = ("Rows Removed by Filter", "Rows Removed by Join Filter")
        return sum(
            node["Actual Loops"] * (node["Actual Rows"] + sum(node.get(why, 0) for why in passed_over))
            for node in _nodes(self.plan)
        )

    @property
    def pages_read(self) -> int:
        """How many pages of tables and indexes."""
        return int(self.plan["Shared Hit Blocks"] + self.plan["Shared Read Blocks"])

    def _reads(self, top: dict[str, Any], types: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
        for node in _nodes(top):
            is_read = node["Node Type"].endswith("Scan") and node.get("Relation Name") in GROWING
            if is_read and (not types or node["Node Type"] in types):
                yield node


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


async def explain(
    database: Database, name: str, *arguments: object, mode: str = MODES[0], work_mem: str = "4MB"
) -> Explained:
    """Run a named query, roll it back and return its plan."""
    async with database.connection() as connection:
        undone = connection.transaction()
        await undone.start()
        try:
            await connection.execute(f"SET LOCAL plan_cache_mode = {mode}; SET LOCAL work_mem = '{work_mem}'")
            await connection.execute(f"PREPARE explained AS {query(name)}")
            given = f"({', '.join(map(literal, arguments))})" if arguments else ""
            told = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE explained{given}")
        finally:
            await undone.rollback()
            await connection.execute("DEALLOCATE ALL")
            await connection.reload_schema_state()
        return Explained(json.loads(told)[0]["Plan"])


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "'{" + ",".join(f'"{_text(each)}"' if each is not None else "NULL" for each in value) + "}'"
    return str(value) if isinstance(value, bool | int) else f"'{_text(value)}'"


def _text(value: object) -> str:
    return f"\\\\x{value.hex()}" if isinstance(value, bytes) else str(value)


async def load(
    connection: Connection, hosts: str, urls: int, *, is_due: str = "true", priority: str = "1 + n % 10"
) -> None:
    """Queue so many URLs, each n of them at the host, with the priority, and due or not, as is said."""
    await connection.execute("SET session_replication_role = replica")  # no triggers: it is quicker
    await connection.execute(
        "CREATE TEMP TABLE loaded AS SELECT n, nextval(pg_get_serial_sequence('url_frontier', 'id')) AS id, "
        f"{hosts} || '.test' AS host FROM generate_series(1, {urls}) AS n"
    )
    await connection.execute(
        "INSERT INTO host_state (host, not_before, ready_at) "
        "SELECT host, $1::timestamptz, $1::timestamptz + min(n) * interval '1 ms' FROM loaded GROUP BY host",
        NOW - timedelta(minutes=1),
    )
    await connection.execute(
        "INSERT INTO url_frontier (id, url, url_hash, host, source_id, origin, discovered_at) "
        "OVERRIDING SYSTEM VALUE "
        "SELECT id, id::text, sha256(convert_to(id::text, 'UTF8')), host, 1, 'feed', $1 FROM loaded",
        NOW,
    )
    await connection.execute(
        "INSERT INTO frontier_queue (url_id, politeness_key, priority, due_at) SELECT id, host, "
        f"{priority}, $1::timestamptz + CASE WHEN {is_due} THEN -n ELSE n END * interval '1 s' FROM loaded",
        NOW,
    )
    await connection.execute(
        "INSERT INTO fetch_log (url_id, holder, attempt, finished_at, reason) "
        "SELECT id, 'me', 1, $1, 'timeout' FROM loaded",
        NOW,
    )
    await connection.execute("DROP TABLE loaded")
    await connection.execute("RESET session_replication_role")
    await connection.execute(f"ANALYZE sources, {', '.join(GROWING)}")


async def lease_some(connection: Connection, until: datetime) -> list[tuple[str, int, UUID]]:
    """Lease a URL of each of some hosts; return their hosts, ids and tokens."""
    rows = await connection.fetch(
        "WITH chosen AS (SELECT host, gen_random_uuid() AS token, "
        "  (SELECT url_id FROM frontier_queue WHERE politeness_key = host LIMIT 1) AS url_id "
        " FROM host_state ORDER BY host LIMIT $1), "
        "held AS (UPDATE host_state h SET lease_holder = 'me', lease_token = token, lease_until = $2 "
        " FROM chosen WHERE h.host = chosen.host) "
        "UPDATE frontier_queue q SET lease_holder = 'me', lease_token = token, lease_until = $2 "
        "FROM chosen WHERE q.url_id = chosen.url_id RETURNING chosen.host, chosen.url_id, chosen.token",
        TAKEN,
        until,
    )
    return [tuple(row) for row in rows]


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    async with database.connection() as lent:
        await sources.add_source(lent, "s", "feed", {}, now=NOW, due={})
        yield lent


def claiming() -> tuple[object, ...]:
    return (NOW, TAKEN, "me", NOW + timedelta(minutes=1), 1000, UUID(int=7))


async def test_no_query_of_the_frontier_reads_a_table_from_end_to_end_or_sorts_it(
    database: Database, connection: Connection
) -> None:
    await load(connection, "'h' || n % 5000", 10_000)
    await load(connection, "'hot'", 10_000)
    await connection.execute("UPDATE url_frontier SET subpath = '2026/' || id || '.html' WHERE id % 10 = 7")
    await connection.execute("ANALYZE url_frontier")
    leased = await lease_some(connection, until=NOW)
    keys, ids, tokens = (list(column) for column in zip(*leased, strict=True))
    known = [row["url_hash"] for row in await connection.fetch("SELECT url_hash FROM url_frontier LIMIT $1", TAKEN)]
    fresh = [url_hash(f"http://hot.test/new/{number}") for number in range(TAKEN)]
    nothing = [None] * len(ids)
    questions: dict[str, tuple[object, ...]] = {
        "find_urls": ([*known, *fresh],),
        "raise_priorities": (ids, [10] * len(ids)),
        "outdated_urls": (ids, [NOW] * len(ids), NOW),
        "adopt_urls": (ids, 1, "sitemap"),
        "note_sightings": (ids, 1, "sitemap", NOW),
        "move_sightings": (ids, ids[::-1]),
        "list_page_sightings": (ids,),
        "save_page_items": (ids, [1] * len(ids), *([[NOW] * len(ids)] * 3), [True] * len(ids), NOW),
        "note_changed_pages": (ids, NOW),
        "drop_page_items": (ids,),
        "find_path_conflicts": (1, ["2026", "2026/7.html", "2026/7.html/x", "2027"]),
        "wake_keys": (keys, keys, NOW),
        "claim_urls": claiming(),
        "give_back_claims": (ids, keys, tokens, [SOON] * len(ids), NOW),
        "save_permits": (1, 4),
        "take_permits": ([1] * len(ids), tokens, [SOON] * len(ids), NOW),
        "free_permits": ([1] * len(ids), tokens),
        "end_urls": (ids, ["dead"] * len(ids), ["gone"] * len(ids), nothing, nothing, NOW),
        "requeue_urls": (ids, [SOON] * len(ids), [True] * len(ids)),
        "release_hosts": (keys, tokens, [NOW] * len(ids), [0] * len(ids), nothing, nothing),
        "release_polled_hosts": (keys, tokens, [NOW] * len(ids), [0] * len(ids), nothing, nothing, True),
        "lease_hosts": (keys, tokens, NOW, "me", SOON, 1000),
        "set_next_work": (keys,),
        "revive_hosts": (ids,),
        "save_failure": (keys[0], NOW, 1, "dns", NOW, SOON),
        "get_next_ready": (NOW,),
        "lock_expired_claims": (NOW, 500),
        "lock_expired_hosts": (NOW, 500),
        "find_forgotten_hosts": ("h2", 100),
        "choose_queued_urls": (False, None, None, 0, 50),
        "describe_urls": (ids, NOW, FOREVER),
    }
    complaints = {}
    for name, arguments in questions.items():
        for mode in MODES:
            explained = await explain(database, name, *arguments, mode=mode)
            found = explained.complaints()
            if explained.rows_read > 1500:
                found.append(f"{explained.rows_read} rows read")
            if found:
                complaints[name, mode] = found
    assert complaints == {}


async def test_whether_a_feed_is_read_already_is_asked_of_its_index(database: Database, connection: Connection) -> None:
    """Spec 3.1: each new source asks it, a file of ten thousand as often."""
    await connection.execute(
        "INSERT INTO sources (name, kind, settings, created_at) "
        "SELECT 'f' || n, 'site', jsonb_build_object('feed_url', 'http://h' || n || '.test/feed'), $1 "
        "FROM generate_series(1, 5000) AS n",
        NOW,
    )
    await connection.execute("ANALYZE sources")
    assert await sources.find_feed_owner(connection, "http://h77.test/feed") == "f77"
    for mode in MODES:
        explained = await explain(database, "find_feed_owner", "http://h77.test/feed", mode=mode)
        assert [node.get("Index Name") for node in _nodes(explained.plan) if "Index Name" in node] == ["sources_feed"]


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_day_is_built_again_in_a_time_that_grows_with_it_and_not_with_its_square(
    analyzed: bool, database: Database, connection: Connection
) -> None:
    """Spec 6.4: of a source that has been read for long, and of a young one that nothing is known of."""
    await connection.execute("SET session_replication_role = replica")  # the items themselves are not needed
    await connection.execute(
        "INSERT INTO item_observations (item_id, source_id, published_at, observed_at) "
        "SELECT 'i' || n, 1, $1::timestamptz - n % $2::int * interval '1 day', $1 FROM generate_series(1, $3) AS n",
        NOW,
        days := 30 if analyzed else 1,
        A_DAY * days,
    )
    await rebuild_days(connection, 1, {NOW.date(): (NOW, NOW + timedelta(days=1))})
    if analyzed:
        await connection.execute("ANALYZE item_observations, daily_index")
    for mode in MODES:
        built = (1, [NOW.date()], [NOW], [NOW + timedelta(days=1)])
        explained = await explain(database, "build_days", *built, mode=mode, work_mem="64kB")  # like a larger table
        assert A_DAY < explained.rows_handled < 40 * A_DAY


async def test_the_minutes_of_history_are_counted_without_the_older_attempts(
    database: Database, connection: Connection
) -> None:
    """Spec 8.4: a minute costs as much after years as after an hour."""
    await load(connection, "'h' || n % 500", 20_000)
    await connection.execute("UPDATE fetch_log SET finished_at = $1::timestamptz - id * interval '1 minute'", NOW)
    await connection.execute("ANALYZE fetch_log")
    start = NOW - timedelta(hours=1)
    for mode in MODES:
        counted = (start, NOW, ["stored"], ["fetched"], ["stored"], ["fetched", "documents"])
        explained = await explain(database, "record_minutes", *counted, mode=mode)
        assert not [table for table in GROWING if explained.reads_whole(table)]
        assert explained.rows_read < 300


async def test_the_completeness_of_a_day_reads_only_that_day(database: Database, connection: Connection) -> None:
    """Spec 8.4: the page of a day costs as much after years as after a week."""
    await load(connection, "'h' || n % 500", 20_000)
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(
        "INSERT INTO items (id, source_id, url, url_id, title, published_at, published_is_sighting, first_seen_at, "
        "last_seen_at) SELECT encode(sha256(url_hash), 'hex'), 1, url, id, url, $1, false, $1, $1 FROM url_frontier",
        NOW,
    )
    await connection.execute(
        "INSERT INTO daily_index (source_id, day, item_id, bucket) "
        "SELECT 1, $1::date - (row_number() OVER (ORDER BY id))::int / 10, id, 'NEW' FROM items",
        NOW.date(),
    )
    await connection.execute("RESET session_replication_role")
    await connection.execute("ANALYZE items, daily_index, documents")
    for name, arguments in (("count_complete", ()), ("list_missing", (None, None, 50))):
        for mode in MODES:
            explained = await explain(database, name, NOW.date() - timedelta(days=3), None, *arguments, mode=mode)
            assert not [table for table in ("daily_index", "items", *GROWING) if explained.reads_whole(table)]
            assert explained.rows_read < 200


# Which of the URLs of the host that holds most are due, and what priority they have.
HOT_HOSTS = {
    "all are due": ("true", "1 + n % 10"),
    "a few are due": ("n % 100 = 0", "1 + n % 10"),
    "one is due that all others would go before": ("n = 1", "CASE n WHEN 1 THEN 1 ELSE 10 END"),
    "none is due": ("false", "1 + n % 10"),
}


async def test_a_claim_reads_as_much_of_a_long_queue_as_of_a_short_one(
    database: Database, connection: Connection
) -> None:
    """The due URLs of the largest host do not matter."""
    grown = {}
    for case, (is_due, priority) in HOT_HOSTS.items():
        read: dict[str, list[Explained]] = {mode: [] for mode in MODES}
        for length in (500, 8_000):
            await connection.execute("TRUNCATE url_frontier, frontier_queue, host_state CASCADE")
            await load(connection, "'h' || n % 1000", 3_000)
            await load(connection, "'hot'", length, is_due=is_due, priority=priority)
            for mode in MODES:
                read[mode].append(await explain(database, "claim_urls", *claiming(), mode=mode))
        for mode, (short, long) in read.items():
            if long.rows_read > short.rows_read * 1.1 or long.pages_read > short.pages_read * 1.1 + 10:
                grown[case, mode] = [(one.rows_read, one.pages_read) for one in (short, long)]
    assert grown == {}
