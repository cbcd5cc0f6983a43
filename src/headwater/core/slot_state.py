"""Whether a slot of a schedule may be run, after what became of it so far (spec 1.2, 6.5)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple

from headwater.core.reasons import Reason

MOST_LOST = 3  # runs of a slot whose process died: there is something about it
MOST_FAILED = 5  # runs that failed for a reason that may pass
_FIRST_WAIT = timedelta(minutes=10)  # after such a failure; it doubles


class PastRun(NamedTuple):
    """A run that a slot has had; None for the reason and the end while it goes on."""

    reason: Reason | None
    finished_at: datetime | None


class Standing(Enum):
    """How a slot stands."""

    FREE = auto()  # it may be run
    RESTING = auto()  # it failed, and is run again after a while
    CLOSED = auto()  # it is being run, or done, or given up


def standing(past: Sequence[PastRun], now: datetime) -> Standing:
    """Tell how a slot stands after the runs that it had. One that was stopped costs nothing."""
    failures: list[PastRun] = []
    for run in past:
        if run.reason is None or not run.reason.retryable:
            return Standing.CLOSED
        if run.reason is not Reason.SHUTDOWN:
            failures.append(run)
    lost = sum(run.reason is Reason.WORKER_LOST for run in failures)
    if lost >= MOST_LOST or len(failures) >= MOST_FAILED:
        return Standing.CLOSED
    last = failures[-1] if failures else None
    if last is None or last.reason is Reason.WORKER_LOST or last.finished_at is None:
        return Standing.FREE
    wait: timedelta = _FIRST_WAIT * 2 ** (len(failures) - lost - 1)
    return Standing.FREE if now >= last.finished_at + wait else Standing.RESTING
