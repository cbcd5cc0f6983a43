"""Results of a canonical run."""

from dataclasses import dataclass, field
from datetime import datetime

TOLD = 20  # of the URLs that failed, and of those that are deferred


@dataclass(frozen=True, slots=True)
class Deferred:
    """A URL that neither brought an article nor failed: it is tried again by itself, and a later run marks it."""

    uid: str
    url: str
    reason: str | None  # why it waits, where that is known
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Failed:
    """A URL that brought no article and is not tried again for 30 days."""

    uid: str
    url: str
    code: str
    reason: str  # the same in our own words


@dataclass(slots=True)
class CanonicalTotals:
    """What a run counts while it works."""

    new: int = 0  # URLs that were not attempted within 30 days
    stored: int = 0  # fetched, and their articles kept
    skipped: int = 0  # their articles were there already
    failed: dict[str, int] = field(default_factory=dict)  # by code
    failed_urls: list[Failed] = field(default_factory=list)  # the first of them
    deferred: int = 0
    deferred_urls: list[Deferred] = field(default_factory=list)  # the first of them
    troubles: list[str] = field(default_factory=list)  # what was wrong with Redis, the first of it
    redis: str = "not configured"

    @property
    def done(self) -> int:
        """How many have their end."""
        return self.stored + self.skipped + sum(self.failed.values()) + self.deferred

    def fail(self, one: Failed) -> None:
        """Count a failure."""
        self.failed[one.code] = self.failed.get(one.code, 0) + 1
        if len(self.failed_urls) < TOLD:
            self.failed_urls.append(one)
