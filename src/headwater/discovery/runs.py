"""Start and execute runs. A source has one run at a time (spec 6.3). A slot is run again only if its run was lost."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from uuid import uuid4

import structlog

from headwater.core import cron
from headwater.core.errors import LeaseLost
from headwater.core.lease import Lease
from headwater.core.poll import PollResult
from headwater.core.reasons import Reason
from headwater.core.run import RunCounters, Trigger
from headwater.core.slot_state import SlotState, read_slot_state
from headwater.core.source import Method, Source
from headwater.db import runs
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection
from headwater.db.runs import RunEnding, StartedRun
from headwater.discovery.poller import Poller
from headwater.handoff.handoffs import HandoffRunner

log = structlog.get_logger()
_MAX_CATCH_UP = timedelta(days=366)  # missed days before this are not read


@dataclass(frozen=True, slots=True)
class Runner:
    """Starts and executes runs."""

    context: DatabaseContext
    poller: Poller

    async def begin(
        self,
        source: Source,
        trigger: Trigger,
        *,
        slot: datetime | None = None,
        day: date | None = None,
        method: Method = Method.FEED,
    ) -> StartedRun | None:
        """Start a run. Return None if another process reads the source, or if the slot is taken or done."""
        now = self.context.clock.now()
        lease = Lease(self.context.holder, uuid4(), now + timedelta(seconds=self.context.settings.lease_seconds), 1)
        return await self.context.database.transact(
            runs.start_run, source, trigger, lease=lease, now=now, slot=slot, day=day, method=method
        )

    async def execute(
        self,
        started: StartedRun,
        counters: RunCounters | None = None,
        on_urls: Callable[[int], None] = lambda _: None,
    ) -> PollResult:
        """Execute a run, end it, and hand off the items that it found."""
        try:
            result = await self.poller.poll(started.claim, run=started.run, counters=counters, on_urls=on_urls)
        except LeaseLost as error:
            ending = RunEnding(Reason.WORKER_LOST, str(error))
            await self.context.database.run(runs.end_run, started.run, ending, self.context.clock.now())
            raise
        ids = result.handoff_ids
        counts = await HandoffRunner(self.context).execute(ids) if ids is not None else None
        return replace(result, run_id=started.run.id, handoffs=counts)

    async def execute_and_log(self, started: StartedRun, counters: RunCounters | None = None) -> PollResult:
        """Execute a run that no user waits for, and log its result (spec 6.7)."""
        counters, run = counters or RunCounters(), started.run
        result = await self.execute(started, counters)
        level = log.warning if result.has_failed else log.info
        level(
            "run.done",
            source=started.claim.source.name,
            run=run.id,
            date=run.day.isoformat() if run.day else None,
            status="deferred" if result.deferred else "failed" if result.error else "succeeded",
            reason=str(result.reason),
            error=result.error,
            pages=counters.pages,
            fetched=counters.fetched,
            total=counters.total,
            items=result.items,
            new=result.new,
            latest=result.latest,
            handoffs=asdict(result.handoffs) if result.handoffs else None,
            duration=round((self.context.clock.now() - run.started_at).total_seconds(), 3),
        )
        return result


async def next_due_slot(
    connection: Connection, source: Source, schedule: str, timezone: str, now: datetime, *, catches_up: bool
) -> datetime | None:
    """Return the newest slot that is due, or None. Only a source that catches up has older slots.

    The newest slot is first: a day that is read late lacks more the later it is read.
    """
    newest = cron.last_slot(schedule, timezone, now)
    if newest is None or newest <= source.created_at:
        return None
    slots = [newest]
    if catches_up:
        since = max(source.created_at, now - _MAX_CATCH_UP)
        slots = list(cron.slots_between(schedule, timezone, since, now)) or slots
    past = await runs.slot_runs(connection, source.id, slots[0])
    for slot in reversed(slots):
        state = read_slot_state(past.get(slot, ()), now)
        if state is SlotState.FREE:
            return slot
        if state is SlotState.WAITING:
            return None  # the same cause would stop the other slots
    return None
