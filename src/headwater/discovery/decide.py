"""Decide when a source is polled next, and why (spec 3.2).

A source's own interval is the base. It gets shorter while much is new and longer while nothing is. A delay that the
publisher requests only makes the wait longer. Each failure of the source doubles the wait.
No number of failures ends a source.
"""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.core.poll import AdaptiveInterval, PollPlan, RequestedDelay
from headwater.core.reasons import Reason
from headwater.core.text import format_duration

LONGEST_WAIT = timedelta(hours=24)
LONGEST_REQUESTED_WAIT = timedelta(days=7)  # a mistake in a header, such as a wrong year, must not end a source
_SHORTEST_ADAPTED = timedelta(minutes=5)
_SHORTER, _LONGER = 2 / 3, 5 / 4
_NEARLY_BASE = 0.05
_MAX_DOUBLINGS = 20
_BUSY = frozenset({Reason.HOST_BUSY, Reason.BROWSER_BUSY, Reason.CONNECTION_LOST})
_LONG_WAIT = timedelta(minutes=10)
_LONGEST_BUSY = timedelta(hours=1)
_MIN_OVERFLOW = 3  # fewer entries are often all new by chance


@dataclass(frozen=True, slots=True)
class Read:
    """The outcome of a poll that succeeded. An unchanged feed has no items."""

    items: int = 0
    new_items: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The outcome of a poll that failed. `is_ours`: the cause is on our side and says nothing about the source."""

    is_ours: bool = False


def plan_next_poll(
    now: datetime,
    *,
    base: timedelta,
    adaptive_interval: AdaptiveInterval | None,
    errors: int,
    outcome: Read | Failed,
    requested_delay: RequestedDelay | None,
    chance: float,
    is_manual: bool = False,
) -> PollPlan:
    """Return when to poll after an outcome. `chance` (0..1) adds up to a tenth, so that polls spread out.

    `errors` counts the errors in a row before the outcome. `adaptive_interval` is None before the first success. A
    poll that a person asks for neither adapts the interval nor makes the back-off longer.
    """
    jitter = 1 + chance / 10
    shortest, longest = interval_limits(base)
    adapted = adaptive_interval
    if isinstance(outcome, Read):
        adapted = (adaptive_interval or AdaptiveInterval()) if is_manual else _adapt(base, adaptive_interval, outcome)
    usual = min(max(base * adapted.stretch, shortest), longest) if adapted else base
    if isinstance(outcome, Read):
        errors = 0
        wait, why = usual * jitter, _explain_interval(base, usual, outcome, adapted.quiet if adapted else 0)
    elif outcome.is_ours:
        wait = min(usual * jitter, base)
        why = f"The last poll failed on our side, which is not charged: again within {format_duration(base)}."
    else:
        errors = max(errors, 1) if is_manual else errors + 1
        wait, why = _back_off(base, usual, errors)
        wait = min(wait * jitter, max(LONGEST_WAIT, base * jitter))
    least = min(requested_delay.wait, LONGEST_REQUESTED_WAIT) if requested_delay else timedelta(0)
    if requested_delay and least * jitter > wait:
        asked = format_duration(requested_delay.wait)
        why = f"The publisher asks to be left alone for {asked} ({requested_delay.by})"
        why += f"; never more than {format_duration(least)} of that." if least < requested_delay.wait else "."
        wait = least * jitter
    return PollPlan(now + wait, why, errors, adapted)


def is_failed_wait(reason: Reason, wait: timedelta, unread: timedelta, interval: timedelta | None) -> bool:
    """Return whether a poll that was put off has failed (spec 11.3).

    A short wait for a busy host is no failure, unless such waits keep the source `unread` for long.
    """
    if reason not in _BUSY or wait >= _LONG_WAIT:
        return True
    return unread > (interval or LONGEST_WAIT) + _LONGEST_BUSY


def is_overflow(*, items: int, new_items: int) -> bool:
    """Return whether a feed that was read before may have missed entries: none of its entries is known."""
    return new_items == items >= _MIN_OVERFLOW


def interval_limits(base: timedelta) -> tuple[timedelta, timedelta]:
    """Return the shortest and the longest adapted interval.

    They are a third of the base, but at least 5 minutes, and four times the base, but at most a day. A base outside
    these bounds is a limit itself.
    """
    return min(base, max(base / 3, _SHORTEST_ADAPTED)), max(base, min(base * 4, LONGEST_WAIT))


def _adapt(base: timedelta, past: AdaptiveInterval | None, read: Read) -> AdaptiveInterval:
    """Return the next interval. With more new items it is never longer than with fewer."""
    if past is None:
        return AdaptiveInterval()
    shortest, longest = interval_limits(base)
    stretch = min(max(base * past.stretch, shortest), longest) / base
    # Half-way back to the source's own interval on a scale of ratios: 4, 2, 1.4 times.
    drifted = math.sqrt(stretch)
    if abs(drifted - 1) < _NEARLY_BASE:
        drifted = 1.0
    if not read.new_items:
        stretch = max(stretch, drifted) * _LONGER
    elif is_overflow(items=read.items, new_items=read.new_items):
        stretch = 0.0
    elif read.new_items > read.items / 2:
        stretch = min(stretch, drifted) * _SHORTER
    else:
        stretch = drifted
    stretch = min(max(base * stretch, shortest), longest) / base
    return AdaptiveInterval(stretch, 0 if read.new_items else past.quiet + 1)


def _back_off(base: timedelta, usual: timedelta, errors: int) -> tuple[timedelta, str]:
    """Double the base with each error. An error never makes the wait of a quiet source shorter."""
    failed = "Failed once" if errors == 1 else f"Failed {errors} times in a row"
    unbounded = base * (1 << min(errors, _MAX_DOUBLINGS))
    wait = min(unbounded, max(LONGEST_WAIT, base))
    if wait <= usual:
        return usual, f"{failed}; every {format_duration(usual)} as before."
    if wait < unbounded:
        return wait, f"{failed}: {format_duration(base)} doubled each time, but never over {format_duration(wait)}."
    return wait, f"{failed}: {format_duration(base)} doubled{f' {errors} times' if errors > 1 else ''}."


def _explain_interval(base: timedelta, wait: timedelta, read: Read, quiet: int) -> str:
    every = f"Every {format_duration(base)}"
    if format_duration(wait) == format_duration(base):
        return f"{every}."
    if quiet:
        reason = f"nothing was new in the last {'poll' if quiet == 1 else f'{quiet} polls'}"
    elif read.new_items == read.items:
        reason = "all of the last poll was new and some may have been missed"
    elif read.new_items > read.items / 2:
        reason = "most of the last poll was new"
    else:
        reason = "something was new and it returns there step by step"
    return f"{every}; {format_duration(wait)} for now, since {reason}."
