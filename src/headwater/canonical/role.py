"""The role that runs the canonical run of a service."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta

import structlog

from headwater.canonical.operations import CanonicalTotals
from headwater.canonical.run import CanonicalRunner
from headwater.core.errors import LeaseLost
from headwater.core.waiting import finish_or_cancel, wait_for, wait_for_any
from headwater.db.pool import AWAY

log = structlog.get_logger()

_LIMIT = timedelta(minutes=5)  # so that a slow host does not delay the next run
_CHECK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class CanonicalRole:
    """Runs once after each cycle of polls that found something new. The fetchers of this process fetch the pages."""

    runner: CanonicalRunner
    found_new: asyncio.Event
    count_polls: Callable[[], int]  # counts the polls under way
    cycle_seconds: float

    async def run(self, stop: asyncio.Event, _grace_seconds: float) -> None:
        """Run after each cycle until `stop`. The next run continues an interrupted one."""
        self.found_new.set()  # an earlier process may have left work
        while not stop.is_set():
            await wait_for_any((stop, self.found_new), 3600.0)
            if stop.is_set() or not self.found_new.is_set():
                continue
            await self._wait_for_polls(stop)
            self.found_new.clear()
            running = asyncio.create_task(self._run())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
            await finish_or_cancel((running, stopping), 0)
            if not running.cancelled() and not running.result():
                self.found_new.set()  # the run of another process may have begun before this event
                await wait_for(stop, self.cycle_seconds)

    async def _wait_for_polls(self, stop: asyncio.Event) -> None:
        """Wait until no poll is under way, but at most one cycle."""
        waited = 0.0
        while not stop.is_set() and self.count_polls() and waited < self.cycle_seconds:
            await wait_for(stop, _CHECK_SECONDS)
            waited += _CHECK_SECONDS

    async def _run(self) -> bool:
        """Run once; return False if a later run must continue."""
        try:
            return await self.runner.run(CanonicalTotals(), nullcontext, _LIMIT) is None
        except LeaseLost as error:
            log.warning("canonical.lease_lost", error=str(error))
            return False
        except AWAY as error:
            log.warning("canonical.interrupted", error=str(error))
            return False
        except Exception:
            log.exception("canonical.run_failed")  # the next run continues
            return True
