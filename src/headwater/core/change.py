"""A change: what other programs hear of, in the change feed and by webhooks."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from headwater.core.reasons import Reason


class Event(StrEnum):
    """What there is to hear of."""

    DOCUMENT_READY = "document.ready"  # a document is new, or says something else
    JOB_FAILED = "job.failed"


@dataclass(frozen=True, slots=True)
class ChangedDocument:
    """A document at the revision that a change made or corrected. Language and date are those that it has now."""

    id: int
    revision: int
    title: str
    content_hash: str
    language: str | None
    published_at: datetime | None


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job, the item that it was for, and why it failed."""

    id: int
    reference_id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Change:
    """One change; `position` is its place among all, and either `document` or `job` tells of what it is.

    A correction leaves the text, and so the revision, as it was: title, byline, date, language, picture or abstract is
    another.
    """

    position: int
    at: datetime
    url: str
    source: str | None
    document: ChangedDocument | None = None
    job: FailedJob | None = None
    is_correction: bool = False

    @property
    def event(self) -> Event:
        """What is heard of it."""
        return Event.DOCUMENT_READY if self.document else Event.JOB_FAILED

    @property
    def what(self) -> str:
        """What happened, in a word."""
        if self.document is None:
            return "failed"
        if self.is_correction:
            return "corrected"
        return "new" if self.document.revision == 1 else "changed"

    def told(self) -> dict[str, Any]:
        """Return what other programs are told: the same in the feed and in a webhook's body."""
        document = self.document
        return {
            "event": str(self.event),
            "what": self.what,
            "cursor": cursor_of(self.position),
            "at": self.at,
            "url": self.url,
            "source": self.source,
            "document": document
            and {
                "id": document.id,
                "revision": document.revision,
                "title": document.title,
                "content_hash": document.content_hash,
                "language": document.language,
                "published_at": document.published_at,
            },
            "job": self.job
            and {
                "id": self.job.id,
                "reference_id": self.job.reference_id,
                "reason": str(self.job.reason),
                "message": self.job.reason.sentence,
            },
        }


def cursor_of(position: int) -> str:
    """Return what a reader names to go on after a position."""
    return f"c{position}"
