"""A watched page is fetched again once for each time it is due, after any kill (spec 9.3, 11.2)."""

import asyncio

import pytest

from headwater.app.operations import LocalOperations
from headwater.core.settings import Settings
from headwater.db.context import open_database_context
from tests.faults.conftest import Crawl
from tests.faults.victim import WATCH_POINTS

BRISK = "brisk rescuer"
PAGES = 40


@pytest.mark.timeout(180)
async def test_a_kill_at_every_named_point_loses_no_watch_and_queues_no_page_twice(crawl: Crawl) -> None:
    async with crawl(hosts=10, pages=PAGES // 10, plain=True) as harness:
        await harness.start("up", plant=BRISK)
        await harness.until_done(60)
        await harness.stop()
        async with open_database_context(Settings(database_url=harness.database_url, data_dir=harness.data)) as context:
            await LocalOperations(context).sources.edit("s1", {"refetch": "every 6h"})
        first, *rest = WATCH_POINTS
        await harness.run_until_killed(point=first, plant=BRISK)
        await harness.start("up", plant=BRISK)
        while await harness.rows("SELECT count(*) FROM watches HAVING count(*) < $1", PAGES):
            await asyncio.sleep(0.02)
        await harness.stop()
        await harness.execute("UPDATE watches SET next_at = 'yesterday'")
        for point in rest:
            await harness.run_until_killed(point=point, plant=BRISK)
        for _ in range(2):
            await harness.start("up", plant=BRISK)
        await harness.until_done(60)
        await harness.stop()
        fetches = await harness.rows(
            "SELECT count(*) FROM fetch_log WHERE reason IN ('stored', 'linked', 'unchanged') GROUP BY url_id"
        )
        waits = await harness.rows(
            "SELECT w.next_at - u.last_fetched_at FROM watches w JOIN url_frontier u ON u.id = w.url_id"
        )
    assert fetches == [(2,)] * PAGES
    assert {wait.total_seconds() for (wait,) in waits} == {6 * 3600}
