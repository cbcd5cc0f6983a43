"""A day, and what to show of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DayFilter:
    """What to show of a day; None: whatever there is."""

    source: str | None = None
    bucket: str | None = None
    organisation: str | None = None
    document_type: str | None = None
