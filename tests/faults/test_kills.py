"""After a kill at any time the next start loses nothing, repeats nothing and stays polite (spec 9.3)."""

import asyncio
import os
import random

import pytest

from tests.faults.conftest import Crawl
from tests.faults.invariants import violations
from tests.faults.victim import DEADLY, POINTS

# Issue 4 demands 20,000, which take some minutes.
URLS = int(os.environ.get("HEADWATER_TEST_URLS", "5000"))
KILLS = int(os.environ.get("HEADWATER_TEST_KILLS", "100"))
ALL_ANSWERS = {0, 200, 301, 302, 403, 404, 410, 429, 503}  # the statuses in the swarm; 0 is a broken connection


@pytest.mark.timeout(300 + URLS / 10)
async def test_a_hundred_random_kills_over_a_crawl_lose_nothing(crawl: Crawl) -> None:
    """Issue 3: all invariants hold after 100 SIGKILLs at random times over 5,000 URLs of a hostile web."""
    chance = random.Random(3)
    async with crawl(hosts=URLS // 20, pages=20, feeds=10, programs=["up", "worker", "worker"]) as harness:
        await harness.until_under_way(0.01)
        while harness.kills < KILLS:
            words = await harness.kill(chance.choice(list(harness.programs)))
            await harness.start(*words)
            await asyncio.sleep(chance.uniform(0.05, 0.4))
        await harness.until_done(120 + URLS / 20)
        await harness.stop()
        ((lost,),) = await harness.rows("SELECT count(*) FROM fetch_log WHERE reason = 'worker_lost'")
        assert lost > KILLS, "the kills must meet work under way"
        assert {request.status for request in harness.swarm.requests} == ALL_ANSWERS
        assert await violations(harness) == {}


@pytest.mark.timeout(180)
async def test_a_kill_at_every_named_point_loses_nothing(crawl: Crawl) -> None:
    """Spec 9.3: one crawl, killed once at each point of victim.py in turn."""
    async with crawl(hosts=50, pages=6, feeds=100, poll_concurrency=4) as harness:
        for point in POINTS:
            await harness.run_until_killed(point=point, plant="brisk rescuer")
        await harness.start("up", plant="brisk rescuer")
        await harness.until_done()
        await harness.stop()
        assert await violations(harness) == {}


@pytest.mark.timeout(180)
async def test_a_page_that_kills_its_worker_is_given_up_alone(crawl: Crawl) -> None:
    """Spec 2.4: an attempt counts from the claim."""
    deaths = 4
    async with crawl(hosts=10, pages=1, plain=True, max_retries=deaths - 1) as harness:
        for _ in range(deaths):
            victim = await harness.start("up", plant="deadly page")
            assert await asyncio.wait_for(victim.wait(), 30) == -9
            del harness.programs[victim]
            await harness.let_leases_end()
        await harness.start("up", plant="deadly page")
        await harness.until_done(30)
        await harness.stop()
        outcomes = dict(await harness.rows("SELECT url, reason FROM url_frontier"))
        assert outcomes.pop(DEADLY) == "worker_lost"
        assert set(outcomes.values()) == {"stored"}
