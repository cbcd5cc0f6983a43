"""The scheduler role: sources with a cron schedule run at their slots (spec 1.2).

APScheduler keeps the time; when a slot is comes from policy/cron.py, because APScheduler's own reading of cron gets
weekdays and the autumn hour wrong.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from headwater.discover.slots import run_slot
from headwater.errors import HeadwaterError
from headwater.model.poll import Polled
from headwater.model.source import Source
from headwater.policy import cron
from headwater.service.parts import Parts
from headwater.service.waiting import wait_for
from headwater.sources.registry import kind_of
from headwater.store import runs, sources
from headwater.store.pool import is_down

log = structlog.get_logger()
_LOOK_SECONDS = 30.0


class _Slots(BaseTrigger):  # type: ignore[misc]  # APScheduler has no types
    """Fires at the slots of a schedule."""

    def __init__(self, schedule: str, timezone: str) -> None:
        self.schedule = schedule
        self.timezone = timezone

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        return cron.next_slot(self.schedule, self.timezone, (previous or now).astimezone(UTC))


class SchedulerRole:
    """Keeps a job for each scheduled source, and takes up slots that were missed or lost their holder."""

    def __init__(self, parts: Parts, on_poll: Callable[[Polled], None] = lambda _: None) -> None:
        self._parts = parts
        self._records = parts.records
        self._on_poll = on_poll
        self._runs: set[asyncio.Task[None]] = set()

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
        if self._runs:
            await asyncio.wait(self._runs, timeout=grace_seconds)
        for run in self._runs:
            run.cancel()
        await asyncio.gather(*self._runs, return_exceptions=True)

    async def _look(self, keeper: AsyncIOScheduler) -> None:
        """Bring the jobs in line with the sources; take up what was missed."""
        async with self._records.database.connection() as connection:
            known = await sources.all_sources(connection)
            returned = await runs.returned_slots(connection)
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
        for source, slot in returned:
            self._start(source, slot)

    def _trigger(self, source: Source) -> _Slots | None:
        if not source.enabled:
            return None
        try:
            kind = kind_of(source)
        except HeadwaterError as error:
            log.warning("schedule.bad_source", source=source.name, error=str(error))
            return None
        return _Slots(kind.schedule, kind.timezone or self._records.settings.timezone) if kind.schedule else None

    async def _fire(self, source: Source, trigger: _Slots) -> None:
        """Start the newest slot that has come; missed ones before it coalesce into it."""
        slot = cron.last_slot(trigger.schedule, trigger.timezone, self._records.clock.now())
        if slot and slot > source.created_at:
            self._start(source, slot)

    def _start(self, source: Source, slot: datetime) -> None:
        task = asyncio.create_task(self._run_slot(source, slot))
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)

    async def _run_slot(self, source: Source, slot: datetime) -> None:
        records = self._records
        try:
            polled = await run_slot(
                records.database,
                self._parts.poller,
                source,
                slot,
                clock=records.clock,
                holder=records.holder,
                lease=timedelta(seconds=records.settings.lease_seconds),
            )
        except Exception:
            # The run's lease runs out and the rescuer frees the slot.
            log.exception("slot.failed", source=source.name, slot=slot.isoformat())
            return
        if polled:
            log.info(
                "slot.done", source=source.name, slot=slot.isoformat(), reason=str(polled.reason), items=polled.items
            )
            self._on_poll(polled)
