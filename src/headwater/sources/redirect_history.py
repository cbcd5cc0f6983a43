"""When a source's address is given up for the one it redirects to (spec 3.2).

Following a redirect costs one request more at each poll; learning a wrong one loses the address for good. So a move is
learned late, and in doubt never.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

import msgspec

from headwater.core.json_values import JsonState
from headwater.core.poll_plan import format_duration

LEAST_SIGHTINGS = 5
LEAST_AGE = timedelta(days=2)  # longer than a site is down for maintenance
_PERMANENT = frozenset({301, 308})


class Hop(NamedTuple):
    """One redirect: its status and where it leads."""

    status: int
    target: str


@dataclass(frozen=True, slots=True)
class RedirectHistory(JsonState):
    """A permanent redirect that is being watched, seen at each of `count` polls since `first_seen`."""

    target: str
    first_seen: Annotated[datetime, msgspec.Meta(tz=True)]
    count: int = 1

    def is_learned(self, now: datetime) -> bool:
        """Tell whether the target is the source's address from now on."""
        return self.count >= LEAST_SIGHTINGS and now - self.first_seen >= LEAST_AGE

    def told(self, now: datetime) -> str:
        """Say what is known of it, and what is still missing."""
        times = "once" if self.count == 1 else f"{self.count} times in {format_duration(now - self.first_seen)}"
        until = f"it is kept after {LEAST_SIGHTINGS} times in {format_duration(LEAST_AGE)}"
        return f"It redirects for good to {self.target}, seen {times}; {until}."


def watch(
    move: RedirectHistory | None, *, url: str, hops: Sequence[Hop], is_feed: bool, now: datetime
) -> RedirectHistory | None:
    """Return what to remember after an answer: the move seen once more, another one, or none.

    `hops` are the redirects from `url` to the answer, and `is_feed` tells whether that was read as a feed, or unchanged
    since it was (304). A poll without an answer says nothing: keep what there is.
    """
    if not is_feed or not _may_be_learned(url, hops):
        return None
    target = hops[-1].target
    if move is None or move.target != target:
        return RedirectHistory(target, now)
    return RedirectHistory(target, move.first_seen, move.count + 1)


def _may_be_learned(url: str, hops: Sequence[Hop]) -> bool:
    if not hops or any(hop.status not in _PERMANENT for hop in hops):
        return False
    return hops[-1].target != url and not _leaves_https(url, hops) and not _is_front_page(hops[-1].target)


def _leaves_https(url: str, hops: Sequence[Hop]) -> bool:
    """Tell whether any hop goes from https to http: from there on, whoever is on the way may name the next one.

    An address that was http to begin with gains nothing by being kept, so its move is learned.
    """
    schemes = [urlsplit(address).scheme for address in (url, *(hop.target for hop in hops))]
    return any(before == "https" and after == "http" for before, after in pairwise(schemes))


def _is_front_page(target: str) -> bool:
    """Tell whether a target is a host's root, where sites send what they no longer have.

    It has been read as a feed, so it may be one, but then for all that is gone: not this one. With a query it is an
    address like others (`/?feed=rss2`). Pages for logins and maintenance need no list of names: they are no feeds.
    """
    parts = urlsplit(target)
    return parts.path in ("", "/") and not parts.query
