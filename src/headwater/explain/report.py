"""The records of `why URL`."""

from datetime import datetime
from enum import StrEnum

from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.db.why import UrlFacts
from headwater.frontier.watches import Watch

FETCHING = "fetching"


class DelayOrigin(StrEnum):
    """The origin of the pause between two requests to a host."""

    ROBOTS = "robots.txt"
    SHARED = "robots.txt of another host that shares its turn"
    SOURCE = "source"
    DEFAULT = "default"


@record
class PriorityReport:
    """The priority of a URL, 1 to 10, and its parts."""

    now: int | None
    """The priority in the queue. Null if the URL is not queued."""
    source: int | None
    """The part of the source. Null if the settings of the source cannot be read."""
    origin: int
    depth: int
    sum: int | None


@record
class RobotsReport:
    """The verdict of the host's robots.txt about the address, and the line that decides."""

    read_at: datetime | None
    exists: bool
    fresh: bool
    allowed: bool | None = None
    """Null if it is not known."""
    line: int | None = None
    rule: str | None = None
    agent: str | None = None
    crawl_delay_seconds: float | None = None
    """The delay that robots.txt asks for."""
    trouble: str | None = None


@record
class HostReport:
    """The pause, the turn and the state of the host."""

    name: str
    shares_turn: str | None
    """The politeness key that the host shares with other hosts."""
    pause_ms: int
    pause_from: DelayOrigin
    backoff_ms: int
    backoff_since: datetime | None
    free_at: datetime | None
    """When the next request may be sent. Null if it may be sent now."""
    in_use_by: str | None
    blocked: Reason | None
    silent_since: datetime | None
    """When the first request was sent that it did not answer. Null if it answered the last one."""
    failure: Reason | None
    """Why its last request failed. Null if it was answered."""
    failed_at: datetime | None
    closed: bool
    closed_until: datetime | None
    """When an operator's closing ends. Null if the host is open, or closed until it is released."""


@record
class WhyLine:
    """One or two sentences, and their subject."""

    label: str
    text: str


@record
class Why(UrlFacts):
    """Everything that is known about a URL at a moment."""

    asked: str
    """The address as it was asked."""
    asked_at: datetime
    source: str
    by_redirect: bool
    priority: PriorityReport
    robots: RobotsReport
    host: HostReport
    max_attempts: int
    watch: Watch | None
    """Its re-fetch policy. Null if neither the page nor its source has one."""
    next_at: datetime | None = None
    """When the URL can be fetched at the earliest. Null if that is now, or only on request."""
    lines: tuple[WhyLine, ...] = ()
    """All facts in sentences. The last line states what happens next."""
