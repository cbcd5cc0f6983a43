"""The cost of the change feed and of webhooks does not grow with the number of changes (spec 4.4)."""

from datetime import timedelta
from uuid import UUID

import pytest

from headwater.db.pool import Database
from tests.integration.test_plans import MODES, NOW, SOON, Explained, explain

pytestmark = pytest.mark.both_servers

UNNUMBERED = 20_000
QUERIES: list[tuple[str, tuple[object, ...]]] = [
    ("lock_ready_webhooks", (NOW,)),
    ("fan_out", ([1, 2], 500, 1000, NOW, 2000)),
    ("claim_deliveries", ([1], NOW, "me", UUID(int=1), SOON, 4, 3, 64, SOON, 48)),
    ("positions_after", (1000, 100)),
    ("list_webhooks", (None, 100, 2000)),
    ("number_changes", (10**6, 5000)),
    ("position_before", (NOW - timedelta(days=9),)),
    ("position_before", (NOW - timedelta(minutes=5),)),
    ("return_expired_deliveries", (NOW, 500)),
    ("lock_watching_receiver", (500, 1000, [])),
    ("next_changed_documents", (1000, 500)),
    ("report_matches", (3, 1000, 1500, [1, 2], NOW)),
]


async def fill(database: Database, changes: int) -> None:
    """Add changes: half delivered, a few parked, 400 pending, the rest waiting, and thousands without a position.

    A second receiver wants none of them.
    """
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO webhooks (name, url, secret, events, position, created_at) "
            "VALUES ('hook', 'http://a.test/', sha256(''), '{document.ready}', $1, $2), "
            "('jobs', 'http://a.test/', sha256(''), '{job.failed}', 1, $2)",
            changes // 2 + 400,
            NOW,
        )
        await connection.execute(
            "INSERT INTO saved_searches (name, words, created_at) VALUES ('floods', 'flood', $1)",
            NOW,
        )
        await connection.execute(
            "INSERT INTO webhooks (name, url, secret, events, search_id, position, created_at) "
            "VALUES ('watcher', 'http://a.test/', sha256(''), '{document.ready}', 1, 1000, $1)",
            NOW,
        )
        await connection.execute(
            "INSERT INTO changes (position, advances_time, url_id, revision, changed_at) "
            "SELECT CASE WHEN n <= $1 THEN n END, n <= $1, n % 1000, 1, $2::timestamptz + (n - $1) * interval '1 s' "
            "FROM generate_series(1, $1 + $3::int) AS n",
            changes,
            NOW,
            UNNUMBERED,
        )
        await connection.execute("UPDATE change_state SET last_position = $1", changes)
        await connection.execute(
            "INSERT INTO deliveries (webhook_id, position, url_id, event, status, reason, due_at, ended_at) "
            "SELECT 1, n, n % 1000, 'document.ready', status, 'gone', $2::timestamptz, "
            "CASE WHEN status <> 'pending' THEN $2 END "
            "FROM generate_series(1, $1 / 2 + 400) AS n CROSS JOIN LATERAL "
            "(SELECT CASE WHEN n > $1 / 2 THEN 'pending' WHEN n < 100 THEN 'parked' ELSE 'delivered' END AS status) s",
            changes,
            NOW,
        )
        await connection.execute("ANALYZE")


async def test_no_query_reads_more_pages_when_there_are_more_changes(database: Database) -> None:
    """Spec 4.4: with twenty times the changes and deliveries, each query reads about the same number of pages."""
    plans: dict[int, dict[tuple[str, str, str], Explained]] = {}
    for changes in (5_000, 100_000):
        async with database.connection() as connection:
            await connection.execute(
                "TRUNCATE changes, webhooks, deliveries, delivery_log, saved_searches, reported_documents "
                "RESTART IDENTITY"
            )
        await fill(database, changes)
        plans[changes] = {
            (name, str(arguments), mode): await explain(database, name, *arguments, mode=mode)
            for name, arguments in QUERIES
            for mode in MODES
        }
    pages = {what: (plan.pages_read, plans[100_000][what].pages_read) for what, plan in plans[5_000].items()}
    assert {what: (few, many) for what, (few, many) in pages.items() if many > 2 * few + 30} == {}
    assert [what for what, plan in plans[100_000].items() if plan.reads_whole("changes")] == []
