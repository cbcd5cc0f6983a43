"""The poller role: looks for sources that are due to be read and reads a few at once."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from datetime import timedelta
from functools import partial

import structlog

from headwater.app.runtime import Runtime
from headwater.core.errors import LeaseLost
from headwater.core.poll import PollResult
from headwater.core.source import Method
from headwater.core.waiting import finish_or_cancel, wait_for_any
from headwater.db import sources
from headwater.db.pool import is_down
from headwater.db.sources import PollClaim
from headwater.politeness.worker_slots import WorkerSlot, WorkerSlots

log = structlog.get_logger()
# Each has places of its own: what takes minutes must not keep the quick ones waiting.
QUICK_METHODS = (Method.FEED,)
LONG_METHODS = (Method.SITEMAP, Method.SPIDER)
LONG_AT_ONCE = 4
MANY_ERRORS = 10  # in a row: somebody should look
_MOST_WAITING_PER_SLOT = 100  # polls that wait for their hosts or budgets


class PollerRole:
    """Claims the sources that are due and polls a few of them at once.

    A poll that waits for a budget, for its host's turn, or for the lease or release of its host needs no slot.
    """

    def __init__(
        self,
        runtime: Runtime,
        on_poll: Callable[[PollResult], None] = lambda _: None,
        *,
        methods: Collection[Method] = QUICK_METHODS,
        at_once: int | None = None,
    ) -> None:
        self._runtime = runtime
        self._context = runtime.context
        self._on_poll = on_poll
        self._polls: set[asyncio.Task[None]] = set()
        self._ready: deque[PollClaim] = deque()  # claimed, not begun
        self._few = asyncio.Event()  # more should be claimed
        self._methods = methods
        self._lease = timedelta(seconds=runtime.context.settings.lease_seconds)
        self._at_once = at_once or runtime.context.settings.poll_concurrency
        self._slots = WorkerSlots(
            self._at_once, most_waiting=_MOST_WAITING_PER_SLOT * self._at_once, on_free=self._fill_slots
        )

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Poll until `stop`; then let polls under way end within the grace and give the rest back."""
        try:
            await self._start_until(stop)
            await self._give_back(len(self._ready))
        finally:
            self._ready.clear()  # none of them is begun when another has ended
        await finish_or_cancel(self._polls, grace_seconds)

    async def _start_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._few.clear()
            try:
                more = await self._start_due()
            except Exception as error:
                if not is_down(error):
                    raise
                log.warning("poll.claim_failed", error=str(error))
                more = False
            await wait_for_any((stop, self._few) if more else (stop,), self._context.settings.poll_check_seconds)

    @property
    def under_way(self) -> int:
        """How many polls are under way or about to be."""
        return len(self._polls) + len(self._ready)

    async def _start_due(self) -> bool:
        """Start polls of what is due; tell whether more may be due than there were places for.

        A few more are claimed than there are places for, so that no place waits for the next claim.
        """
        await self._give_back(sum(map(self._is_old, self._ready)))
        self._start_ready()
        wanted = self._slots.free + self._at_once - len(self._ready)
        if wanted <= self._at_once // 2:
            return True
        now = self._context.clock.now()
        async with self._context.database.connection() as connection:
            claims = await sources.claim_polls(
                connection,
                now=now,
                until=now + self._lease,
                holder=self._context.holder,
                limit=wanted,
                methods=self._methods,
            )
        self._ready.extend(claims)
        self._start_ready()
        return bool(self._ready) or len(claims) == wanted

    def _fill_slots(self) -> None:
        self._start_ready()
        if len(self._ready) <= self._at_once // 4:
            self._few.set()

    def _start_ready(self) -> None:
        for _ in range(min(self._slots.free, len(self._ready))):
            if self._is_old(self._ready[0]):
                self._few.set()  # it is given back then
                return
            claim = self._ready.popleft()
            task = self._slots.start(partial(self._poll, claim))
            self._polls.add(task)
            task.add_done_callback(self._polls.discard)

    def _is_old(self, claim: PollClaim) -> bool:
        """Tell whether a claim has waited for too long to be begun with."""
        return claim.lease.until - self._context.clock.now() < self._lease / 2

    async def _give_back(self, count: int) -> None:
        """Give the oldest claims back that have not been begun with; else their leases run out."""
        for claim in [self._ready.popleft() for _ in range(count)]:
            try:
                await self._runtime.poller.release(claim)
            except Exception as error:
                if not is_down(error):
                    raise
                log.warning("poll.not_given_back", source=claim.source.name, error=str(error))

    async def _poll(self, claim: PollClaim, slot: WorkerSlot) -> None:
        try:
            polled = await self._runtime.poller.poll(claim, slot=slot)
        except LeaseLost as error:
            log.warning("poll.lease_lost", source=claim.source.name, error=str(error))
            return
        except Exception:
            # The lease runs out and the rescuer makes the feed due again.
            log.exception("poll.failed", source=claim.source.name)
            return
        went_well = polled.error is None or polled.deferred
        level = "info" if went_well else "warning" if polled.errors < MANY_ERRORS else "error"
        getattr(log, level)(
            "poll.done",
            source=claim.source.name,
            read=str(claim.method),
            reason=str(polled.reason),
            items=polled.items,
            new=polled.new_items,
            leads=polled.leads,
            refused=len(polled.refused),
            error=polled.error,
            errors=polled.errors,
            overflowed=polled.overflowed,
        )
        self._on_poll(polled)
