"""The requests of a source are spread out, and an unused moment costs no wait (spec 1.3)."""

import asyncio
import itertools
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from headwater.core.errors import ExchangeFailed
from headwater.core.reasons import Reason
from headwater.db import sources
from headwater.politeness.request_rate import RequestRate
from tests.govuk import MovingClock
from tests.harness import AppHarness

GAP = timedelta(hours=1)


async def add_source(harness: AppHarness) -> int:
    return (await harness.operations.sources.create("news", "site", {"feed_url": "http://news.test/feed"})).id


async def moment_after_next(harness: AppHarness, rate: RequestRate, after: datetime) -> datetime:
    """Return the moment after the rate's next one, without waiting for it. It differs from `after`."""
    waiting = asyncio.create_task(rate.wait())
    async with asyncio.timeout(10):
        while not (
            found := await harness.rows("SELECT next_request_at FROM sources WHERE next_request_at > $1", after)
        ):
            await asyncio.sleep(0.005)
    waiting.cancel()
    ((moment,),) = found
    assert isinstance(moment, datetime)
    return moment


async def test_an_unused_moment_is_free_again(harness: AppHarness) -> None:
    source, now = await add_source(harness), harness.runtime.context.clock.now()
    async with harness.runtime.context.database.connection() as connection:
        first = await sources.reserve_request(connection, source, now, GAP)
        later = first + GAP / 2
        assert await sources.reserve_request(connection, source, later, GAP, first) == later
        assert await sources.reserve_request(connection, source, later, GAP) == later + GAP


async def test_a_moment_stays_taken_where_another_was_given_after_it(harness: AppHarness) -> None:
    source, now = await add_source(harness), harness.runtime.context.clock.now()
    async with harness.runtime.context.database.connection() as connection:
        first = await sources.reserve_request(connection, source, now, GAP)
        second = await sources.reserve_request(connection, source, now, GAP)
        assert await sources.reserve_request(connection, source, first + GAP / 2, GAP, first) == second + GAP


async def test_a_poll_that_begins_late_does_not_wait_for_another_moment(harness: AppHarness) -> None:
    source, context = await add_source(harness), harness.runtime.context
    async with context.database.connection() as connection:
        first = await sources.reserve_request(connection, source, context.clock.now() - GAP / 2, GAP)
    async with asyncio.timeout(GAP.total_seconds() / 60):
        await RequestRate(context.database, context.clock, source, GAP, first).wait()


async def test_the_next_request_comes_a_gap_after_one_has_left_however_late_that_was(harness: AppHarness) -> None:
    """Several requests leave at once, and each takes a while, as on a busy machine or a new connection."""
    source, clock = await add_source(harness), MovingClock(datetime.now(UTC))
    rate = RequestRate(harness.runtime.context.database, clock, source, timedelta(milliseconds=100))
    turns: list[tuple[float, float]] = []
    answers = asyncio.Barrier(4)  # no request waits for it before all have left

    async def ask() -> None:
        async with rate.turn() as note_sent:
            begun = time.monotonic()
            clock.set(clock.now() + timedelta(milliseconds=50))
            turns.append((begun, time.monotonic()))
            note_sent()
            await answers.wait()

    async with asyncio.timeout(10):
        await asyncio.gather(*(ask() for _ in range(4)))
    assert all(begun - left > 0.09 for (_, left), (begun, _) in pairwise(turns))


async def test_moments_follow_a_run_that_is_late(harness: AppHarness) -> None:
    """Otherwise the moments of another run, in any process, would fall between its own."""
    source, clock = await add_source(harness), MovingClock(datetime.now(UTC))
    late = RequestRate(harness.runtime.context.database, clock, source, GAP)
    async with late.turn() as note_sent:
        clock.set(clock.now() + 1.5 * GAP)
        sent = clock.now()
        note_sent()
    assert await moment_after_next(harness, late, sent) > sent + 1.9 * GAP


async def test_a_moment_is_no_sooner_for_a_machine_that_is_held_up_while_it_is_worked_out(
    harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here every reading of a clock takes a minute."""
    source, begun, minutes = await add_source(harness), datetime.now(UTC), itertools.count()

    class SlowClock(MovingClock):
        def now(self) -> datetime:
            return begun + timedelta(minutes=next(minutes))

    monkeypatch.setattr("headwater.politeness.request_rate.monotonic", lambda: next(minutes) * 60.0)
    rate = RequestRate(harness.runtime.context.database, SlowClock(begun), source, GAP)
    async with rate.turn() as note_sent:
        note_sent()
    sent = begun + timedelta(minutes=next(minutes) - 1)
    assert await moment_after_next(harness, rate, sent + GAP) >= sent + 2 * GAP


async def test_a_request_that_does_not_leave_delays_no_other(harness: AppHarness) -> None:
    """Its request fails before it leaves, or its caller is cancelled."""
    source, context = await add_source(harness), harness.runtime.context
    rate = RequestRate(context.database, context.clock, source, timedelta(milliseconds=1))
    with pytest.raises(ExchangeFailed):
        async with rate.turn():
            raise ExchangeFailed("nobody is there", reason=Reason.NETWORK, url="http://api.test/")
    async with rate.turn():
        waiting = asyncio.create_task(rate.turn().__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
    async with asyncio.timeout(10), rate.turn():
        pass
