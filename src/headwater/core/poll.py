"""The plan and the result of a poll."""

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Annotated, Any

import msgspec

from headwater.core.dates import day_of
from headwater.core.json_values import JsonState
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.core.source import Method, Source

FIRST_GAP = timedelta(seconds=1)
EARLIEST_DAY = date(1970, 1, 1)


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


class _StoredOlder(msgspec.Struct):
    pages: int
    sitemaps: int
    oldest: datetime | None


@record
class OlderPages:
    """Pages that the sitemaps of a source list and that changed too long ago to be taken."""

    pages: int
    sitemaps: int
    """The number of older sitemaps. They were not read, so `pages` lacks their pages."""
    command: str
    """The command that fetches all of these pages."""

    def describe(self) -> str:
        """Return a sentence for a person. The command follows it."""
        pages = f"{self.pages:,} page{'s' * (self.pages != 1)}" if self.pages or not self.sitemaps else "The pages"
        sitemaps = f"{self.sitemaps:,} older sitemap{'s' * (self.sitemaps != 1)}"
        if self.sitemaps:
            pages += f" and those of {sitemaps}" if self.pages else f" of {sitemaps}"
        return f"{pages} changed too long ago and were not taken. This command fetches them:"


def describe_older(stored: Any, source: str, timezone: str) -> OlderPages | None:
    """Return the pages that are too old to be taken, by the state of the sitemap method. None: there are none."""
    try:
        older = msgspec.convert(stored, _StoredOlder)
    except msgspec.ValidationError:  # a kind may keep something else under that name
        return None
    since = day_of(older.oldest, timezone) if older.oldest and not older.sitemaps else EARLIEST_DAY
    command = f"headwater source backfill {source} --since {max(since, EARLIEST_DAY)}"
    return OlderPages(older.pages, older.sitemaps, command)


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of a poll."""

    source: Source
    reason: Reason
    error: str | None = None
    method: Method = Method.FEED
    errors: int = 0  # in a row
    overflowed: bool = False  # all entries of the feed were new: others may have been missed
    deferred: bool = False  # the poll was put off; it is charged if `errors` is above 0
    title: str = ""
    items: int = 0
    new_items: int = 0
    new: int | None = None  # NEW items of the day that was read
    latest: int | None = None  # LATEST items of that day
    urls: int = 0
    left: int = 0  # still to be read; the next poll follows soon
    new_urls: int = 0
    older: OlderPages | None = None
    refused: dict[str, str] = field(default_factory=dict)
    flaws: tuple[str, ...] = ()  # of the feed: feeds/flaws.py has their codes
    run_id: int | None = None  # None: the poll was due and belongs to no run
    handoff_ids: tuple[int, ...] | None = None  # None: no run, or hand-offs are rolled back
    handoffs: HandoffCounts | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the poll failed. A short wait for a busy host is no failure."""
        return self.error is not None and not (self.deferred and not self.errors)
