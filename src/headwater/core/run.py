"""A run: one reading of a source for a slot of its schedule or for a user."""

from dataclasses import dataclass
from enum import StrEnum


class Trigger(StrEnum):
    """The cause of a run."""

    SCHEDULE = "schedule"  # a slot of the source's schedule
    MANUAL = "manual"  # a user asked for a day
    SYNC = "sync"  # a user asked for everything there is now


class RunStatus(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(slots=True)
class RunCounters:
    """The progress that a kind counts while it reads. A progress bar shows `stage`, `done` and `of`."""

    pages: int = 0  # answers
    fetched: int = 0  # records in them
    total: int | None = None  # records that the source states
    stage: str = ""
    done: int = 0
    of: int | None = None
