"""The poller role: it claims sources that are due, and polls a few at once."""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import structlog

from headwater.app.runtime import Runtime
from headwater.core.errors import LeaseLost
from headwater.core.poll import PollResult
from headwater.core.source import Method
from headwater.core.waiting import finish_or_cancel, wait_for_any
from headwater.db import sources
from headwater.db.pool import AWAY
from headwater.db.sources import PollClaim
from headwater.politeness.worker_slots import WorkerSlot, WorkerSlots

log = structlog.get_logger()
# Both groups have their own slots: a method that takes minutes must not delay the feeds.
_QUICK_METHODS = (Method.FEED,)
_LONG_METHODS = (Method.SITEMAP, Method.SPIDER)
_LONG_AT_ONCE = 4
_MANY_ERRORS = 10  # in a row; from here on, errors are logged as errors
_MOST_WAITING_PER_SLOT = 100  # polls that wait for their hosts or budgets


class PollerRole:
    """Claims the sources that are due and polls a few of them at once.

    A poll that waits for a budget, for its host's turn, or for the lease or release of its host needs no slot.
    """

    def __init__(
        self, runtime: Runtime, on_poll: Callable[[PollResult], None] = lambda _: None, *, is_long: bool = False
    ) -> None:
        self._runtime = runtime
        self._context = runtime.context
        self._on_poll = on_poll
        self._polls: set[asyncio.Task[None]] = set()
        self._ready: deque[PollClaim] = deque()  # claimed, not started
        self._wants_more = asyncio.Event()  # more sources should be claimed
        self._methods = _LONG_METHODS if is_long else _QUICK_METHODS
        self._lease = timedelta(seconds=runtime.context.settings.lease_seconds)
        self._at_once = at_once = _LONG_AT_ONCE if is_long else runtime.context.settings.poll_concurrency
        self._slots = WorkerSlots(at_once, most_waiting=_MOST_WAITING_PER_SLOT * at_once, on_free=self._fill_slots)

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Poll until `stop`. Then let the polls under way end within the grace, and release the rest."""
        try:
            await self._start_until(stop)
            await self._release_oldest(len(self._ready))
        finally:
            self._ready.clear()  # the end of a poll must not start another
        await finish_or_cancel(self._polls, grace_seconds)

    async def _start_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._wants_more.clear()
            try:
                more = await self._start_due()
            except AWAY as error:
                log.warning("poll.claim_failed", error=str(error))
                more = False
            await wait_for_any((stop, self._wants_more) if more else (stop,), self._context.settings.poll_check_seconds)

    @property
    def under_way(self) -> int:
        """The number of polls under way or about to start."""
        return len(self._polls) + len(self._ready)

    async def _start_due(self) -> bool:
        """Claim and start polls. Return whether more may be due than were claimed.

        It claims a few more than there are slots, so that no slot waits for the next claim.
        """
        await self._release_oldest(sum(map(self._is_old, self._ready)))
        self._start_ready()
        wanted = self._slots.free + self._at_once - len(self._ready)
        if wanted <= self._at_once // 2:
            return True
        now, holder = self._context.clock.now(), self._context.holder
        claims = await self._context.database.run(
            sources.claim_polls, now=now, until=now + self._lease, holder=holder, limit=wanted, methods=self._methods
        )
        self._ready.extend(claims)
        self._start_ready()
        return bool(self._ready) or len(claims) == wanted

    def _fill_slots(self) -> None:
        self._start_ready()
        if len(self._ready) <= self._at_once // 4:
            self._wants_more.set()

    def _start_ready(self) -> None:
        for _ in range(min(self._slots.free, len(self._ready))):
            if self._is_old(self._ready[0]):
                self._wants_more.set()  # the next claim releases it
                return
            claim = self._ready.popleft()
            task = self._slots.start(partial(self._poll, claim))
            self._polls.add(task)
            task.add_done_callback(self._polls.discard)

    def _is_old(self, claim: PollClaim) -> bool:
        """Return whether too little of a claim's lease is left to start its poll."""
        return claim.lease.until - self._context.clock.now() < self._lease / 2

    async def _release_oldest(self, count: int) -> None:
        """Release the oldest claims that are not started. If the database is down, their leases expire instead."""
        for claim in [self._ready.popleft() for _ in range(count)]:
            try:
                await self._runtime.poller.release(claim)
            except AWAY as error:
                log.warning("poll.release_failed", source=claim.source.name, error=str(error))

    async def _poll(self, claim: PollClaim, slot: WorkerSlot) -> None:
        try:
            result = await self._runtime.poller.poll(claim, slot=slot)
        except LeaseLost as error:
            log.warning("poll.lease_lost", source=claim.source.name, error=str(error))
            return
        except Exception:
            # The lease expires, and the rescuer makes the source due again.
            log.exception("poll.failed", source=claim.source.name)
            return
        level = "info" if not result.has_failed else "warning" if result.errors < _MANY_ERRORS else "error"
        getattr(log, level)(
            "poll.done",
            source=claim.source.name,
            method=str(claim.method),
            reason=str(result.reason),
            items=result.items,
            new=result.new_items,
            urls=result.urls,
            older_pages=result.older.pages if result.older else 0,
            backfill=result.older and result.older.command,
            refused=len(result.refused),
            error=result.error,
            errors=result.errors,
            overflowed=result.overflowed,
        )
        self._on_poll(result)
