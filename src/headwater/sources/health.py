"""How a source is doing, and the sentence that says why (spec 3.2)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from headwater.core.text import format_duration

_LATE_AFTER = timedelta(minutes=5)
_SILENT_AFTER = timedelta(days=7)
_SILENT_GAPS = 10
_SILENT_WITHOUT_GAP = timedelta(days=30)
_OUR_FAILURES = timedelta(days=1)


class Health(StrEnum):
    """How a source is doing, the worst first."""

    FAILING = "failing"
    LATE = "late"
    SILENT = "silent"
    NEW = "new"
    ON_TIME = "on_time"
    DISABLED = "disabled"

    @property
    def rank(self) -> int:
        """Return its place where sources are listed the worst first."""
        return list(Health).index(self)


class Verdict(NamedTuple):
    """A source's health and why it is so."""

    health: Health
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Polls:
    """What is known of a source's polls.

    `next_poll_at` is None for one that is never due by itself: it follows a schedule, or waits to be asked.
    """

    added_at: datetime
    enabled: bool = True
    scheduled: bool = False
    polling: bool = False  # a poll is under way
    next_poll_at: datetime | None = None
    last_polled_at: datetime | None = None
    last_success_at: datetime | None = None
    consecutive_errors: int = 0
    last_error: str | None = None  # of the last poll; None where that went well
    last_new_at: datetime | None = None
    usual_gap: timedelta | None = None  # between one new item and the next


def health(polls: Polls, now: datetime, look: timedelta) -> Verdict:
    """Judge a source; `look` is how often the program looks for what is due."""
    if not polls.enabled:
        return Verdict(Health.DISABLED, "It is disabled: nothing is polled until it is enabled again.")
    if polls.consecutive_errors:
        return Verdict(Health.FAILING, _why_failing(polls, now))
    if _fails_on_our_side(polls, now):
        why = f"{_last_read(polls, now).capitalize()}. {_failed_on_our_side(polls)}"
        return Verdict(Health.FAILING, why)
    if (overdue := _overdue(polls, now)) > _LATE_AFTER + 2 * look:
        why = f"It has been due for {format_duration(overdue)}: the program was stopped, or has too much to do."
        return Verdict(Health.LATE, why)
    if polls.last_polled_at is None:
        return Verdict(Health.NEW, f"It was never polled. {_next(polls, now)}")
    if (silence := _silence(polls)) > _silent_after(polls.usual_gap):
        return Verdict(Health.SILENT, _why_silent(polls, silence))
    return Verdict(Health.ON_TIME, _why_on_time(polls, polls.last_polled_at, now))


def _fails_on_our_side(polls: Polls, now: datetime) -> bool:
    """Tell whether failures that are charged to nobody have gone on for so long that somebody has to know."""
    return polls.last_error is not None and now - (polls.last_success_at or polls.added_at) > _OUR_FAILURES


def _overdue(polls: Polls, now: datetime) -> timedelta:
    if polls.next_poll_at is None or polls.polling:
        return timedelta(0)
    return now - polls.next_poll_at


def _silence(polls: Polls) -> timedelta:
    """Return how long nothing new was found; only up to the last good poll, since nobody looked after that."""
    if polls.last_success_at is None:
        return timedelta(0)
    return polls.last_success_at - (polls.last_new_at or polls.added_at)


def _silent_after(usual_gap: timedelta | None) -> timedelta:
    return _SILENT_WITHOUT_GAP if usual_gap is None else max(_SILENT_AFTER, usual_gap * _SILENT_GAPS)


def _why_failing(polls: Polls, now: datetime) -> str:
    times = "once" if polls.consecutive_errors == 1 else f"{polls.consecutive_errors} times in a row"
    why = f"Failed {times}; {_last_read(polls, now)}."
    return f"{why} {polls.last_error}" if polls.last_error else why


def _why_silent(polls: Polls, silence: timedelta) -> str:
    nothing = "Nothing new" if polls.last_new_at else "Nothing at all"
    usual = f", where something comes every {format_duration(polls.usual_gap)} as a rule" if polls.usual_gap else ""
    return f"{nothing} has come for {format_duration(silence)}{usual}; its polls go well."


def _why_on_time(polls: Polls, last_polled_at: datetime, now: datetime) -> str:
    polled = f"Polled {_ago(last_polled_at, now)}. {_next(polls, now)}"
    return f"{polled} {_failed_on_our_side(polls)}" if polls.last_error else polled


def _failed_on_our_side(polls: Polls) -> str:
    return f"The last poll failed on our side: {polls.last_error}"


def _last_read(polls: Polls, now: datetime) -> str:
    return f"last read {_ago(polls.last_success_at, now)}" if polls.last_success_at else "never read yet"


def _next(polls: Polls, now: datetime) -> str:
    if polls.polling:
        return "It is being polled just now."
    if polls.next_poll_at is None:
        return "It follows its schedule." if polls.scheduled else "It is polled when somebody asks for it."
    return f"Next in {format_duration(polls.next_poll_at - now)}." if polls.next_poll_at > now else "Its turn has come."


def _ago(moment: datetime, now: datetime) -> str:
    return f"{format_duration(max(now - moment, timedelta(0)))} ago"
