"""The requests of a source are spread out; a moment that goes by unused is not waited for (spec 1.3)."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from headwater.gate.pace import Pace
from headwater.store import sources
from tests.govuk import MovingClock
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


async def test_a_request_that_left_late_keeps_the_next_one_away(house: House) -> None:
    """A source must not see requests too close because one of them took its time to leave."""
    source, records, gap = await add_source(house), house.parts.records, timedelta(milliseconds=200)
    pace = Pace(records.database, records.clock, source, gap)
    await pace.wait()
    pace.note_sent(left := records.clock.now() + gap / 2)
    await pace.wait()
    assert records.clock.now() >= left + gap


async def test_who_comes_late_to_a_moment_keeps_the_others_away(house: House) -> None:
    """A busy machine wakes those who wait when it can: not all of them at once then."""
    source, gap = await add_source(house), timedelta(milliseconds=100)
    clock = MovingClock(datetime.now(UTC))
    pace = Pace(house.parts.records.database, clock, source, gap)
    used: list[datetime] = []

    async def ask() -> None:
        await pace.wait()
        used.append(clock.now())
        if len(used) == 1:
            clock.set(clock.now() + 10 * gap)  # as if nothing had run for as long

    await asyncio.gather(*(ask() for _ in range(4)))
    assert all(later - earlier >= gap for earlier, later in pairwise(used))
