"""The counters are right, and the log does not grow without limit (spec 2.4, 2.5)."""

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta

import pytest

from headwater.app.maintenance import MaintenanceRole
from headwater.core.frontier import FetchOutcome, UrlFilter, UrlStatus
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import frontier as store
from headwater.db.context import open_database_context
from headwater.frontier import rescue
from headwater.frontier.retry import retry_all
from tests.database_state import count, find_wrong_counters
from tests.frontier import LEASE, NOW, STORED, Frontier

pytestmark = pytest.mark.both_servers

ENDINGS = [
    STORED,
    FetchOutcome(Reason.LINKED, UrlStatus.FETCHED),
    FetchOutcome(Reason.NOT_FOUND, UrlStatus.DEAD),
    FetchOutcome(Reason.HTTP_5XX, UrlStatus.PENDING),
]


async def counted(frontier: Frontier) -> list[tuple[object, ...]]:
    async with frontier.database.connection() as connection:
        return sorted(await store.count_urls(connection), key=str)


async def recounted(frontier: Frontier) -> list[tuple[object, ...]]:
    return sorted(await frontier.rows("SELECT status, reason, count(*) FROM url_frontier GROUP BY 1, 2"), key=str)


async def test_the_counters_equal_a_recount_whatever_happens(frontier: Frontier) -> None:
    """Spec 2.5: stats cost the same at any size because every change adds its difference."""
    chance = random.Random(4)

    async def put() -> None:
        await frontier.put(*(f"http://h{chance.randrange(6)}.test/{chance.randrange(60)}" for _ in range(8)))

    async def work() -> None:
        for claim in await frontier.take(limit=chance.randrange(1, 7)):
            if chance.random() < 0.9:
                await frontier.end(claim, chance.choice(ENDINGS))

    async def retry() -> None:
        filters = UrlFilter(status=chance.choice(["dead", "fetched"]))
        async for _ in retry_all(frontier.database, frontier.now, filters):
            pass

    async def twin() -> None:
        number = chance.randrange(10**6)
        fetched = await frontier.rows(
            "SELECT id FROM url_frontier WHERE status = 'fetched' AND alias_of IS NULL LIMIT 1"
        )
        for (page_id,) in fetched:
            other = (int(str(page_id)), f"http://h0.test/twin-{number}", number.to_bytes(32, "big"))
            await frontier.database.transact(
                lambda connection, other=other: store.save_aliases(connection, [other], frontier.now)
            )

    async def lose_workers() -> None:
        frontier.now += LEASE + timedelta(seconds=2)
        await rescue.rescue_claims(frontier.database, frontier.now, 3)
        await rescue.rescue_hosts(frontier.database, frontier.now)

    async def fold() -> None:
        await frontier.database.transact(store.merge_frontier_counts)

    for _ in range(120):
        frontier.now += timedelta(seconds=1)
        await chance.choices([put, work, retry, twin, lose_workers, fold], weights=[4, 8, 1, 1, 1, 1])[0]()
        assert await find_wrong_counters(frontier) == []
    assert len(await counted(frontier)) >= 5, "the mix must reach most of the ends"
    await frontier.execute("DELETE FROM frontier_queue")
    await frontier.execute("TRUNCATE fetch_log")
    await frontier.execute("DELETE FROM url_frontier WHERE alias_of IS NOT NULL")
    assert await find_wrong_counters(frontier) == []


async def test_counters_are_right_while_many_change_and_fold_them_at_once(frontier: Frontier) -> None:
    """Spec 2.5: no change waits for another, and no count is lost."""
    await frontier.put(*(f"http://h{number}.test/x" for number in range(40)))

    async def work() -> None:
        while claims := await frontier.take(limit=3):
            for claim in claims:
                await frontier.end(claim, random.choice(ENDINGS[:3]))

    async def fold() -> None:
        for _ in range(20):
            await frontier.database.transact(store.merge_frontier_counts)

    await asyncio.gather(work(), work(), fold(), fold())
    assert await find_wrong_counters(frontier) == []
    await frontier.database.transact(store.merge_frontier_counts)
    assert await count(frontier, "frontier_counts") == len(await counted(frontier))


async def test_old_attempts_are_forgotten_and_young_ones_kept(frontier: Frontier) -> None:
    """Spec 2.4: the log is kept for as long as the operator wants."""
    for day in range(10):
        frontier.now = NOW + timedelta(days=day)
        await frontier.put(f"http://a.test/{day}")
        (claim,) = await frontier.take()
        await frontier.end(claim, STORED)
    keep = timedelta(days=3)
    assert await rescue.prune_log(frontier.database, frontier.now, keep) == 6
    assert await count(frontier, "fetch_log") == 4
    assert await count(frontier, "fetch_log", f"finished_at >= '{NOW + timedelta(days=6)}'") == 4
    assert await rescue.prune_log(frontier.database, frontier.now, keep) == 0
    assert await count(frontier, "url_frontier", "status = 'fetched'") == 10


async def test_maintenance_prunes_and_folds_by_itself(
    frontier: Frontier, make_settings: Callable[..., Settings]
) -> None:
    """Spec 2.4: the setting says how long."""
    await frontier.put(*(f"http://h{number}.test/x" for number in range(5)))
    for claim in await frontier.take():
        await frontier.end(claim, STORED)
    await frontier.execute("UPDATE fetch_log SET finished_at = now() - url_id * interval '1 day'")
    stop = asyncio.Event()
    async with open_database_context(make_settings(fetch_log_days=3)) as context:
        running = asyncio.create_task(MaintenanceRole(context, interval_seconds=0.02).run(stop, 1.0))
        while await count(frontier, "fetch_log", "finished_at < now() - interval '3 days'"):
            await asyncio.sleep(0.02)
        while await count(frontier, "frontier_counts") > len(await counted(frontier)):
            await asyncio.sleep(0.02)
        stop.set()
        await running
    assert await count(frontier, "fetch_log") == 2
    assert await counted(frontier) == await recounted(frontier)
