"""Discover: a kind reads its source within its deadline, and its results are collected."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

import structlog

from headwater.core.clock import Clock
from headwater.core.errors import ExchangeFailed, HeadwaterError, LeaseLost
from headwater.core.json_values import check_state
from headwater.core.reasons import Reason
from headwater.core.source import DiscoveredUrl
from headwater.db import runs, sources
from headwater.db.pool import AWAY, Database, is_down
from headwater.db.runs import RunClaim
from headwater.db.sources import PollClaim
from headwater.discovery.save import DiscoveryResult, DiscoveryWriter, FoundItem
from headwater.politeness.gate import PATIENCE, Gate
from headwater.politeness.request_rate import RequestRate
from headwater.politeness.source_permits import SourcePermits
from headwater.politeness.worker_slots import WorkerSlot
from headwater.sandbox.pool import Sandbox
from headwater.sources.kind import check_item, refuse_shared_paths
from headwater.sources.run import Http, Run
from headwater.sources.visit import VisitHttp

log = structlog.get_logger()
_PART_ITEMS = 100  # items of a kind that is saved in parts
_BATCH_URLS = 2000  # URLs submitted in one transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryRunner:
    """Runs the kinds of claimed sources."""

    database: Database
    gate: Gate
    sandbox: Sandbox
    clock: Clock
    writer: DiscoveryWriter
    permits: SourcePermits

    async def execute(self, found: DiscoveryResult, slot: WorkerSlot | None) -> None:
        """Run the kind, and collect its results in `found`, also if it fails. A kind's fault is a HeadwaterError."""
        claim, kind, source = found.claim, found.kind, found.claim.source
        timeout = asyncio.timeout(kind.deadline)
        while_waiting = partial(self._wait_for_budget, found, Deadline(timeout), slot)
        try:
            rate = RequestRate(self.database, self.clock, source.id, kind.gap, claim.first_request_at)
            profile = kind.fetch_profile(source.name)
            longest = timedelta(seconds=kind.timeout.total) + PATIENCE + 2 * kind.gap
            hold_permit = partial(self.permits.hold, source.id, longest, slot)
            parts = (self.gate, self.sandbox, kind, rate, profile, while_waiting, slot)
            http = Http(*parts, hold_permit=hold_permit)
            if found.visit:
                http = VisitHttp(*parts, hold_permit=hold_permit, visit=found.visit)
            run = Run(
                http,
                found.state,
                self.clock.now(),
                claim.method,
                claim.backfill_since,
                found.learned,
                day=found.run.day if found.run else None,
                counters=found.counters,
                is_full=found.run is not None and found.run.slot is None,
            )
            async with timeout:
                async for one in kind.discover(run):
                    if len(found.items) >= _PART_ITEMS:  # the state does not know this one yet
                        await self.writer.save_part(found)
                    if isinstance(one, DiscoveredUrl):
                        found.pending_urls.append(one)
                    else:
                        found.items.append(FoundItem(one, check_item(source.name, kind, one)))
                    if len(found.pending_urls) >= _BATCH_URLS:
                        await self._submit_urls(found)
                if found.pending_urls:
                    await self._submit_urls(found)
            found.requested_delay, found.left = run.requested_delay, run.left
            if found.state != claim.state:
                check_state(source.name, found.state)
            if any(subpath is not None for _, subpath in found.items):
                refuse_shared_paths(source.name, found.items)
        except HeadwaterError:
            raise
        except (Exception, SystemExit) as error:
            if timeout.expired():
                message = f"Reading {source.name} took longer than its deadline of {kind.deadline:g} seconds."
                raise ExchangeFailed(message, reason=Reason.TIMEOUT) from None
            if isinstance(error, Exception) and is_down(error):
                raise
            log.exception("discover.failed", source=source.name)
            raise HeadwaterError(f"{type(error).__name__}: {error}", reason=Reason.INTERNAL) from error

    async def _submit_urls(self, found: DiscoveryResult) -> None:
        count = len(found.pending_urls)
        submitted = await self.writer.save_urls(found)
        found.url_count += count
        found.new_urls += submitted.new
        found.refused.update(islice(submitted.refused.items(), _BATCH_URLS - len(found.refused)))
        found.on_urls(found.url_count)

    @contextlib.asynccontextmanager
    async def _wait_for_budget(
        self, found: DiscoveryResult, deadline: "Deadline", slot: WorkerSlot | None, until: datetime
    ) -> AsyncIterator[None]:
        """Save the items so far. Then pause the deadline and free the slot while a request waits for its budget."""
        await self.writer.save_part(found)
        why = f"It waits for its budget; the next request may go at {until:%H:%M:%S} UTC."
        await self.database.run(sources.save_wait_reason, found.claim, why)
        with deadline.paused():
            async with slot.yielded() if slot else contextlib.nullcontext():
                yield


@dataclass(slots=True)
class Deadline:
    """A timeout that does not count pauses."""

    timeout: asyncio.Timeout
    pauses: int = 0
    seconds_left: float = 0.0

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the time until all pauses are over."""
        loop = asyncio.get_running_loop()
        if self.pauses == 0 and (when := self.timeout.when()) is not None:
            self.seconds_left = when - loop.time()
            self._reschedule(None)
        self.pauses += 1
        try:
            yield
        finally:
            self.pauses -= 1
            if self.pauses == 0:
                self._reschedule(loop.time() + self.seconds_left)

    def _reschedule(self, when: float | None) -> None:
        with contextlib.suppress(RuntimeError):  # the block has ended
            self.timeout.reschedule(when)


@contextlib.asynccontextmanager
async def keep_lease(database: Database, clock: Clock, claim: PollClaim, run: RunClaim | None) -> AsyncIterator[None]:
    """Renew the leases of a poll and its run during the block. Cancel the block once a lease is lost."""
    task = asyncio.current_task()
    assert task is not None
    length, until = claim.lease.until - clock.now(), claim.lease.until
    is_lost, pause = False, length.total_seconds() / 3
    renewals: list[asyncio.Task[None]] = []

    async def renew() -> None:
        nonlocal is_lost, until
        while True:
            wanted = clock.now() + length
            try:
                async with database.connection() as connection:
                    is_lost = not await sources.renew_poll(connection, claim, wanted)
                    if run and not is_lost:
                        is_lost = not await runs.renew_run(connection, run, wanted)
                until = wanted
            except AWAY:
                is_lost = clock.now() > until
            if is_lost:
                task.cancel()
                return
            await asyncio.sleep(pause)

    # A timer costs less than a task, and most polls end before the first renewal.
    timer = asyncio.get_running_loop().call_later(pause, lambda: renewals.append(asyncio.create_task(renew())))
    try:
        yield
    except asyncio.CancelledError:
        if is_lost and not task.uncancel():
            raise LeaseLost(f"The poll of {claim.source.name} lost its lease.") from None
        raise
    finally:
        timer.cancel()
        for renewal in renewals:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)
