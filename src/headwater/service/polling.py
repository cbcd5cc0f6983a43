"""The poller role: looks for sources that are due to be read and reads a few at once."""

import asyncio
from collections.abc import Callable, Collection
from datetime import timedelta
from uuid import UUID

import structlog

from headwater.errors import LeaseLost
from headwater.model.poll import Polled
from headwater.model.source import Pass
from headwater.service.parts import Parts
from headwater.service.waiting import wait_for_any
from headwater.store import sources
from headwater.store.pool import is_down
from headwater.store.sources import FeedClaim

log = structlog.get_logger()
# Each has slots of its own: what takes minutes must not keep the quick ones waiting.
QUICK_PASSES = (Pass.MAIN,)
LONG_PASSES = (Pass.SITEMAP, Pass.SPIDER)
LONG_AT_ONCE = 4
MANY_ERRORS = 10  # in a row: somebody should look


class PollerRole:
    """Claims what is due and reads it, at most so many at once, those aside that wait for a budget."""

    def __init__(
        self,
        parts: Parts,
        on_poll: Callable[[Polled], None] = lambda _: None,
        *,
        passes: Collection[Pass] = QUICK_PASSES,
        at_once: int | None = None,
    ) -> None:
        self._parts = parts
        self._records = parts.records
        self._on_poll = on_poll
        self._passes = passes
        self._at_once = at_once or parts.records.settings.poll_concurrency
        self._polls: dict[asyncio.Task[None], UUID] = {}  # and the token of each
        self._ended = asyncio.Event()  # a poll has ended, so a slot is free

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Poll until `stop`; then let polls under way end within the grace and give the rest back."""
        settings = self._records.settings
        while not stop.is_set():
            try:
                full = await self._start_due()
            except Exception as error:
                if not is_down(error):
                    raise
                log.warning("poll.claim_failed", error=str(error))
                full = False
            self._ended.clear()
            await wait_for_any((stop, self._ended) if full else (stop,), settings.poll_look_seconds)
        if self._polls:
            await asyncio.wait(self._polls, timeout=grace_seconds)
        for poll in self._polls:
            poll.cancel()
        await asyncio.gather(*self._polls, return_exceptions=True)

    async def _start_due(self) -> bool:
        """Start polls of what is due; tell whether every slot is taken."""
        settings = self._records.settings
        free = self._at_once - self._busy()
        if free > 0:
            now = self._records.clock.now()
            async with self._records.database.connection() as connection:
                claims = await sources.claim_feeds(
                    connection,
                    now=now,
                    until=now + timedelta(seconds=settings.lease_seconds),
                    holder=self._records.holder,
                    limit=free,
                    passes=self._passes,
                )
            for claim in claims:
                task = asyncio.create_task(self._poll(claim))
                self._polls[task] = claim.lease.token
                task.add_done_callback(self._end)
        return self._busy() >= self._at_once

    def _busy(self) -> int:
        return sum(not self._parts.poller.is_waiting(token) for token in self._polls.values())

    def _end(self, poll: asyncio.Task[None]) -> None:
        del self._polls[poll]
        self._ended.set()

    async def _poll(self, claim: FeedClaim) -> None:
        try:
            polled = await self._parts.poller.poll(claim)
        except LeaseLost as error:
            log.warning("poll.lease_lost", source=claim.source.name, error=str(error))
            return
        except Exception:
            # The lease runs out and the rescuer makes the feed due again.
            log.exception("poll.failed", source=claim.source.name)
            return
        level = "info" if polled.error is None else "warning" if polled.errors < MANY_ERRORS else "error"
        getattr(log, level)(
            "poll.done",
            source=claim.source.name,
            read=str(claim.which),
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
