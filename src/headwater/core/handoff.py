"""Hand-offs: what runs brought, on its way to the jobs that wait for its pages."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class HandoffStatus(StrEnum):
    """How far a hand-off is."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class JobStatus(StrEnum):
    """How far a job is. `RUNNING` is one whose page is being fetched now, and not stored."""

    QUEUED = "queued"
    RUNNING = "running"
    READY = "ready"
    FAILED = "failed"


class PageStatus(StrEnum):
    """How the page stands that a job would wait for."""

    NONE = "none"  # it is not fetched at all
    PENDING = "pending"
    FETCHING = "fetching"
    FETCHED = "fetched"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Handoff:
    """A payload of an item that is ours to hand off until its lease ends."""

    id: int
    reference_id: str
    payload_hash: str
    attempts: int
    scrape_run_id: int | None


@dataclass(frozen=True, slots=True)
class PastJob:
    """The newest job of a payload."""

    id: int
    status: JobStatus


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be made. A successor waits for a fetch of its page after the one that is under way."""

    reference_id: str
    payload_hash: str
    source_id: int
    page_id: int
    scrape_run_id: int | None
    is_successor: bool


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs; None: any."""

    source: str | None = None
    status: str | None = None
    reason: str | None = None
    scrape_run_id: int | None = None
    reference_id: str | None = None
    job_id: int | None = None


@dataclass(frozen=True, slots=True)
class HandoffCounts:
    """What became of the items that a run touched: each is counted once."""

    queued: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """Jobs that wait or have failed; hand-offs that wait, the oldest since when: None where those are taken back."""

    jobs_queued: int
    jobs_failed: int
    handoffs_queued: int | None
    handoffs_since: datetime | None


def named_counts(counts: HandoffCounts | None) -> dict[str, int | None]:
    """Return the counts by the names that they have outside; each is None where hand-offs are taken back."""
    names = ("queued", "completed", "failed", "skipped")
    return {f"handoff_{name}_count": getattr(counts, name, None) for name in names}
