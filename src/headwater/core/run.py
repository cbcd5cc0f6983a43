"""A run: one reading of a source that somebody answers for."""

from dataclasses import dataclass
from enum import StrEnum


class Trigger(StrEnum):
    """What began a run."""

    SCHEDULE = "schedule"  # a slot of its source's schedule
    MANUAL = "manual"  # somebody asked for a day
    SYNC = "sync"  # somebody asked for whatever there is now


@dataclass(slots=True)
class RunCounters:
    """What a kind counts while it reads: answers, records in them, and how many there are by the source's own word.

    `stage`, `done` and `of` are for whoever watches: what it does now, and how far it is with that.
    """

    pages: int = 0
    fetched: int = 0
    total: int | None = None
    stage: str = ""
    done: int = 0
    of: int | None = None
