"""The messages that channels get: digests and alarms."""

from datetime import date, datetime
from enum import StrEnum
from typing import Literal

from headwater.core.record import record


class AlarmKind(StrEnum):
    """The fault that an alarm reports."""

    SOURCE_FAILING = "source_failing"
    SOURCE_SILENT = "source_silent"
    DAY_INCOMPLETE = "day_incomplete"
    EXTRACTION_DRIFTED = "extraction_drifted"
    DISK_LOW = "disk_low"
    OUTBOX_STUCK = "outbox_stuck"


@record
class AlarmMessage:
    """An alarm that began or is over. A receiver gets each once."""

    event: Literal["alarm"]
    what: Literal["began", "over"]
    kind: AlarmKind
    subject: str
    """The source, the day, the folder or the receiver."""
    message: str
    """Why it began."""
    began_at: datetime
    ended_at: datetime | None


@record
class DigestDocument:
    """A document in a digest."""

    id: int
    url: str
    source: str
    title: str
    published_at: datetime | None
    lead: str
    story_id: int | None
    """The story that it belongs to, if it is not alone in it."""


@record
class DayReport:
    """Whether a day is complete, and which sources are silent or fail."""

    day: date
    is_over: bool
    is_complete: bool
    """The day is over, each source of dated days was read to its end, and no page waits or failed."""
    problems: list[str]
    """Sentences."""
    silent: list[str]
    """The sources that are silent or fail, each with the reason."""


@record
class Digest:
    """New documents of a saved search, as they were when the digest was made."""

    search: str
    words: str
    made_at: datetime
    documents: list[DigestDocument]
    more: int
    """Further documents that match, in the digests that follow."""
    report: DayReport
