"""The database's time, carried by each process: its steps never make a host seem free that is not (spec 2.3)."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from headwater.core.errors import NotNow
from headwater.core.settings import Settings
from headwater.db.clock import DatabaseClock
from headwater.db.pool import Database, open_database
from tests.database_clock import make_clock, step_clock
from tests.harness import open_harness
from tests.server import Site

LITTLE = timedelta(milliseconds=200)


@dataclass
class Stepping:
    """A clock of ours, set by a server whose clock can jump."""

    url: str
    database: Database
    clock: DatabaseClock
    settle_seconds: float = 0.1

    async def step(self, seconds: float) -> None:
        await step_clock(self.url, seconds)

    async def sync(self) -> None:
        await self.clock.sync(self.database, self.settle_seconds)

    async def until_settled(self) -> None:
        give_up = time.monotonic() + 10
        while not self.clock.is_settled:
            assert time.monotonic() < give_up
            await asyncio.sleep(0.01)
            await self.sync()

    async def behind(self) -> timedelta:
        """How far the server is ahead of our clock, by the quickest of some answers."""
        answers: list[tuple[timedelta, timedelta]] = []
        async with self.database.connection() as connection:
            for _ in range(5):
                asked = self.clock.now()
                server = await connection.fetchval("SELECT clock_timestamp()")
                answers.append((self.clock.now() - asked, server - asked))
        return min(answers)[1]


@pytest.fixture
async def stepping(make_settings: Callable[..., Settings]) -> AsyncIterator[Stepping]:
    settings = make_settings()
    await make_clock(settings.database_url)
    async with open_database(settings) as database:
        clock = DatabaseClock()
        await clock.sync(database)
        yield Stepping(settings.database_url, database, clock)


@pytest.mark.parametrize("seconds", [60, -60])
async def test_a_step_is_followed_when_it_was_waited_out(seconds: int, stepping: Stepping) -> None:
    await stepping.step(seconds)
    await stepping.sync()
    assert not stepping.clock.is_settled
    assert abs(await stepping.behind() - timedelta(seconds=seconds)) < LITTLE
    await stepping.until_settled()
    assert abs(await stepping.behind()) < LITTLE


async def test_a_step_that_is_taken_back_changes_nothing(stepping: Stepping) -> None:
    await stepping.step(60)
    await stepping.sync()
    await stepping.step(-60)
    await stepping.sync()
    assert stepping.clock.is_settled
    assert abs(await stepping.behind()) < LITTLE


@pytest.mark.parametrize("seconds", [0.5, -0.5])
async def test_a_small_difference_is_corrected_in_small_steps(seconds: float, stepping: Stepping) -> None:
    """So no delay is noticeably too short, whenever a process reads the clock."""
    await stepping.step(seconds)
    error = [abs(await stepping.behind())]
    for _ in range(5):
        await stepping.sync()
        error.append(abs(await stepping.behind()))
    assert stepping.clock.is_settled
    assert timedelta(milliseconds=30) < error[0] - error[-1] < timedelta(milliseconds=70)


async def test_no_host_is_taken_while_a_step_is_waited_out(make_settings: Callable[..., Settings], site: Site) -> None:
    settings = make_settings(connect_to=site.connect_to)
    await make_clock(settings.database_url)
    async with open_harness(settings) as harness:
        clock, database = harness.runtime.context.clock, harness.runtime.context.database
        await harness.operations.frontier.submit(["http://a.test/"])
        await step_clock(settings.database_url, 60)
        await clock.sync(database, 3600)
        with pytest.raises(NotNow, match="clock"):
            await harness.runtime.gate.get("http://b.test/")
        await harness.work(until_idle_seconds=0.5)
        assert site.seen == []
        await step_clock(settings.database_url, -60)
        await clock.sync(database, 3600)
        await harness.work()
        assert site.visits("http://a.test/") == 1
