"""A host in our hands: nobody else asks it anything until it is given back."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.core import politeness
from headwater.core.frontier import HostRecord, HostRelease
from headwater.core.lease import Lease
from headwater.core.reasons import Reason


@dataclass(slots=True)
class HostLease:
    """A held host, and what happened to it while it was held."""

    host: HostRecord
    lease: Lease
    default_delay_ms: int
    last_sent_at: datetime | None = None
    troubled: bool = False  # it asked for fewer requests
    answered: bool = False  # it gave a good answer
    blocked_until: datetime | None = None
    blocked_reason: Reason | None = None

    @property
    def delay(self) -> timedelta:
        """The pause the host is due between two requests."""
        return self._delay(self.host.backoff_ms)

    @property
    def next_turn(self) -> datetime | None:
        """When the next request may be sent under this hold; None: at once, nothing was sent under it yet."""
        return self.last_sent_at + self.delay if self.last_sent_at else None

    def block(self, until: datetime, reason: Reason) -> None:
        """Leave the host alone until a time, whatever its delay."""
        self.blocked_until = max(until, self.blocked_until or until)
        self.blocked_reason = reason

    def share(self, other: "HostLease") -> None:
        """Take over what happened while the same lease was used for another host of the same turn."""
        self.last_sent_at, self.troubled, self.answered = other.last_sent_at, other.troubled, other.answered
        self.blocked_until, self.blocked_reason = other.blocked_until, other.blocked_reason

    def release(self, now: datetime) -> HostRelease:
        """Tell how the host is to be given back."""
        backoff_ms, last_throttled_at = self._backoff(now)
        not_before = self.last_sent_at + self._delay(backoff_ms) if self.last_sent_at else now
        until = max(not_before, self.blocked_until or not_before)
        return HostRelease(until, backoff_ms, last_throttled_at, self.blocked_reason)

    def _backoff(self, now: datetime) -> tuple[int, datetime | None]:
        if self.troubled:
            return politeness.longer_backoff(self.delay, random.random()), now  # noqa: S311 - spreads, guards nothing
        if not self.answered:
            return self.host.backoff_ms, self.host.last_throttled_at
        backoff_ms = politeness.shorter_backoff(self.host.backoff_ms, self.host.last_throttled_at, now)
        return backoff_ms, self.host.last_throttled_at

    def _delay(self, backoff_ms: int) -> timedelta:
        shared = self.host.politeness_key != self.host.host
        return politeness.delay(self.host.crawl_delay_ms, self.default_delay_ms, backoff_ms, shared=shared)
