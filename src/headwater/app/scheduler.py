"""The scheduler role: sources with a cron schedule run at their slots (spec 1.2).

APScheduler keeps the time. core/cron.py computes the slots, because APScheduler gets the weekdays and the repeated hour
in autumn wrong.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
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
from headwater.db.pool import AWAY
from headwater.discovery.runs import next_due_slot
from headwater.sources.registry import get_kind

log = structlog.get_logger()
_REFRESH_SECONDS = 30.0


@dataclass
class _Slots(BaseTrigger):  # type: ignore[misc]  # APScheduler has no types
    schedule: str
    timezone: str
    dated: bool

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        return cron.next_slot(self.schedule, self.timezone, (previous or now).astimezone(UTC))


@dataclass(slots=True, eq=False)
class SchedulerRole:
    """Keeps a job for each scheduled source, and runs slots that were missed or lost their process."""

    runtime: Runtime
    on_poll: Callable[[PollResult], None] = lambda _: None
    runs: dict[asyncio.Task[None], str] = field(default_factory=dict)  # and the source of each

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Keep time until `stop`. Then let the runs under way end within the grace, or release them."""
        keeper = AsyncIOScheduler(timezone=UTC)
        keeper.start()
        try:
            while not stop.is_set():
                try:
                    await self._refresh_jobs(keeper)
                except AWAY as error:
                    log.warning("schedule.refresh_failed", error=str(error))
                await wait_for(stop, _REFRESH_SECONDS)
        finally:
            keeper.shutdown(wait=False)
        await finish_or_cancel(self.runs, grace_seconds)

    async def _refresh_jobs(self, keeper: AsyncIOScheduler) -> None:
        known = await self.runtime.context.database.run(sources.get_all_sources)
        scheduled = {source.name: (source, trigger) for source in known if (trigger := self._trigger(source))}
        for job in keeper.get_jobs():
            if job.id not in scheduled:
                job.remove()
        for name, (source, trigger) in scheduled.items():
            job = keeper.get_job(name)
            if job is None or job.trigger != trigger:
                keeper.add_job(
                    self._start_due,
                    trigger,
                    [source, trigger],
                    id=name,
                    replace_existing=True,
                    misfire_grace_time=None,
                    coalesce=True,
                )
            # The slot may have been missed, or clocks may differ. A slot that is taken is not taken again.
            await self._start_due(source, trigger)

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
        return _Slots(kind.schedule, kind.timezone or self.runtime.context.settings.timezone, kind.dated)

    async def _start_due(self, source: Source, trigger: _Slots) -> None:
        if source.name not in self.runs.values():
            task = asyncio.create_task(self._run_due(source, trigger))
            self.runs[task] = source.name
            task.add_done_callback(self.runs.pop)

    async def _run_due(self, source: Source, trigger: _Slots) -> None:
        """Run the due slots one by one. A source of dated days has one for each missed day."""
        try:
            schedule, timezone, catches_up = trigger.schedule, trigger.timezone, trigger.dated
            while slot := await self.runtime.context.database.run(
                next_due_slot, source, schedule, timezone, self.runtime.context.clock.now(), catches_up=catches_up
            ):
                if not await self._run_slot(source, slot, trigger) or not trigger.dated:
                    return
        except LeaseLost as error:
            log.warning("slot.lease_lost", source=source.name, error=str(error))
        except Exception:
            # The run's lease expires, and the rescuer frees its slot.
            log.exception("slot.failed", source=source.name)

    async def _run_slot(self, source: Source, slot: datetime, trigger: _Slots) -> bool:
        """Run a slot. Return False if another process has it, or if the next slot would fail too."""
        runner = self.runtime.runner
        day = day_before(slot, trigger.timezone) if trigger.dated else None
        started = await runner.begin(source, Trigger.SCHEDULE, slot=slot, day=day)
        if started is None:
            return False
        result = await runner.execute_and_log(started)
        self.on_poll(result)
        return result.error is None or not result.reason.retryable
