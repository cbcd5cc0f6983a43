"""Decides who may ask an API that counts requests by the rolling hour, and when (spec 1.4).

Each API host allows a key a number of requests in any hour: the parent. Each source has a share of it, its child. A
request takes from both. Requests are counted in buckets of a few seconds. A bucket counts whole until all of it is too
old, so that a count is sometimes too high but never too low. No bucket starts full, so the first hour has no more
requests than any other.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

HOUR = timedelta(hours=1)
BUCKET = timedelta(seconds=10)
# The API counts a request when it arrives, and we count it when it leaves. A slow request may arrive this much later.
ON_THE_WAY = timedelta(seconds=30)
DEFAULT_LIMIT = 1000
LARGEST_LIMIT = 1_000_000
RESERVE = "reserve"
DEFAULT_SPLIT: Mapping[str, int] = {
    "bills": 350,
    "regulations_gov": 200,
    "hearings": 150,
    "public_laws": 100,
    "roll_call_votes": 100,
    RESERVE: 100,
}

_KEY_REFUSED = (401, 403)
_KEY_CODE = "API_KEY_"  # the start of the codes of api.data.gov: API_KEY_INVALID, API_KEY_DISABLED and others
_LARGEST_REFUSAL = 4096  # bytes
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def refuses_key(status: int, body: bytes) -> bool:
    """Return whether an answer refuses the key itself, and not only this one request."""
    if status not in _KEY_REFUSED or len(body) > _LARGEST_REFUSAL:
        return False
    try:
        code = json.loads(body)["error"]["code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return False
    return isinstance(code, str) and code.startswith(_KEY_CODE)


class Spent(NamedTuple):
    """The requests in the bucket that starts at a time: of all sources, and of the one that asks."""

    bucket: datetime
    by_all: int
    by_child: int


@dataclass(frozen=True, slots=True)
class Allowance:
    """The requests that a source may send in an hour: its share, and the limit that all sources share."""

    limit: int
    share: int
    exhausted_until: datetime | None = None  # the host has said that nothing is left

    def free_at(self, spent: Sequence[Spent], now: datetime) -> datetime | None:
        """Return when the next request may leave if no other source asks; None: now."""
        waits = (
            self.exhausted_until if self._is_empty(now) else None,
            _free_at(self.limit, ((bucket, by_all) for bucket, by_all, _ in spent), now),
            _free_at(self.share, ((bucket, by_child) for bucket, _, by_child in spent), now),
        )
        return max((wait for wait in waits if wait), default=None)

    def left(self, spent: Sequence[Spent], now: datetime) -> int:
        """Return how many requests may leave now."""
        if self._is_empty(now):
            return 0
        by_all, by_child = spent_lately(spent, now)
        return max(0, min(self.limit - by_all, self.share - by_child))

    def _is_empty(self, now: datetime) -> bool:
        return self.exhausted_until is not None and self.exhausted_until > now


@dataclass(frozen=True, slots=True)
class Split:
    """The division of a limit among sources. An override is a number of requests an hour, whatever the limit."""

    overrides: Mapping[str, int] = field(default_factory=dict)

    @property
    def children(self) -> tuple[str, ...]:
        """The sources that have a share, and the reserve for all other sources."""
        return tuple(dict.fromkeys((*DEFAULT_SPLIT, *self.overrides)))

    def child_of(self, source: str) -> str:
        """Return the share that a source uses: its own, else the reserve."""
        name = child_name(source)
        return name if name in self.children else RESERVE

    def drawn_by(self, child: str, sources: Iterable[str]) -> list[str]:
        """Return the sources, among the given ones, that use a share."""
        return sorted(source for source in sources if self.child_of(source) == child)

    def allowance(self, child: str, limit: int, exhausted_until: datetime | None = None) -> Allowance:
        """Return the allowance of a child: at least one request, so that no source waits indefinitely."""
        scaled = DEFAULT_SPLIT.get(child, 0) * limit // DEFAULT_LIMIT
        return Allowance(limit, self.overrides.get(child, max(1, scaled)), exhausted_until)


def child_name(source: str) -> str:
    """Return the form of a source's name in a setting: `regulations.gov` is `regulations_gov`."""
    return re.sub("[.-]", "_", source.lower())


def bucket_of(moment: datetime) -> datetime:
    """Return the start of the bucket that a moment is in."""
    return _EPOCH + (moment - _EPOCH) // BUCKET * BUCKET


def oldest_counted(now: datetime) -> datetime:
    """Return the start of the oldest bucket that still counts."""
    return bucket_of(now - HOUR - ON_THE_WAY)


def spent_lately(spent: Iterable[Spent], now: datetime) -> tuple[int, int]:
    """Return the requests that count now: of all sources, and of the one that asks."""
    counted = [part for part in spent if _ends_to_count(part.bucket) > now]
    return sum(part.by_all for part in counted), sum(part.by_child for part in counted)


def read_limit(header: str | None) -> int | None:
    """Return the number in X-RateLimit-Limit; None if there is none."""
    text = (header or "").strip()
    if not (text.isascii() and text.isdigit()):
        return None
    return min(int(text[:9]), LARGEST_LIMIT) or None


def fingerprint(key: str) -> str:
    """Return a name for a key that does not reveal it."""
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _free_at(limit: int, spent: Iterable[tuple[datetime, int]], now: datetime) -> datetime | None:
    """Return when enough requests are too old for one more to fit the limit; None: now."""
    counting = sorted((_ends_to_count(bucket), count) for bucket, count in spent if _ends_to_count(bucket) > now)
    room = limit - sum(count for _, count in counting)
    if room > 0:
        return None
    for end, count in counting:
        room += count
        if room > 0:
            return end
    raise AssertionError("a limit is at least one")


def _ends_to_count(bucket: datetime) -> datetime:
    return bucket + BUCKET + HOUR + ON_THE_WAY
