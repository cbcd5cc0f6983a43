"""The state of a schedule's slot after its past runs (spec 1.2, 6.5)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple

from headwater.core.reasons import Reason

MAX_LOST = 3  # runs of a slot whose process died; the slot may be the cause
MAX_FAILED = 5  # runs that failed for a temporary reason
_FIRST_WAIT = timedelta(minutes=10)  # after such a failure; it doubles


class PastRun(NamedTuple):
    """A run of a slot. The reason and the end are None while it is under way."""

    reason: Reason | None
    finished_at: datetime | None


class SlotState(Enum):
    """Whether a slot can be run."""

    FREE = auto()
    WAITING = auto()  # its last run failed; it is free again later
    CLOSED = auto()  # it is being run, or done, or has failed too often


def read_slot_state(past: Sequence[PastRun], now: datetime) -> SlotState:
    """Return the state of a slot after its runs. A run that this program stopped does not count."""
    failures: list[PastRun] = []
    for run in past:
        if run.reason is None or not run.reason.retryable:
            return SlotState.CLOSED
        if run.reason is not Reason.SHUTDOWN:
            failures.append(run)
    lost = sum(run.reason is Reason.WORKER_LOST for run in failures)
    if lost >= MAX_LOST or len(failures) >= MAX_FAILED:
        return SlotState.CLOSED
    last = failures[-1] if failures else None
    if last is None or last.reason is Reason.WORKER_LOST or last.finished_at is None:
        return SlotState.FREE
    wait: timedelta = _FIRST_WAIT * 2 ** (len(failures) - lost - 1)
    return SlotState.FREE if now >= last.finished_at + wait else SlotState.WAITING
