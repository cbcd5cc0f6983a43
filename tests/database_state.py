"""States of the database that tests begin with, and the leases and the queue, which no operation shows."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from headwater.app.maintenance import RESCUERS
from headwater.db.pool import Database
from tests.waiting import until


class HasDatabase(Protocol):
    """A harness with a database."""

    async def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]: ...

    async def execute(self, statement: str, *arguments: object) -> None: ...


class DatabaseReader:
    """Reads and changes rows directly, where no operation does."""

    database: Database

    async def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Read rows."""
        async with self.database.connection() as connection:
            return [tuple(row) for row in await connection.fetch(query, *arguments)]

    async def execute(self, statement: str, *arguments: object) -> None:
        """Change rows."""
        async with self.database.connection() as connection:
            await connection.execute(statement, *arguments)


# Each counter that triggers keep: its rows, and a recount of what it counts.
_COUNTERS = {
    "frontier_counts": (
        "SELECT status, reason, sum(urls)::bigint FROM frontier_counts GROUP BY 1, 2 HAVING sum(urls) <> 0",
        "SELECT status, reason, count(*) FROM url_frontier GROUP BY 1, 2",
    ),
    "source_urls": (
        "SELECT source_id, status, sum(urls)::bigint FROM source_urls GROUP BY 1, 2 HAVING sum(urls) <> 0",
        "SELECT source_id, status, count(*) FROM url_frontier GROUP BY 1, 2",
    ),
    "ended_urls": (
        "SELECT url_id, source_id, status, reason FROM ended_urls",
        "SELECT id, source_id, status, reason FROM url_frontier WHERE reason <> 'stored'",
    ),
    "items of source_sizes": (
        "SELECT source_id, sum(items)::bigint FROM source_sizes GROUP BY 1 HAVING sum(items) <> 0",
        "SELECT source_id, count(*) FROM items GROUP BY 1",
    ),
    "documents of source_sizes": (
        "SELECT source_id, sum(documents)::bigint FROM source_sizes GROUP BY 1 HAVING sum(documents) <> 0",
        "SELECT source_id, count(*) FROM documents GROUP BY 1",
    ),
    "job_counts": (
        "SELECT source_id, status, reason, sum(jobs)::bigint FROM job_counts GROUP BY 1, 2, 3 HAVING sum(jobs) <> 0",
        "SELECT source_id, status, reason, count(*) FROM ingestion_jobs GROUP BY 1, 2, 3",
    ),
    "handoff_counts": (
        "SELECT source_id, status, sum(handoffs)::bigint FROM handoff_counts GROUP BY 1, 2 HAVING sum(handoffs) <> 0",
        "SELECT source_id, status, count(*) FROM ingestion_handoffs GROUP BY 1, 2",
    ),
    "items of daily_index": (
        "SELECT item_id, url_id, topics FROM daily_index GROUP BY 1, 2, 3",
        "SELECT id, url_id, make_topics(tags) FROM items WHERE id IN (SELECT item_id FROM daily_index)",
    ),
}


async def find_wrong_counters(harness: HasDatabase, *names: str) -> list[str]:
    """Return the counters, of all or of some, that differ from a recount."""
    return [
        name
        for name, (kept, recount) in _COUNTERS.items()
        if (not names or name in names)
        and Counter(map(repr, await harness.rows(kept))) != Counter(map(repr, await harness.rows(recount)))
    ]


async def count(harness: HasDatabase, table: str, where: str = "true") -> int:
    """Count rows, of a table that no operation shows or of many."""
    ((rows,),) = await harness.rows(f"SELECT count(*) FROM {table} WHERE {where}")
    found: int = rows
    return found


async def until_blocked(harness: HasDatabase) -> None:
    """Wait until a statement waits for a lock."""
    blocked = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    await until(lambda: harness.rows(blocked))


async def held_leases(harness: HasDatabase) -> dict[str, int]:
    """Count the leases of each table that has any."""
    counts = {table: await count(harness, table, "lease_token IS NOT NULL") for table in RESCUERS}
    return {table: leases for table, leases in counts.items() if leases}


async def end_leases(harness: HasDatabase, *tables: str) -> None:
    """End the leases of tables, by default of all that are rescued."""
    for table in tables or RESCUERS:
        await harness.execute(
            f"UPDATE {table} SET lease_until = clock_timestamp() - interval '1 s' WHERE lease_token IS NOT NULL"
        )


async def poll_memory(harness: HasDatabase, method: str = "main") -> dict[str, Any]:
    """Return what the kind of the only source remembers between its polls."""
    ((state,),) = await harness.rows("SELECT state FROM poll_state WHERE method = $1", method)
    saved: dict[str, Any] = state
    return saved


async def make_due(harness: HasDatabase) -> None:
    """Make all waiting URLs due, also of hosts that are blocked."""
    await harness.execute("UPDATE frontier_queue SET due_at = 'yesterday'")
    await harness.execute(
        "UPDATE host_state SET ready_at = 'yesterday', not_before = 'yesterday', blocked_reason = NULL"
    )


async def make_polls_due(harness: HasDatabase, method: str = "%") -> None:
    """Make the polls due that are planned."""
    await harness.execute(
        "UPDATE poll_state SET next_poll_at = 'yesterday' WHERE next_poll_at IS NOT NULL AND method LIKE $1", method
    )


class StoredItem(NamedTuple):
    """An item of a source."""

    url: str
    title: str
    published_at: datetime
    published_is_sighting: bool
    updated_at: datetime | None
    tags: dict[str, Any]
    raw: Any


async def items(harness: HasDatabase) -> list[StoredItem]:
    """Return all items by URL. The operations show the last of a source, or those of a day."""
    fields = ", ".join(StoredItem._fields)
    return [StoredItem(*row) for row in await harness.rows(f"SELECT {fields} FROM items ORDER BY url")]


class Attempt(NamedTuple):
    """An attempt of the canonical run at a link."""

    uid: str
    url: str | None
    categories: list[str]
    code: str | None
    reason: str | None
    requested_at: datetime | None
    attempted_at: datetime | None
    final_url: str | None


async def canonical_attempts(harness: HasDatabase) -> list[Attempt]:
    """Return the attempts of canonical runs by URL. No operation lists them without Redis."""
    rows = await harness.rows(
        "SELECT uid, a.url, categories, code, a.reason, requested_at, attempted_at, u.url "
        "FROM canonical_attempts a LEFT JOIN url_frontier u ON u.id = a.url_id ORDER BY a.url"
    )
    return [Attempt(*row) for row in rows]


async def backdate(harness: HasDatabase, column: str, by: timedelta) -> None:
    """Move all times of a column, given as `table.column`, into the past."""
    table, _, name = column.partition(".")
    await harness.execute(f"UPDATE {table} SET {name} = {name} - $1::interval", by)


async def others_have_asked(database: Database, table: str) -> bool:
    """Return whether another connection has sent a query on a table."""
    async with database.connection() as connection:
        found: bool = await connection.fetchval(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%FROM ' || $1 || '%' "
            "AND pid <> pg_backend_pid() AND datname = current_database())",
            table,
        )
    return found
