"""Canonical articles: the run that somebody asks for, and the role that runs once after each cycle of polls."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta

import structlog

from headwater.app.runtime import Runtime
from headwater.canonical.operations import CanonicalTotals
from headwater.canonical.run import FetchPool
from headwater.core.errors import LeaseLost, OperatorError
from headwater.core.reasons import Reason
from headwater.core.waiting import wait_for, wait_for_any
from headwater.db.pool import is_down

log = structlog.get_logger()
# A host that is slow to let us in must not keep the articles of others from the next run.
LONGEST = timedelta(minutes=5)
_LOOK_SECONDS = 0.2


async def run_now(runtime: Runtime, crew: FetchPool, totals: CanonicalTotals) -> None:
    """Run once, with fetchers of its own; whatever else waits in the frontier is fetched by them too meanwhile."""
    if other := await runtime.canonical_runner.run(totals, crew):
        host, process, _ = other.holder.split(":")
        raise OperatorError(
            f"A canonical run is under way: process {process} on {host} holds it (if that has died, it is over at "
            f"{other.until:%H:%M:%S} UTC); only one runs at a time.",
            reason=Reason.RUN_UNDER_WAY,
        )


class CanonicalRole:
    """Runs once after each cycle in which polls brought something, and leaves the fetching to the fetchers."""

    def __init__(self, runtime: Runtime, polls_under_way: Callable[[], int]) -> None:
        self._runtime = runtime
        self._cycle_seconds = runtime.context.settings.poll_check_seconds
        self._polls_under_way = polls_under_way
        self._news = runtime.poller.found_new

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Run after each cycle until `stop`; a run under way is left for the next one to go on with."""
        del grace_seconds
        self._news.set()  # an earlier process may have left something
        while not stop.is_set():
            await wait_for_any((stop, self._news), 3600.0)
            if stop.is_set() or not self._news.is_set():
                continue
            await self._end_of_cycle(stop)
            self._news.clear()
            running = asyncio.create_task(self._run())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
            for task in (running, stopping):
                task.cancel()
            await asyncio.gather(running, stopping, return_exceptions=True)
            if not running.cancelled() and not running.result():
                self._news.set()  # another process is at it, and may have begun before this news came
                await wait_for(stop, self._cycle_seconds)

    async def _end_of_cycle(self, stop: asyncio.Event) -> None:
        """Wait until no poll is under way, and no longer than until the next look for due feeds."""
        waited = 0.0
        while not stop.is_set() and self._polls_under_way() and waited < self._cycle_seconds:
            await wait_for(stop, _LOOK_SECONDS)
            waited += _LOOK_SECONDS

    async def _run(self) -> bool:
        """Run once; tell whether that is done with."""
        try:
            return await self._runtime.canonical_runner.run(CanonicalTotals(), nullcontext, LONGEST) is None
        except LeaseLost as error:
            log.warning("canonical.lease_lost", error=str(error))
            return False
        except Exception as error:
            if is_down(error):
                log.warning("canonical.failed_for_now", error=str(error))
                return False
            log.exception("canonical.gone_wrong")  # what it has not done, the next one does
            return True
