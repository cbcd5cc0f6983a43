"""When a source is polled next, and why (spec 3.2).

A source's own interval is where everything starts. It shortens while much is new and lengthens while nothing is; what
a publisher asks for only ever lengthens it; failures double it, and no number of them ends it.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Annotated

import msgspec

from headwater.core.backoff import retry_after
from headwater.core.json_values import JsonState
from headwater.core.text import format_duration

LONGEST_WAIT = timedelta(hours=24)
LONGEST_RETRY_AFTER = timedelta(days=7)  # a slip in a header, such as a year, must not end a source unseen
FIRST_GAP = timedelta(seconds=1)
_SHORTEST_ADAPTED = timedelta(minutes=5)
_SHORTER, _LONGER = 2 / 3, 5 / 4
_NEARLY_BASE = 0.05
_MOST_DOUBLINGS = 20
_LEAST_WINDOW = 3  # fewer entries are all new too often to tell that one was missed
_DIRECTIVE = re.compile(r'([^\s=,;]+)(?:\s*=\s*(?:"([^"]*)"|([^\s,;]*)))?')


@dataclass(frozen=True, slots=True)
class AdaptiveInterval(JsonState):
    """What is kept of a source between polls that went well: how its interval has adapted so far."""

    stretch: Annotated[float, msgspec.Meta(ge=0, le=100)] = (
        1.0  # of its own interval, so that a change of that counts at once
    )
    quiet: Annotated[int, msgspec.Meta(ge=0)] = 0  # polls in a row that brought nothing new


@dataclass(frozen=True, slots=True)
class Read:
    """A poll that went well; one that found the feed unchanged has seen nothing."""

    seen: int = 0
    new: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """A poll that failed; `ours` where that says nothing about the source."""

    ours: bool = False


@dataclass(frozen=True, slots=True)
class RequestedDelay:
    """How long a publisher wants to be left alone, and what says so."""

    wait: timedelta
    by: str


@dataclass(frozen=True, slots=True)
class PollPlan:
    """When a source is polled next, why then, and what is kept until then."""

    at: datetime
    why: str
    errors: int
    rhythm: AdaptiveInterval | None


def plan_next(
    now: datetime,
    *,
    base: timedelta,
    rhythm: AdaptiveInterval | None,
    errors: int,
    outcome: Read | Failed,
    asked: RequestedDelay | None,
    chance: float,
) -> PollPlan:
    """Say when to poll after a poll, given the errors in a row before it; by chance (0..1) up to a tenth later.

    `rhythm` is None for a source that was never read well before: its first reading says nothing of its pace.
    """
    jitter = 1 + chance / 10
    if isinstance(outcome, Read):
        errors, rhythm = 0, _adapt(base, rhythm, outcome)
        wait = _interval(base, rhythm)
        own, why = wait * jitter, _why_read(base, wait, rhythm, outcome)
    elif outcome.ours:
        own = min(_interval(base, rhythm) * jitter, base)
        why = f"The last poll failed on our side, which is not charged: again within {format_duration(base)}."
    else:
        errors += 1
        wait, why = _back_off(base, _interval(base, rhythm), errors)
        own = min(wait * jitter, max(LONGEST_WAIT, base * jitter))
    least = min(asked.wait, LONGEST_RETRY_AFTER) if asked else timedelta(0)
    if asked and least * jitter > own:
        own, why = least * jitter, _why_asked(asked, least)
    return PollPlan(now + own, why, errors, rhythm)


def first_poll(now: datetime, *, base: timedelta, index: int, count: int) -> datetime:
    """Spread the first polls of sources that were added together: a second apart, all of them within one interval."""
    return now + index * min(base / max(count, 1), FIRST_GAP)


def is_overflow(*, seen: int, new: int, known_before: bool) -> bool:
    """Tell whether entries came and went between two polls: there is none left that was there the last time."""
    return known_before and new == seen >= _LEAST_WINDOW


def floor(base: timedelta) -> timedelta:
    """Return the shortest an interval adapts to: a third, but not under 5 minutes unless it was so short already."""
    return min(base, max(base / 3, _SHORTEST_ADAPTED))


def ceiling(base: timedelta) -> timedelta:
    """Return the longest an interval adapts to: four times, but not over a day unless it was so long already."""
    return max(base, min(base * 4, LONGEST_WAIT))


def asked_wait(headers: Mapping[str, str], ttl_seconds: int | None, now: datetime) -> RequestedDelay | None:
    """Return the longest of what a feed and the headers (in lower case) of its answer ask for; None for nothing.

    `max-age` counts from when the answer was made, which `Age` tells. What may not be kept at all says nothing about
    when there will be something new, so `no-cache` and `no-store` ask for nothing.
    """
    ttl = timedelta(seconds=min(max(ttl_seconds or 0, 0), LONGEST_WAIT.total_seconds()))
    waits = {
        "ttl": ttl,
        "max-age": _fresh_for(headers),
        "Retry-After": retry_after(headers.get("retry-after"), now) or timedelta(0),
    }
    by, longest = max(waits.items(), key=itemgetter(1))
    return RequestedDelay(longest, by) if longest > timedelta(0) else None


def _adapt(base: timedelta, rhythm: AdaptiveInterval | None, read: Read) -> AdaptiveInterval:
    """Step to the next interval: each kind of outcome never waits longer than the one that brought less."""
    if rhythm is None:
        return AdaptiveInterval()
    stretch = _interval(base, rhythm) / base
    # Half-way back to the source's own interval, as ratios go: 4, 2, 1.4 times.
    drifted = math.sqrt(stretch)
    if abs(drifted - 1) < _NEARLY_BASE:
        drifted = 1.0
    if not read.new:
        stepped = max(stretch, drifted) * _LONGER
    elif is_overflow(seen=read.seen, new=read.new, known_before=True):
        stepped = 0.0
    elif read.new > read.seen / 2:
        stepped = min(stretch, drifted) * _SHORTER
    else:
        stepped = drifted
    return AdaptiveInterval(_clamp(base * stepped, base) / base, 0 if read.new else rhythm.quiet + 1)


def _interval(base: timedelta, rhythm: AdaptiveInterval | None) -> timedelta:
    return _clamp(base * rhythm.stretch, base) if rhythm else base


def _clamp(wait: timedelta, base: timedelta) -> timedelta:
    return min(max(wait, floor(base)), ceiling(base))


def _back_off(base: timedelta, usual: timedelta, errors: int) -> tuple[timedelta, str]:
    """Double the source's own interval with each error; an error never makes a quiet source's wait shorter."""
    told = "Failed once" if errors == 1 else f"Failed {errors} times in a row"
    unbounded = base * (1 << min(errors, _MOST_DOUBLINGS))
    wait = min(unbounded, max(LONGEST_WAIT, base))
    if wait <= usual:
        return usual, f"{told}; every {format_duration(usual)} as before."
    if wait < unbounded:
        return wait, f"{told}: {format_duration(base)} doubled each time, but never over {format_duration(wait)}."
    return wait, f"{told}: {format_duration(base)} doubled{f' {errors} times' if errors > 1 else ''}."


def _why_read(base: timedelta, wait: timedelta, rhythm: AdaptiveInterval, read: Read) -> str:
    every = f"Every {format_duration(base)}"
    if format_duration(wait) == format_duration(base):
        return f"{every}."
    if rhythm.quiet:
        since = "poll" if rhythm.quiet == 1 else f"{rhythm.quiet} polls"
        reason = f"nothing was new in the last {since}"
    elif read.new == read.seen:
        reason = "all of the last poll was new and some may have been missed"
    elif read.new > read.seen / 2:
        reason = "most of the last poll was new"
    else:
        reason = "something was new and it returns there step by step"
    return f"{every}; {format_duration(wait)} for now, since {reason}."


def _why_asked(asked: RequestedDelay, honoured: timedelta) -> str:
    why = f"The publisher asks to be left alone for {format_duration(asked.wait)} ({asked.by})"
    return f"{why}; never more than {format_duration(honoured)} of that." if honoured < asked.wait else f"{why}."


def _fresh_for(headers: Mapping[str, str]) -> timedelta:
    """Return how much longer an answer is fresh by its max-age, at most a day; where there are several, the first."""
    directives: dict[str, str] = {}
    for name, quoted, bare in _DIRECTIVE.findall(headers.get("cache-control", "")):
        directives.setdefault(name.lower(), quoted or bare)
    if "no-cache" in directives or "no-store" in directives:
        return timedelta(0)
    fresh = _seconds(directives.get("max-age", "")) - _seconds(headers.get("age", ""))
    return timedelta(seconds=min(max(fresh, 0), LONGEST_WAIT.total_seconds()))


def _seconds(text: str) -> int:
    digits = text.strip()
    # More digits than a century has seconds need not be read.
    return int(digits[:10]) if digits.isascii() and digits.isdigit() else 0
