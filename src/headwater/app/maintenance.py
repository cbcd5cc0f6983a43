"""The maintenance role: the one rescuer, the sweeper, the pruner; and the clock that every process keeps."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from headwater.changes.outbox import prune_deliveries
from headwater.core.errors import HandoffsMissing
from headwater.core.settings import Settings
from headwater.core.waiting import wait_for
from headwater.db import canonical, changes, frontier, handoffs, runs, sources
from headwater.db.clock import SYNC_SECONDS
from headwater.db.context import DatabaseContext
from headwater.db.pool import is_down
from headwater.frontier import rescue
from headwater.handoff.handoffs import make_handoff_runner, promote_successors

log = structlog.get_logger()


async def _rescue_claims(context: DatabaseContext) -> int:
    return await rescue.rescue_claims(context.database, context.clock.now(), context.settings.max_retries + 1)


async def _rescue_hosts(context: DatabaseContext) -> int:
    return await rescue.rescue_hosts(context.database, context.clock.now())


async def _rescue_feeds(context: DatabaseContext) -> int:
    async with context.database.connection() as connection:
        return await sources.release_expired_polls(connection, context.clock.now())


async def _rescue_runs(context: DatabaseContext) -> int:
    async with context.database.connection() as connection:
        return await runs.return_expired_runs(connection, context.clock.now())


async def _rescue_canonical(context: DatabaseContext) -> int:
    async with context.database.connection() as connection:
        return await canonical.return_expired_lease(connection, context.clock.now())


async def _rescue_deliveries(context: DatabaseContext) -> int:
    async with context.database.connection() as connection:
        return await changes.return_expired_deliveries(connection, context.clock.now())


async def _rescue_handoffs(context: DatabaseContext) -> int:
    try:
        async with context.database.connection() as connection:
            return await handoffs.return_expired_handoffs(
                connection, context.clock.now(), context.settings.handoff_attempts
            )
    except HandoffsMissing:
        return 0


# Every table whose rows are leased, and what takes its expired leases back.
RESCUERS: dict[str, Callable[[DatabaseContext], Awaitable[int]]] = {
    "frontier_queue": _rescue_claims,
    "host_state": _rescue_hosts,
    "poll_state": _rescue_feeds,
    "runs": _rescue_runs,
    "canonical_state": _rescue_canonical,
    "deliveries": _rescue_deliveries,
    "ingestion_handoffs": _rescue_handoffs,
}


async def rescue_expired(context: DatabaseContext) -> int:
    """Take every expired lease back, of whatever kind; return how many."""
    return sum([await take_back(context) for take_back in RESCUERS.values()])


class MaintenanceRole:
    """Looks after what others leave behind."""

    def __init__(
        self, context: DatabaseContext, on_rescue: Callable[[int], None] = lambda _: None, *, look_seconds: float = 5.0
    ) -> None:
        self._context = context
        self._look_seconds = look_seconds
        self._on_rescue = on_rescue
        self._sweeper = rescue.Sweeper(context.database)

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Look every few seconds until `stop`."""
        del grace_seconds
        while not stop.is_set():
            try:
                await self._look()
            except Exception as error:
                if not is_down(error):
                    raise
                log.warning("maintenance.failed", error=str(error))
                await self._context.database.revive()
            await wait_for(stop, self._look_seconds)

    async def _look(self) -> None:
        """Do each duty, whatever becomes of the others; the first fault is raised at the end."""
        faults = []
        for duty in (self._rescue, self._hand_off, self._number, self._sweep, self._fold, self._prune):
            try:
                await duty()
            except Exception as error:
                if not is_down(error):
                    raise
                faults.append(error)
        if faults:
            raise faults[0]

    async def _rescue(self) -> None:
        rescued = await rescue_expired(self._context)
        if rescued:
            log.warning("leases.rescued", leases=rescued)
            self._on_rescue(rescued)

    async def _hand_off(self) -> None:
        if abandoned := await make_handoff_runner(self._context).execute_abandoned():
            log.warning("handoffs.abandoned_executed", handoffs=abandoned)
        await promote_successors(self._context.database, self._context.clock.now())

    async def _number(self) -> None:
        await self._context.database.transact(changes.number_changes)

    async def _sweep(self) -> None:
        if woken := await self._sweeper.sweep():
            log.warning("hosts.woken", hosts=woken)

    async def _fold(self) -> None:
        await self._context.database.transact(frontier.merge_frontier_counts)

    async def _prune(self) -> None:
        keep = timedelta(days=self._context.settings.fetch_log_days)
        await rescue.prune_log(self._context.database, self._context.clock.now(), keep)
        keep = timedelta(days=self._context.settings.delivery_log_days)
        await prune_deliveries(self._context.database, self._context.clock.now(), keep)


class ClockRole:
    """Keeps this process's idea of the database's time true."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Look at the database's time every second until `stop`."""
        del grace_seconds
        settle_seconds = _longest_hold_seconds(self._context.settings)
        while not stop.is_set():
            try:
                await self._context.clock.sync(self._context.database, settle_seconds)
            except Exception as error:
                if not is_down(error):
                    raise
                log.warning("clock.sync_failed", error=str(error))
            await wait_for(stop, SYNC_SECONDS)


def _longest_hold_seconds(settings: Settings) -> float:
    """How long a host may be held and then have its pause, in the hands of one who has not looked at the clock yet."""
    pause = max(settings.crawl_delay_cap_seconds, settings.host_delay_ms / 1000)
    return 2 * SYNC_SECONDS + settings.lease_seconds + pause
