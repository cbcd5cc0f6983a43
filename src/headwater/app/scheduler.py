"""The scheduler role: sources with a cron schedule run at their slots (spec 1.2).

APScheduler keeps the time; when a slot is comes from policy/cron.py, because APScheduler's own reading of cron gets
weekdays and the autumn hour wrong.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from headwater.app.runtime import Runtime
from headwater.core import cron
from headwater.core.dates import day_before
from headwater.core.errors import HeadwaterError, LeaseLost
from headwater.core.poll import PollResult
from headwater.core.run import Trigger
from headwater.core.source import Source
from headwater.core.waiting import finish_or_cancel, wait_for
from headwater.db import sources
from headwater.db.pool import is_down
from headwater.discovery.runs import next_due_slot
from headwater.sources.registry import get_kind

log = structlog.get_logger()
_LOOK_SECONDS = 30.0


class _Slots(BaseTrigger):  # type: ignore[misc]  # APScheduler has no types
    """Fires at the slots of a schedule."""

    def __init__(self, schedule: str, timezone: str, *, dated: bool) -> None:
        self.schedule = schedule
        self.timezone = timezone
        self.dated = dated

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        return cron.next_slot(self.schedule, self.timezone, (previous or now).astimezone(UTC))


class SchedulerRole:
    """Keeps a job for each scheduled source, and takes up slots that were missed or lost their holder."""

    def __init__(self, runtime: Runtime, on_poll: Callable[[PollResult], None] = lambda _: None) -> None:
        self._runtime = runtime
        self._context = runtime.context
        self._on_poll = on_poll
        self._runs: dict[asyncio.Task[None], str] = {}  # and the source of each

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Keep time until `stop`; runs under way then end within the grace or are given back."""
        keeper = AsyncIOScheduler(timezone=UTC)
        keeper.start()
        try:
            while not stop.is_set():
                try:
                    await self._look(keeper)
                except Exception as error:
                    if not is_down(error):
                        raise
                    log.warning("schedule.look_failed", error=str(error))
                await wait_for(stop, _LOOK_SECONDS)
        finally:
            keeper.shutdown(wait=False)
        await finish_or_cancel(self._runs, grace_seconds)

    async def _look(self, keeper: AsyncIOScheduler) -> None:
        """Bring the jobs in line with the sources; take up what was missed."""
        async with self._context.database.connection() as connection:
            known = await sources.get_all_sources(connection)
        scheduled = {source.name: (source, trigger) for source in known if (trigger := self._trigger(source))}
        for job in keeper.get_jobs():
            if job.id not in scheduled:
                job.remove()
        for name, (source, trigger) in scheduled.items():
            job = keeper.get_job(name)
            if job is None or vars(job.trigger) != vars(trigger):
                keeper.add_job(
                    self._fire,
                    trigger,
                    [source, trigger],
                    id=name,
                    replace_existing=True,
                    misfire_grace_time=None,
                    coalesce=True,
                )
            # What was missed, also by clocks that disagree a little; a slot that is taken is not taken again.
            await self._fire(source, trigger)

    def _trigger(self, source: Source) -> _Slots | None:
        if not source.enabled:
            return None
        try:
            kind = get_kind(source)
        except HeadwaterError as error:
            log.warning("schedule.bad_source", source=source.name, error=str(error))
            return None
        if not kind.schedule:
            return None
        return _Slots(kind.schedule, kind.timezone or self._context.settings.timezone, dated=kind.dated)

    async def _fire(self, source: Source, trigger: _Slots) -> None:
        """Start what is due of a source, unless that is under way here already."""
        if source.name not in self._runs.values():
            task = asyncio.create_task(self._run_due(source, trigger))
            self._runs[task] = source.name
            task.add_done_callback(self._runs.pop)

    async def _run_due(self, source: Source, trigger: _Slots) -> None:
        """Run the slots that have come, one after the other; a source of dated days has one for each day missed."""
        try:
            while slot := await self._next_due(source, trigger):
                if not await self._run_slot(source, slot, trigger) or not trigger.dated:
                    return
        except LeaseLost as error:
            log.warning("slot.lease_lost", source=source.name, error=str(error))
        except Exception:
            # A run's lease runs out and the rescuer frees its slot.
            log.exception("slot.failed", source=source.name)

    async def _next_due(self, source: Source, trigger: _Slots) -> datetime | None:
        async with self._context.database.connection() as connection:
            return await next_due_slot(
                connection,
                source,
                trigger.schedule,
                trigger.timezone,
                self._context.clock.now(),
                catches_up=trigger.dated,
            )

    async def _run_slot(self, source: Source, slot: datetime, trigger: _Slots) -> bool:
        """Run a slot; False when another has it, or where the next would hardly go better just now."""
        runner = self._runtime.runner
        day = day_before(slot, trigger.timezone) if trigger.dated else None
        begun = await runner.begin(source, Trigger.SCHEDULE, slot=slot, day=day)
        if begun is None:
            return False
        polled = await runner.execute_and_log(begun)
        self._on_poll(polled)
        return polled.error is None or not polled.reason.retryable
