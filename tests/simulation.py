"""Days of a running program in seconds: the clock steps to the next event whenever all work is done."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from headwater.app.maintenance import MaintenanceRole
from headwater.app.polling import PollerRole
from headwater.app.roles import Role, make_fetch_pool, run_in_background
from headwater.db.clock import DatabaseClock
from headwater.fetching import pool
from tests.harness import AppHarness

_NEXT_EVENT = """
SELECT least(
    (SELECT min(f.next_poll_at) FROM poll_state f JOIN sources s ON s.id = f.source_id WHERE s.enabled),
    (SELECT min(ready_at) FROM host_state),
    (SELECT min(next_at) FROM watches)),
    EXISTS (SELECT FROM poll_state WHERE lease_token IS NOT NULL)
    OR EXISTS (SELECT FROM host_state WHERE lease_token IS NOT NULL)
    OR EXISTS (SELECT FROM frontier_queue WHERE lease_token IS NOT NULL)
"""


class Simulation:
    """A program with pollers, fetchers and maintenance, on a clock that the test moves."""

    def __init__(self, harness: AppHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        self._harness = harness
        self._ahead = timedelta(0)
        real = DatabaseClock.now
        monkeypatch.setattr(DatabaseClock, "now", lambda clock: real(clock) + self._ahead)
        monkeypatch.setattr(pool, "_LONG", 0.02)  # the clock steps while the claimer sleeps

    @property
    def now(self) -> datetime:
        """The time of the program."""
        return self._harness.runtime.context.clock.now()

    def step(self, length: timedelta) -> None:
        """Move the clock forward."""
        self._ahead += length

    async def run(self, length: timedelta, grain: timedelta = timedelta(0)) -> None:
        """Run the program for some simulated time. Events within one `grain` happen together, at its end."""
        end = self.now + length
        async with self._program():
            while True:
                ((event, is_busy),) = await self._harness.rows(_NEXT_EVENT)
                if is_busy or (event and event <= self.now):
                    await asyncio.sleep(0.005)
                    continue
                if self.now >= end:
                    return
                self.step(max(min(event or end, end) - self.now, min(grain, end - self.now)))

    @contextlib.asynccontextmanager
    async def _program(self) -> AsyncIterator[None]:
        runtime = self._harness.runtime
        roles: list[Role] = [
            PollerRole(runtime),
            PollerRole(runtime, is_long=True),
            make_fetch_pool(runtime, self._harness.operations.metrics),
            MaintenanceRole(runtime.context, interval_seconds=0.1),
        ]
        async with run_in_background(roles):
            yield
