"""The requests of a source are spread out; a moment that goes by unused is not waited for (spec 1.3)."""

import asyncio
import time
from datetime import timedelta
from itertools import pairwise

from headwater.gate.pace import Pace
from headwater.store import sources
from tests.house import House

GAP = timedelta(hours=1)


async def add_source(house: House) -> int:
    return (await house.desk.sources.create("news", "site", {"feed_url": "http://news.test/feed"})).id


async def test_a_moment_that_went_by_unused_is_given_back(house: House) -> None:
    source, now = await add_source(house), house.parts.records.clock.now()
    async with house.parts.records.database.connection() as connection:
        first = await sources.reserve_request(connection, source, now, GAP)
        later = first + GAP / 2
        assert await sources.reserve_request(connection, source, later, GAP, first) == later
        assert await sources.reserve_request(connection, source, later, GAP) == later + GAP


async def test_a_moment_stays_taken_where_another_was_given_after_it(house: House) -> None:
    source, now = await add_source(house), house.parts.records.clock.now()
    async with house.parts.records.database.connection() as connection:
        first = await sources.reserve_request(connection, source, now, GAP)
        second = await sources.reserve_request(connection, source, now, GAP)
        assert await sources.reserve_request(connection, source, first + GAP / 2, GAP, first) == second + GAP


async def test_a_poll_that_begins_late_does_not_wait_for_another_moment(house: House) -> None:
    source, records = await add_source(house), house.parts.records
    async with records.database.connection() as connection:
        first = await sources.reserve_request(connection, source, records.clock.now() - GAP / 2, GAP)
    async with asyncio.timeout(GAP.total_seconds() / 60):
        await Pace(records.database, records.clock, source, GAP, first).wait()


async def test_requests_leave_a_gap_apart_however_late_they_come_to_it(house: House) -> None:
    """All of them at once, as where a machine was held up until the moments of all had gone by."""
    source, records = await add_source(house), house.parts.records
    pace = Pace(records.database, records.clock, source, timedelta(milliseconds=50))
    left: list[tuple[float, float]] = []

    async def leave() -> None:
        async with pace.leaving():
            begun = time.monotonic()
            await asyncio.sleep(0)
            left.append((begun, time.monotonic()))

    await asyncio.gather(*(leave() for _ in range(4)))
    assert all(later[0] - earlier[1] >= 0.05 for earlier, later in pairwise(left))


async def test_moments_follow_a_reading_that_is_late(house: House) -> None:
    """Or those of another reading of the source, in whatever process, would be in the midst of its own."""
    source, records, gap = await add_source(house), house.parts.records, timedelta(milliseconds=100)
    late, other = (Pace(records.database, records.clock, source, gap) for _ in range(2))
    await late.wait()
    for _ in range(3):
        async with late.leaving():
            left = records.clock.now()
    await late.wait()
    await other.wait()
    assert records.clock.now() >= left + 1.4 * gap  # with less than half a gap to connect
