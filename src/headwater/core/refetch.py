"""Decide when a watched page is fetched again (spec 11.2). Pure functions.

A policy is text: `never`, `every 6h`, `adaptive` or `adaptive 2h to 7d`. It has a shortest and a longest interval. The
two are equal unless the policy is adaptive. An adaptive interval gets shorter when the page changed, and longer when it
did not. Failures in a row make the wait longer and leave the interval as it is.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from headwater.core.reasons import Reason
from headwater.core.text import format_duration

NEVER = "never"
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_TEXT = re.compile(r"never|every ([0-9]{1,6}[mhd])|adaptive(?: ([0-9]{1,6}[mhd]) to ([0-9]{1,6}[mhd]))?")
_MOST_OFTEN, _LEAST_OFTEN = timedelta(minutes=5), timedelta(days=365)
_ADAPTIVE = timedelta(hours=1), timedelta(days=30)
# A page that changes at a steady pace is then fetched about twice between two changes.
_SHORTER, _LONGER = 1 / 2, 3 / 2
_LONGEST_AFTER_FAILURES = timedelta(days=7)
_MAX_DOUBLINGS = 20


class FetchEnd(StrEnum):
    """How the fetch of a watched page ended."""

    FIRST = "first"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    GONE = "gone"  # the server reports that the page was removed permanently


@dataclass(frozen=True, slots=True)
class RefetchPolicy:
    """The bounds of the interval between two fetches of a page."""

    shortest: timedelta
    longest: timedelta

    def limit(self, interval: timedelta) -> timedelta:
        """Return the interval within the bounds."""
        return min(max(interval, self.shortest), self.longest)


@dataclass(frozen=True, slots=True)
class RefetchState:
    """The learned interval of a page, and how many fetches in a row found no change or failed."""

    interval: timedelta = timedelta(days=1)
    quiet: int = 0
    failures: int = 0


def parse_policy(text: str) -> RefetchPolicy | None:
    """Return the policy of a text, or None for `never`. Raises ValueError if it is no policy."""
    match = _TEXT.fullmatch(text)
    if not match:
        raise ValueError("must be 'never', 'every 6h', 'adaptive' or 'adaptive 2h to 7d'; units are m, h and d")
    every, shortest, longest = match.groups()
    if every:
        shortest = longest = every
    elif match[0] == NEVER:
        return None
    bounds = (_parse_interval(shortest), _parse_interval(longest)) if shortest else _ADAPTIVE
    policy = RefetchPolicy(*bounds)
    if policy.shortest > policy.longest:
        raise ValueError(f"must have a shortest interval below the longest; {shortest} is longer than {longest}")
    if policy.shortest < _MOST_OFTEN or policy.longest > _LEAST_OFTEN:
        raise ValueError("must have intervals from 5m to 365d")
    return policy


def learn(policy: RefetchPolicy, state: RefetchState, end: FetchEnd) -> RefetchState:
    """Return the state after a fetch."""
    match end:
        case FetchEnd.FIRST:
            return RefetchState(policy.limit(state.interval))
        case FetchEnd.CHANGED:
            return RefetchState(policy.limit(state.interval * _SHORTER))
        case FetchEnd.UNCHANGED:
            return RefetchState(policy.limit(state.interval * _LONGER), state.quiet + 1)
    return RefetchState(policy.limit(state.interval), state.quiet, state.failures + 1)


def plan_refetch(policy: RefetchPolicy, state: RefetchState, fetched_at: datetime) -> datetime:
    """Return when a page that was fetched at a time is fetched again."""
    return fetched_at + _wait(policy, state)


def explain_refetch(policy: RefetchPolicy, state: RefetchState, reason: Reason | None) -> str:
    """Explain the plan in a sentence. `reason` is how the last fetch ended."""
    if reason is Reason.GONE:
        return "Not by itself: the server reports that the page was removed permanently (410)."
    wait = format_duration(_wait(policy, state))
    if state.failures:
        times = "" if state.failures == 1 else f" {state.failures} times in a row"
        return f"{wait} after the last fetch, because it failed{times}. Each failure doubles the wait."
    if policy.shortest == policy.longest:
        return f"Every {wait}."
    bounds = f"adaptive from {format_duration(policy.shortest)} to {format_duration(policy.longest)}"
    fetches = "the last fetch" if state.quiet == 1 else f"the last {state.quiet} fetches"
    return f"Every {wait} for now ({bounds})" + (f", because {fetches} found no change." if state.quiet else ".")


def _wait(policy: RefetchPolicy, state: RefetchState) -> timedelta:
    longest = max(policy.longest, _LONGEST_AFTER_FAILURES)
    return min(policy.limit(state.interval) * (1 << min(state.failures, _MAX_DOUBLINGS)), longest)


def _parse_interval(text: str) -> timedelta:
    return int(text[:-1]) * _UNITS[text[-1]]
