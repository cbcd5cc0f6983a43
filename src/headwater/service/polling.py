"""The poller role: looks for feeds that are due and polls a few at once."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import structlog

from headwater.errors import LeaseLost
from headwater.model.poll import Polled
from headwater.service.parts import Parts
from headwater.service.waiting import wait_for_any
from headwater.store import sources
from headwater.store.pool import is_down
from headwater.store.sources import FeedClaim

log = structlog.get_logger()


class PollerRole:
    """Claims due feeds and polls them, at most `poll_concurrency` at once, those aside that wait for a budget."""

    def __init__(self, parts: Parts, on_poll: Callable[[Polled], None] = lambda _: None) -> None:
        self._parts = parts
        self._records = parts.records
        self._on_poll = on_poll
        self._polls: dict[asyncio.Task[None], UUID] = {}  # and the token of each
        self._ended = asyncio.Event()  # a poll has ended, so a slot is free

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Poll until `stop`; then let polls under way end within the grace and give the rest back."""
        settings = self._records.settings
        while not stop.is_set():
            self._ended.clear()
            try:
                full = await self._start_due()
            except Exception as error:
                if not is_down(error):
                    raise
                log.warning("poll.claim_failed", error=str(error))
                full = False
            await wait_for_any((stop, self._ended) if full else (stop,), settings.poll_look_seconds)
        if self._polls:
            await asyncio.wait(self._polls, timeout=grace_seconds)
        for poll in self._polls:
            poll.cancel()
        await asyncio.gather(*self._polls, return_exceptions=True)

    async def _start_due(self) -> bool:
        """Start polls of what is due; tell whether more may be due than there were slots for."""
        settings = self._records.settings
        free = settings.poll_concurrency - self._busy()
        claims: list[FeedClaim] = []
        if free > 0:
            now = self._records.clock.now()
            async with self._records.database.connection() as connection:
                claims = await sources.claim_feeds(
                    connection,
                    now=now,
                    until=now + timedelta(seconds=settings.lease_seconds),
                    holder=self._records.holder,
                    limit=free,
                )
            for claim in claims:
                task = asyncio.create_task(self._poll(claim))
                self._polls[task] = claim.lease.token
                task.add_done_callback(self._end)
        return len(claims) >= free

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
        level = "info" if polled.error is None else "warning"
        getattr(log, level)(
            "poll.done",
            source=claim.source.name,
            reason=str(polled.reason),
            items=polled.items,
            new=polled.new_items,
            refused=len(polled.refused),
            error=polled.error,
        )
        self._on_poll(polled)
