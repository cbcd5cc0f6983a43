"""Stories after kills: a step is one transaction, so a kill at any point loses nothing (spec 9.3, issue 23)."""

import asyncio

import pytest

from tests.faults.conftest import Crawl
from tests.faults.invariants import violations
from tests.faults.victim import STORY_POINTS


@pytest.mark.timeout(180)
async def test_stories_are_those_of_the_documents_after_a_kill_at_every_point(crawl: Crawl) -> None:
    """All changes are in stories at the end, without the help of `story verify`."""
    async with crawl(hosts=12, pages=4) as harness:
        for point in STORY_POINTS:
            await harness.run_until_killed(point=point, plant="brisk rescuer")
        await harness.start("up", plant="brisk rescuer")
        await harness.until_done(60)
        waiting = "SELECT count(*) FROM changes WHERE position IS NULL OR position > (SELECT position FROM story_state)"
        async with asyncio.timeout(60):
            while await harness.rows(waiting) != [(0,)]:
                await asyncio.sleep(0.1)
        await harness.stop()
        assert await violations(harness) == {}
