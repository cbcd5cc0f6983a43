"""The plan and the result of a poll."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated

import msgspec

from headwater.core.json_values import JsonState
from headwater.core.reasons import Reason
from headwater.core.source import Method, Source

FIRST_GAP = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class AdaptiveInterval(JsonState):
    """How a source's interval has adapted so far. It is saved between polls."""

    # A factor of the source's own interval, so that a new setting takes effect at once.
    stretch: Annotated[float, msgspec.Meta(ge=0, le=100)] = 1.0
    quiet: Annotated[int, msgspec.Meta(ge=0)] = 0  # polls in a row without anything new


@dataclass(frozen=True, slots=True)
class RequestedDelay:
    """How long a publisher asks us to wait, and the name of the header or field that says so."""

    wait: timedelta
    by: str


@dataclass(frozen=True, slots=True)
class PollPlan:
    """When a source is polled next, why then, and the values to save until then."""

    at: datetime
    why: str
    errors: int
    adaptive_interval: AdaptiveInterval | None


def first_poll_at(now: datetime, *, interval: timedelta, index: int, count: int) -> datetime:
    """Return when one of several new sources is polled first: a second apart, but all within one interval."""
    return now + index * min(interval / max(count, 1), FIRST_GAP)


@dataclass(frozen=True, slots=True)
class HandoffCounts:
    """The results of the hand-offs of a run; each is counted once."""

    queued: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of a poll."""

    source: Source
    reason: Reason
    error: str | None = None
    method: Method = Method.FEED
    errors: int = 0  # in a row
    overflowed: bool = False  # all entries of the feed were new: others may have been missed
    deferred: bool = False  # the poll was put off, and nothing was charged
    title: str = ""
    items: int = 0
    new_items: int = 0
    new: int | None = None  # NEW items of the day that was read
    latest: int | None = None  # LATEST items of that day
    urls: int = 0
    left: int = 0  # still to be read; the next poll follows soon
    new_urls: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    run_id: int | None = None  # None: the poll was due and belongs to no run
    handoff_ids: tuple[int, ...] | None = None  # None: no run, or hand-offs are rolled back
    handoffs: HandoffCounts | None = None
