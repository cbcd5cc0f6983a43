"""A lease lasts as long as the work on it, and no longer (spec 2.4)."""

import asyncio
from datetime import timedelta

import pytest

from headwater.core.errors import LeaseLost
from headwater.db import sources
from headwater.db.sources import PollClaim
from headwater.discovery.discover import keep_lease
from tests.harness import AppHarness
from tests.waiting import until

LEASE = timedelta(seconds=0.3)


async def claim_of(harness: AppHarness) -> PollClaim:
    await harness.operations.sources.create("news", "site", {"feed_url": "http://news.test/feed"})
    context, now = harness.runtime.context, harness.runtime.context.clock.now()
    async with context.database.connection() as connection:
        (claim,) = await sources.claim_polls(connection, now=now, until=now + LEASE, holder="us", limit=1, name="news")
    return claim


async def test_a_lease_is_renewed_during_the_poll(harness: AppHarness) -> None:
    claim, context = await claim_of(harness), harness.runtime.context

    async def is_extended() -> bool:
        ((until,),) = await harness.rows("SELECT lease_until FROM poll_state WHERE lease_token IS NOT NULL")
        return until > claim.lease.until + LEASE

    async with keep_lease(context.database, context.clock, claim, None):
        await until(is_extended)


async def test_a_reading_is_stopped_once_its_lease_is_anothers(harness: AppHarness) -> None:
    claim, context = await claim_of(harness), harness.runtime.context
    await harness.execute("UPDATE poll_state SET lease_token = gen_random_uuid() WHERE lease_token IS NOT NULL")
    with pytest.raises(LeaseLost):
        async with asyncio.timeout(60), keep_lease(context.database, context.clock, claim, None):
            await asyncio.Event().wait()


async def test_a_poll_that_ends_before_a_renewal_leaves_no_task(harness: AppHarness) -> None:
    claim, context, others = await claim_of(harness), harness.runtime.context, asyncio.all_tasks()
    async with keep_lease(context.database, context.clock, claim, None):
        pass
    assert asyncio.all_tasks() <= others
