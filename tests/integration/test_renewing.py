"""What is leased is kept for as long as it is worked on, and no longer (spec 2.4)."""

import asyncio
from datetime import timedelta

import pytest

from headwater.discover.renewing import renewing
from headwater.errors import LeaseLost
from headwater.store import sources
from headwater.store.sources import FeedClaim
from tests.house import House
from tests.integration.test_polling import eventually

LEASE = timedelta(seconds=0.3)


async def claim_of(house: House) -> FeedClaim:
    await house.desk.sources.create("news", "site", {"feed_url": "http://news.test/feed"})
    records, now = house.parts.records, house.parts.records.clock.now()
    async with records.database.connection() as connection:
        (claim,) = await sources.claim_feeds(connection, now=now, until=now + LEASE, holder="us", limit=1, name="news")
    return claim


async def test_a_lease_is_renewed_while_the_reading_goes_on(house: House) -> None:
    claim, records = await claim_of(house), house.parts.records

    async def is_extended() -> bool:
        ((until,),) = await house.rows("SELECT lease_until FROM feed_state WHERE lease_token IS NOT NULL")
        return until > claim.lease.until + LEASE

    async with renewing(records.database, records.clock, claim, None):
        await eventually(is_extended)


async def test_a_reading_is_stopped_once_its_lease_is_anothers(house: House) -> None:
    claim, records = await claim_of(house), house.parts.records
    await house.rows("UPDATE feed_state SET lease_token = gen_random_uuid() WHERE lease_token IS NOT NULL")
    with pytest.raises(LeaseLost):
        async with asyncio.timeout(60), renewing(records.database, records.clock, claim, None):
            await asyncio.Event().wait()


async def test_nothing_is_left_of_a_reading_that_ends_before_its_lease_is_renewed(house: House) -> None:
    claim, records, others = await claim_of(house), house.parts.records, asyncio.all_tasks()
    async with renewing(records.database, records.clock, claim, None):
        pass
    assert asyncio.all_tasks() <= others
