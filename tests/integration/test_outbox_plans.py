"""What it costs to tell of changes does not grow with how many there were or wait (spec 4.4)."""

from uuid import UUID

import pytest

from headwater.store.pool import Database
from tests.integration.test_plans import MODES, NOW, SOON, explain

pytestmark = pytest.mark.both_servers

QUERIES: dict[str, tuple[object, ...]] = {
    "hold_webhooks": (NOW,),
    "fan_out": ([1], 500, 1000, NOW),
    "claim_deliveries": ([1], NOW, "me", UUID(int=1), SOON, 4, 3, 64),
    "positions_after": (1000, 100),
    "list_webhooks": (None, 100),
    "number_changes": (10**6, 5000),
    "return_expired_deliveries": (NOW, 500),
}


async def fill(database: Database, changes: int) -> None:
    """So many changes: half of them delivered, a few parked, 400 pending, the rest waiting, 20 without a place."""
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO webhooks (name, url, secret, events, position, created_at) "
            "VALUES ('hook', 'http://a.test/', sha256(''), '{document.ready}', $1, $2) ",
            changes // 2 + 400,
            NOW,
        )
        await connection.execute(
            "INSERT INTO changes (position, url_id, revision, changed_at) "
            "SELECT CASE WHEN n <= $1 THEN n END, n % 1000, 1, $2::timestamptz FROM generate_series(1, $1 + 20) AS n",
            changes,
            NOW,
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


async def test_nothing_reads_more_when_there_is_more(database: Database) -> None:
    """Spec 4.4: twenty times as many changes and deliveries, and each query reads about as many pages."""
    pages: dict[int, dict[tuple[str, str], int]] = {}
    for changes in (5_000, 100_000):
        async with database.connection() as connection:
            await connection.execute("TRUNCATE changes, webhooks, deliveries, delivery_log RESTART IDENTITY")
        await fill(database, changes)
        pages[changes] = {
            (name, mode): (await explain(database, name, *arguments, mode=mode)).pages_read
            for name, arguments in QUERIES.items()
            for mode in MODES
        }
    grown = {
        what: (few, pages[100_000][what]) for what, few in pages[5_000].items() if pages[100_000][what] > 2 * few + 30
    }
    assert grown == {}
