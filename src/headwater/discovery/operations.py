"""Operations on runs: list them, and read a day now."""

import asyncio
from datetime import date

import structlog

from headwater.app.maintenance import rescue_expired
from headwater.app.metrics import Metrics
from headwater.app.runtime import Runtime
from headwater.core.dates import day_before, day_of
from headwater.core.errors import BadRequest, HeadwaterError, OperatorError, RunUnderWay
from headwater.core.poll import PollResult
from headwater.core.reasons import Reason
from headwater.core.record import RowId
from headwater.core.run import RunCounters, Trigger
from headwater.core.source import Source
from headwater.core.waiting import finish_or_cancel
from headwater.db import runs, sources
from headwater.db.context import DatabaseContext
from headwater.db.runs import RunFilter as RunFilter
from headwater.db.runs import RunRecord as RunRecord
from headwater.db.runs import StartedRun
from headwater.sources.registry import get_kind

log = structlog.get_logger()


async def explain_busy(context: DatabaseContext, source: Source) -> RunUnderWay:
    """Return the error for a source that another run or a poll is reading."""
    other = await context.database.run(runs.run_under_way, source.id)
    why = "a poll or a backfill is reading it now; try again when it ends"
    if other:
        run_id, until = other
        why = f"run {run_id} of it is under way (if its process died, it ends at {until:%H:%M:%S} UTC)"
    message = f"Source {source.name}: {why}; only one runs at a time."
    return RunUnderWay(message, run_id=other[0] if other else None)


class RunOperations:
    """Reads runs."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context

    async def list_runs(self, only: RunFilter, limit: int = 50) -> list[RunRecord]:
        """List runs, newest first. Raises OperatorError for an unknown source."""
        async with self._context.database.connection() as connection:
            if only.source is not None:
                await sources.require_source(connection, only.source)
            return await runs.list_runs(connection, only, limit)

    async def get(self, run_id: RowId) -> RunRecord:
        """Return a run."""
        found = await self._context.database.run(runs.list_runs, RunFilter(run_id=run_id))
        if not found:
            raise HeadwaterError(f"There is no run {run_id}.", reason=Reason.UNKNOWN_RUN)
        return found[0]


class LiveRunOperations(RunOperations):
    """Starts runs too. Runs in the background end with this role."""

    def __init__(self, runtime: Runtime, metrics: Metrics) -> None:
        super().__init__(runtime.context)
        self._runtime = runtime
        self._metrics = metrics
        self._under_way: set[asyncio.Task[None]] = set()

    async def ingest(self, name: str, day: date | None, counters: RunCounters | None = None) -> RunRecord:
        """Read a day of a source now, by default the last day that is over. Return the run, also if it failed."""
        started = await self._begin(name, day)
        result = await self._execute(started, counters)
        if result.deferred:
            raise OperatorError(f"Source {name} cannot be read now: {result.error}", reason=result.reason)
        return await self.get(started.run.id)

    async def begin_ingest(self, name: str, day: date | None) -> RunRecord:
        """Start to read a day of a source in the background. Return the run."""
        return await self.execute_later(await self._begin(name, day))

    async def execute_later(self, started: StartedRun) -> RunRecord:
        """Execute a run in the background. Return the run."""
        task = asyncio.create_task(self._execute_in_background(started))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await self.get(started.run.id)

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Wait for `stop`. Then let the runs end within the grace, or release them."""
        await stop.wait()
        await finish_or_cancel(self._under_way, grace_seconds)

    async def _begin(self, name: str, day: date | None) -> StartedRun:
        source = await self._context.database.run(sources.require_source, name)
        wanted = self._choose_day(source, day)
        await rescue_expired(self._context)  # no other process may do it
        started = await self._runtime.runner.begin(source, Trigger.MANUAL, day=wanted)
        if started is None:
            raise await explain_busy(self._context, source)
        return started

    def _choose_day(self, source: Source, day: date | None) -> date:
        kind = get_kind(source)
        if not kind.dated:
            raise BadRequest(
                f"Source {source.name} is not read by days: `headwater source sync {source.name}` reads it now."
            )
        zone = kind.timezone or self._context.settings.timezone
        now = self._context.clock.now()
        if day is None:
            return day_before(now, zone)
        if day > day_of(now, zone):
            raise BadRequest(f"date: {day} is yet to come in {zone}.")
        if day < kind.first_day:
            raise BadRequest(f"date: {source.name} has no days before {kind.first_day}, so none is {day}.")
        return day

    async def _execute(self, started: StartedRun, counters: RunCounters | None = None) -> PollResult:
        result = await self._runtime.runner.execute_and_log(started, counters)
        self._metrics.count_poll(result)
        return result

    async def _execute_in_background(self, started: StartedRun) -> None:
        try:
            await self._execute(started)
        except Exception:
            log.exception("ingest.failed", source=started.claim.source.name, run=started.run.id)
