"""What a door may ask of runs: which there were, and to read a day now."""

import asyncio
from datetime import date
from typing import Any

import structlog

from headwater.app.maintenance import rescue_expired
from headwater.app.metrics import Metrics
from headwater.app.runtime import Runtime
from headwater.core.dates import day_before, day_of
from headwater.core.errors import HeadwaterError, OperatorError, RunUnderWay
from headwater.core.poll import PollResult
from headwater.core.reasons import Reason
from headwater.core.run import RunCounters, Trigger
from headwater.core.source import Source
from headwater.core.waiting import finish_or_cancel
from headwater.db import runs, sources
from headwater.db.context import DatabaseContext
from headwater.discovery.runs import StartedRun
from headwater.sources.registry import get_kind

log = structlog.get_logger()


async def in_the_way(context: DatabaseContext, source: Source) -> RunUnderWay:
    """Tell what keeps a run of a source from being begun: another, or a poll."""
    async with context.database.connection() as connection:
        other = await runs.run_under_way(connection, source.id)
    told = "a poll or a backfill, which is no run, is reading it just now; try again when that is over"
    if other:
        run_id, until = other
        told = f"run {run_id} of it is under way (if that has died, it is over at {until:%H:%M:%S} UTC)"
    message = f"Source {source.name}: {told}; only one runs at a time."
    return RunUnderWay(message, run_id=other[0] if other else None)


class RunOperations:
    """Answers from the runs that are kept."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context

    async def listed(
        self,
        *,
        source: str | None = None,
        status: str | None = None,
        day: date | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """List runs, newest first; raise for a source that there is not."""
        async with self._context.database.connection() as connection:
            if source is not None:
                await sources.require_source(connection, source)
            return await runs.list_runs(connection, source=source, status=status, day=day, before=before, limit=limit)

    async def get(self, run_id: int) -> dict[str, Any]:
        """Return a run."""
        async with self._context.database.connection() as connection:
            found = await runs.list_runs(connection, run_id=run_id)
        if not found:
            raise HeadwaterError(f"There is no run {run_id}.", reason=Reason.UNKNOWN_RUN)
        return found[0]


class LiveRunOperations(RunOperations):
    """The same in a process that reaches out. What was begun here in the background ends with its role."""

    def __init__(self, runtime: Runtime, metrics: Metrics) -> None:
        super().__init__(runtime.context)
        self._runtime = runtime
        self._metrics = metrics
        self._under_way: set[asyncio.Task[None]] = set()

    async def ingest(self, name: str, day: date | None, counters: RunCounters | None = None) -> dict[str, Any]:
        """Read a day of a source now, by default the last that is over; return the run, however it ended."""
        begun = await self._begin(name, day)
        polled = await self._carry_out(begun, counters)
        if polled.deferred:
            raise OperatorError(f"Source {name} cannot be read just now: {polled.error}", reason=polled.reason)
        return await self.get(begun.run.id)

    async def begin_ingest(self, name: str, day: date | None) -> dict[str, Any]:
        """Begin to read a day of a source, and leave it to the background; return the run."""
        begun = await self._begin(name, day)
        task = asyncio.create_task(self._carry_out_alone(begun))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await self.get(begun.run.id)

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Let what was begun go on until `stop`; then let it end within the grace, or give it back."""
        await stop.wait()
        await finish_or_cancel(self._under_way, grace_seconds)

    async def _begin(self, name: str, day: date | None) -> StartedRun:
        async with self._context.database.connection() as connection:
            source = await sources.require_source(connection, name)
        wanted = self._day(source, day)
        await rescue_expired(self._context)  # there may be nobody else who does
        begun = await self._runtime.runner.begin(source, Trigger.MANUAL, day=wanted)
        if begun is None:
            raise await in_the_way(self._context, source)
        return begun

    def _day(self, source: Source, day: date | None) -> date:
        """Return the day to read; refuse what is none that can be."""
        kind = get_kind(source)
        if not kind.dated:
            raise OperatorError(
                f"Source {source.name} is not read by days: `headwater source sync {source.name}` reads it now.",
                reason=Reason.BAD_REQUEST,
            )
        zone = kind.timezone or self._context.settings.timezone
        now = self._context.clock.now()
        if day is None:
            return day_before(now, zone)
        if day > day_of(now, zone):
            raise OperatorError(f"date: {day} is yet to come in {zone}.", reason=Reason.BAD_REQUEST)
        if day < kind.first_day:
            raise OperatorError(
                f"date: {source.name} has no days before {kind.first_day}, so none is {day}.", reason=Reason.BAD_REQUEST
            )
        return day

    async def _carry_out(self, begun: StartedRun, counters: RunCounters | None = None) -> PollResult:
        polled = await self._runtime.runner.execute_and_log(begun, counters)
        self._metrics.count_poll(polled)
        return polled

    async def _carry_out_alone(self, begun: StartedRun) -> None:
        """Carry a run out that nobody waits for; whatever happens to it, its row tells."""
        try:
            await self._carry_out(begun)
        except Exception:
            log.exception("ingest.failed", source=begun.claim.source.name, run=begun.run.id)
