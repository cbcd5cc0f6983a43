"""The maintenance role: rescue leases, repair hosts, queue watched pages, record history, delete old rows.

Also the clock role.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from headwater.core.errors import HandoffsMissing
from headwater.core.waiting import wait_for
from headwater.db import canonical, changes, deletions, frontier, handoffs, jobs, runs, sources
from headwater.db.clock import SYNC_SECONDS
from headwater.db.context import DatabaseContext
from headwater.db.pool import AWAY, Connection
from headwater.documents.deletion import Retention, remove_unused_files
from headwater.documents.purge import continue_purges
from headwater.frontier import rescue
from headwater.frontier.watches import queue_due_pages, replan_pages
from headwater.handoff.handoffs import HandoffRunner, promote_successors
from headwater.history.recorder import record_history
from headwater.history.sources import measure_sources

log = structlog.get_logger()
Rescuer = Callable[[DatabaseContext], Awaitable[int]]


async def _rescue_claims(context: DatabaseContext) -> int:
    return await rescue.rescue_claims(context.database, context.clock.now(), context.settings.max_retries + 1)


async def _rescue_hosts(context: DatabaseContext) -> int:
    return await rescue.rescue_hosts(context.database, context.clock.now())


def _release_with(release: Callable[[Connection, datetime], Awaitable[int]]) -> Rescuer:
    async def rescue_table(context: DatabaseContext) -> int:
        return await context.database.run(release, context.clock.now())

    return rescue_table


async def _rescue_handoffs(context: DatabaseContext) -> int:
    try:
        return await context.database.run(
            handoffs.return_expired_handoffs, context.clock.now(), context.settings.handoff_attempts
        )
    except HandoffsMissing:
        return 0


# Each table with leased rows, and the function that releases its expired leases.
RESCUERS: dict[str, Rescuer] = {
    "frontier_queue": _rescue_claims,
    "host_state": _rescue_hosts,
    "poll_state": _release_with(sources.release_expired_polls),
    "runs": _release_with(runs.return_expired_runs),
    "canonical_state": _release_with(canonical.return_expired_lease),
    "deliveries": _release_with(changes.return_expired_deliveries),
    "ingestion_handoffs": _rescue_handoffs,
}


async def rescue_expired(context: DatabaseContext) -> int:
    """Release all expired leases. Returns how many there were."""
    return sum([await rescue_table(context) for rescue_table in RESCUERS.values()])


@dataclass(slots=True, eq=False)
class MaintenanceRole:
    """Runs the maintenance duties every few seconds."""

    context: DatabaseContext
    on_rescue: Callable[[int], None] = lambda _: None
    interval_seconds: float = 5.0
    _sweeper: rescue.Sweeper = field(init=False)
    _retention: Retention = field(init=False)

    def __post_init__(self) -> None:
        self._sweeper = rescue.Sweeper(self.context.database)
        self._retention = Retention(self.context)

    async def run(self, stop: asyncio.Event, _grace_seconds: float) -> None:
        """Run until `stop`."""
        while not stop.is_set():
            try:
                await self._run_duties()
            except AWAY as error:
                log.warning("maintenance.failed", error=str(error))
                await self.context.database.revive()
            await wait_for(stop, self.interval_seconds)

    async def _run_duties(self) -> None:
        """Run each duty, also if others fail. Then raise the first error that means that the database is away."""
        errors = []
        transact = self.context.database.transact
        for duty in (
            self._rescue,
            self._hand_off,
            lambda: transact(changes.number_changes),
            self._wake_hosts,
            self._watch_pages,
            lambda: transact(frontier.merge_frontier_counts),
            lambda: transact(deletions.merge_source_sizes),
            lambda: transact(jobs.merge_job_counts),
            self._merge_handoff_counts,
            self._delete_expired,
            lambda: remove_unused_files(self.context),
            self._purge,
            self._prune,
            lambda: record_history(self.context.database, self.context.clock.now()),
            lambda: measure_sources(self.context.database, self.context.clock.now()),
        ):
            try:
                await duty()
            except AWAY as error:
                errors.append(error)
            except Exception:
                log.exception("maintenance.duty_failed")
        if errors:
            raise errors[0]

    async def _rescue(self) -> None:
        rescued = await rescue_expired(self.context)
        if rescued:
            log.warning("leases.rescued", leases=rescued)
            self.on_rescue(rescued)

    async def _hand_off(self) -> None:
        if abandoned := await HandoffRunner(self.context).execute_abandoned():
            log.warning("handoffs.abandoned_executed", handoffs=abandoned)
        await promote_successors(self.context.database, self.context.clock.now())

    async def _merge_handoff_counts(self) -> None:
        with contextlib.suppress(HandoffsMissing):
            await self.context.database.transact(handoffs.merge_handoff_counts)

    async def _wake_hosts(self) -> None:
        if woken := await self._sweeper.sweep():
            log.warning("hosts.woken", hosts=woken)

    async def _watch_pages(self) -> None:
        await replan_pages(self.context.database, self.context.clock.now())
        if due := await queue_due_pages(self.context.database, self.context.clock.now()):
            log.info("watches.due", pages=due)

    async def _delete_expired(self) -> None:
        if expired := await self._retention.step():
            log.info("documents.expired", documents=expired)

    async def _purge(self) -> None:
        for name in await continue_purges(self.context):
            log.info("source.purged", source=name)

    async def _prune(self) -> None:
        keep = timedelta(days=self.context.settings.fetch_log_days)
        await rescue.prune_log(self.context.database, self.context.clock.now(), keep)
        before = self.context.clock.now() - timedelta(days=self.context.settings.delivery_log_days)
        await self.context.database.transact(changes.prune_deliveries, before)


@dataclass(slots=True, eq=False)
class ClockRole:
    """Keeps this process's clock in step with the database's clock."""

    context: DatabaseContext

    async def run(self, stop: asyncio.Event, _grace_seconds: float) -> None:
        """Compare the clocks every few seconds until `stop`."""
        settings = self.context.settings
        pause = max(settings.crawl_delay_cap_seconds, settings.host_delay_ms / 1000)
        # A process with an unset clock may hold a host for this long, including the pause after its request.
        settle_seconds = 2 * SYNC_SECONDS + settings.lease_seconds + pause
        while not stop.is_set():
            try:
                await self.context.clock.sync(self.context.database, settle_seconds)
            except AWAY as error:
                log.warning("clock.sync_failed", error=str(error))
            await wait_for(stop, SYNC_SECONDS)
