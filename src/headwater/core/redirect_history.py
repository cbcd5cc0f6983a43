"""When a permanent redirect replaces a source's address (spec 3.2).

A redirect costs one more request at each poll. A wrong new address loses the source for good. For this reason a source
takes a new address late, and never in doubt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

import msgspec

from headwater.core.json_values import JsonState
from headwater.core.text import format_duration

MIN_SIGHTINGS = 5
MIN_AGE = timedelta(days=2)  # longer than the maintenance of a site
_PERMANENT = frozenset({301, 308})


class Hop(NamedTuple):
    """One redirect: its status and its target."""

    status: int
    target: str


@dataclass(frozen=True, slots=True)
class RedirectHistory(JsonState):
    """A permanent redirect, seen at each of the `count` polls since `first_seen`."""

    target: str
    first_seen: Annotated[datetime, msgspec.Meta(tz=True)]
    count: int = 1

    def is_confirmed(self, now: datetime) -> bool:
        """Return whether the target replaces the source's address."""
        return self.count >= MIN_SIGHTINGS and now - self.first_seen >= MIN_AGE

    def explain(self, now: datetime) -> str:
        """Return a sentence about the redirect and what is still missing."""
        left, wait = max(MIN_SIGHTINGS - self.count, 1), self.first_seen + MIN_AGE - now
        sightings = "1 more sighting" if left == 1 else f"{left} more sightings"
        soonest = f", in {format_duration(wait)} at the soonest" if wait > timedelta(0) else ""
        return f"The feed moved to {self.target}; it is used after {sightings}{soonest}."


def update_redirect_history(
    history: RedirectHistory | None, *, url: str, hops: Sequence[Hop], is_feed: bool, now: datetime
) -> RedirectHistory | None:
    """Return the history after an answer, or None if no redirect can replace the address.

    `hops` are the redirects from `url` to the answer. `is_feed` is true if the answer is a feed or is unchanged (304).
    Do not call this for a poll without an answer.
    """
    if not is_feed or not hops or any(hop.status not in _PERMANENT for hop in hops):
        return None
    target = hops[-1].target
    if target == url or _leaves_https(url, hops) or _is_front_page(target):
        return None
    if history is None or history.target != target:
        return RedirectHistory(target, now)
    return RedirectHistory(target, history.first_seen, history.count + 1)


def _leaves_https(url: str, hops: Sequence[Hop]) -> bool:
    """Return whether a hop goes from https to http, where anyone on the network path can choose the next hop.

    An address that starts with http has no such protection to lose.
    """
    schemes = [urlsplit(address).scheme for address in (url, *(hop.target for hop in hops))]
    return any(before == "https" and after == "http" for before, after in pairwise(schemes))


def _is_front_page(target: str) -> bool:
    """Return whether a target is the root of a host. Sites redirect addresses that they deleted to their root.

    A root with a query is a normal address (`/?feed=rss2`). Login pages and maintenance pages are no feeds.
    """
    parts = urlsplit(target)
    return parts.path in ("", "/") and not parts.query
