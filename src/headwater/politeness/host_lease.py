"""The lease of a host: until its end, only its holder may send requests to the host (spec 2.3, 4.1, 4.2)."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from headwater.core import backoff
from headwater.core.frontier import HostRecord, HostRelease
from headwater.core.reasons import Reason
from headwater.politeness.worker_slots import WorkerSlot

ROBOTS_LIFETIME = timedelta(hours=24)
LONGEST_BACKOFF_MS = 3_600_000
QUIET = timedelta(hours=1)  # a host that did not throttle us for so long has no back-off any more
_THROTTLED = frozenset({429, 503})  # the host wants fewer requests


@dataclass(slots=True)
class HostLease:
    """A leased host, and the facts about its requests that decide when it may be asked again."""

    host: HostRecord
    token: UUID
    until: datetime
    default_delay_ms: int
    slot: WorkerSlot | None = None  # the slot of the worker that holds the lease
    before_send: Callable[[], None] | None = None  # runs before each request, and may refuse it
    last_sent_at: datetime | None = None
    is_throttled: bool = False  # the host asked for fewer requests
    has_answered: bool = False  # the host gave a good answer
    blocked_until: datetime | None = None
    blocked_reason: Reason | None = None

    @property
    def delay(self) -> timedelta:
        """The delay between two requests to the host."""
        return self.delay_with(self.host.backoff_ms)

    def delay_with(self, backoff_ms: int) -> timedelta:
        """Return the delay under a back-off: the host's Crawl-delay or else the default, and at least the back-off.

        Hosts that share a turn wait at least the default, because one host's smaller Crawl-delay binds only that host.
        """
        wished = self.host.crawl_delay_ms
        is_shared = self.host.politeness_key != self.host.host
        if wished is None or (is_shared and wished < self.default_delay_ms):
            wished = self.default_delay_ms
        return timedelta(milliseconds=max(wished, backoff_ms))

    def block(self, until: datetime, reason: Reason) -> None:
        """Block the host until a time, whatever its delay."""
        self.blocked_until = max(until, self.blocked_until or until)
        self.blocked_reason = reason

    def read_answer(self, status: int, headers: Mapping[str, str], now: datetime) -> None:
        """Record how an answer affects the next requests to the host."""
        if status in _THROTTLED:
            self.is_throttled = True
            if wait := backoff.read_retry_after(headers.get("retry-after"), now):
                self.block(now + wait, Reason.RATE_LIMITED)
        elif status < 500:
            self.has_answered = True

    def release(self, now: datetime) -> HostRelease:
        """Return when the host may be asked again and with which back-off."""
        backoff_ms, last_throttled_at = self.host.backoff_ms, self.host.last_throttled_at
        if self.is_throttled:
            backoff_ms = longer_backoff(self.delay, random.random())  # noqa: S311 - spreads, guards nothing
            last_throttled_at = now
        elif self.has_answered:
            backoff_ms = shorter_backoff(backoff_ms, last_throttled_at, now)
        not_before = self.last_sent_at + self.delay_with(backoff_ms) if self.last_sent_at else now
        until = max(not_before, self.blocked_until or not_before)
        return HostRelease(
            self.host.politeness_key, self.token, until, backoff_ms, last_throttled_at, self.blocked_reason
        )


def longer_backoff(in_force: timedelta, chance: float) -> int:
    """Double the delay in force; add up to a quarter by chance (0..1), so that workers spread out."""
    doubled = 2 * in_force / timedelta(milliseconds=1) * (1 + chance / 4)
    return min(LONGEST_BACKOFF_MS, max(1000, int(doubled)))


def shorter_backoff(backoff_ms: int, last_throttled_at: datetime | None, now: datetime) -> int:
    """Halve a back-off after a good answer; drop it after a long time without a throttled request."""
    if last_throttled_at is None or now - last_throttled_at >= QUIET:
        return 0
    return backoff_ms // 2


def capped_crawl_delay_ms(seconds: float | None, cap_seconds: float) -> int | None:
    """Return a Crawl-delay of robots.txt in milliseconds, never negative and never over the cap."""
    if seconds is None:
        return None
    return int(1000 * max(0.0, min(seconds, cap_seconds)))


def robots_are_fresh(fetched_at: datetime | None, now: datetime) -> bool:
    """Return whether a robots.txt that we fetched at that time is still valid."""
    return fetched_at is not None and now - fetched_at < ROBOTS_LIFETIME
