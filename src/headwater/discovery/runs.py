"""Runs: a source is read once at a time, whoever began it (spec 6.3); a slot once, and again if its holder dies."""

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
from headwater.core.slot_state import Standing, standing
from headwater.core.source import Method, Source
from headwater.db import runs, sources
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection
from headwater.db.runs import RunClaim, RunEnding
from headwater.db.sources import PollClaim
from headwater.discovery.poller import Poller
from headwater.handoff.handoffs import make_handoff_runner

log = structlog.get_logger()
_CAUGHT_UP = timedelta(days=366)  # so far back missed days are looked for


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that was begun: its source is ours to read."""

    run: RunClaim
    claim: PollClaim


class Runner:
    """Begins runs and carries them out."""

    def __init__(self, context: DatabaseContext, poller: Poller) -> None:
        self._database = context.database
        self._poller = poller
        self._handoffs = make_handoff_runner(context)
        self._clock = context.clock
        self._holder = context.holder
        self._lease = timedelta(seconds=context.settings.lease_seconds)

    async def begin(
        self,
        source: Source,
        trigger: Trigger,
        *,
        slot: datetime | None = None,
        day: date | None = None,
        method: Method = Method.FEED,
    ) -> StartedRun | None:
        """Begin a run; None where the source is being read already, or the slot is or was another's."""

        async def work(connection: Connection) -> StartedRun | None:
            if not await sources.prevent_removal(connection, source.id):
                return None  # somebody has removed it
            now = self._clock.now()
            lease = Lease(self._holder, uuid4(), now + self._lease, 1)
            run = await runs.take_run(connection, source, trigger, lease=lease, now=now, slot=slot, day=day)
            if run is None:
                return None
            claims = await sources.claim_polls(
                connection,
                now=now,
                until=lease.until,
                holder=self._holder,
                limit=1,
                methods=(method,),
                name=source.name,
            )
            if not claims:
                await runs.drop_run(connection, run)
                return None
            return StartedRun(run, claims[0])

        return await self._database.transact(work)

    async def execute(
        self, begun: StartedRun, counters: RunCounters | None = None, on_urls: Callable[[int], None] = lambda _: None
    ) -> PollResult:
        """Do what was begun, end it, and hand off the items that it has touched."""
        try:
            polled = await self._poller.poll(begun.claim, run=begun.run, counters=counters, on_urls=on_urls)
        except LeaseLost as error:
            async with self._database.connection() as connection:
                await runs.end_run(connection, begun.run, RunEnding(Reason.WORKER_LOST, str(error)), self._clock.now())
            raise
        ids = polled.handoff_ids
        counts = await self._handoffs.execute(ids) if ids is not None else None
        return replace(polled, run_id=begun.run.id, handoffs=counts)

    async def execute_and_log(self, begun: StartedRun, counters: RunCounters | None = None) -> PollResult:
        """Do the same where no door tells how it went: the log does (spec 6.7)."""
        counted = counters or RunCounters()
        polled = await self.execute(begun, counted)
        level = log.info if polled.error is None or polled.deferred else log.warning
        level(
            "run.done",
            source=begun.claim.source.name,
            run=begun.run.id,
            date=begun.run.day.isoformat() if begun.run.day else None,
            status="deferred" if polled.deferred else "failed" if polled.error else "succeeded",
            reason=str(polled.reason),
            error=polled.error,
            pages=counted.pages,
            fetched=counted.fetched,
            total=counted.total,
            items=polled.items,
            new=polled.new,
            latest=polled.latest,
            handoffs=asdict(polled.handoffs) if polled.handoffs else None,
            duration=round((self._clock.now() - begun.run.started_at).total_seconds(), 3),
        )
        return polled


async def next_due_slot(
    connection: Connection, source: Source, schedule: str, timezone: str, now: datetime, *, catches_up: bool
) -> datetime | None:
    """Return the newest slot that has come and may be run; those before it only for a source that catches up.

    The newest first: a day that is read late lacks more the later it is, and the others are late already.
    """
    newest = cron.last_slot(schedule, timezone, now)
    if newest is None or newest <= source.created_at:
        return None
    slots = [newest]
    if catches_up:
        since = max(source.created_at, now - _CAUGHT_UP)
        slots = list(cron.slots_between(schedule, timezone, since, now)) or slots
    past = await runs.slot_runs(connection, source.id, slots[0])
    for slot in reversed(slots):
        stands = standing(past.get(slot, ()), now)
        if stands is Standing.FREE:
            return slot
        if stands is Standing.RESTING:
            return None  # what was in its way is in that of the others too
    return None
