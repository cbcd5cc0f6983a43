"""Who may ask an API that counts requests by the rolling hour, and when (spec 1.4).

Each API host allows a key so many requests in any hour; that is the parent. Each source has a share of it, its child; a
request takes from both. What was spent is counted in buckets of a few seconds, and a bucket counts whole until all of
it is too old to matter: a little late, never too much. Nothing starts full and refills besides, so the first hour holds
as every other.
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
# The API counts requests when they arrive, we when they leave: one may be late that was counted before a quick one.
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
_KEY_CODE = "API_KEY_"  # that api.data.gov begins its codes with: API_KEY_INVALID, API_KEY_DISABLED and others
_LARGEST_REFUSAL = 4096  # bytes
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def refuses_key(status: int, body: bytes) -> bool:
    """Tell whether an answer says that the key is none that the API takes, and not that this one thing is forbidden."""
    if status not in _KEY_REFUSED or len(body) > _LARGEST_REFUSAL:
        return False
    try:
        code = json.loads(body)["error"]["code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return False
    return isinstance(code, str) and code.startswith(_KEY_CODE)


class Spent(NamedTuple):
    """What was spent in the bucket that starts at a time: by all sources, and by the one that asks."""

    bucket: datetime
    by_all: int
    by_child: int


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a source may spend in an hour: its share, and the limit that it shares with the others."""

    limit: int
    share: int
    exhausted_until: datetime | None = None  # the host has said that nothing is left

    def free_at(self, spent: Sequence[Spent], now: datetime) -> datetime | None:
        """Tell when the next request may go, if nobody else asks; None: now."""
        waits = (
            self.exhausted_until if self._is_empty(now) else None,
            _free_at(self.limit, ((bucket, by_all) for bucket, by_all, _ in spent), now),
            _free_at(self.share, ((bucket, by_child) for bucket, _, by_child in spent), now),
        )
        return max((wait for wait in waits if wait), default=None)

    def left(self, spent: Sequence[Spent], now: datetime) -> int:
        """Count the requests that may go now."""
        if self._is_empty(now):
            return 0
        by_all, by_child = spent_lately(spent, now)
        return max(0, min(self.limit - by_all, self.share - by_child))

    def _is_empty(self, now: datetime) -> bool:
        return self.exhausted_until is not None and self.exhausted_until > now


@dataclass(frozen=True, slots=True)
class Split:
    """How a limit is divided among sources; an override is a number of requests an hour, whatever the limit."""

    overrides: Mapping[str, int] = field(default_factory=dict)

    @property
    def children(self) -> tuple[str, ...]:
        """The sources that have a share, and the reserve for those that have none."""
        return tuple(dict.fromkeys((*DEFAULT_SPLIT, *self.overrides)))

    def child_of(self, source: str) -> str:
        """Tell whose share a source uses: its own, else the reserve."""
        name = child_name(source)
        return name if name in self.children else RESERVE

    def drawn_by(self, child: str, sources: Iterable[str]) -> list[str]:
        """Return those of some sources that use a share."""
        return sorted(source for source in sources if self.child_of(source) == child)

    def allowance(self, child: str, limit: int, exhausted_until: datetime | None = None) -> Allowance:
        """Return what a child may spend under a limit; never nothing, or it would wait for ever."""
        scaled = DEFAULT_SPLIT.get(child, 0) * limit // DEFAULT_LIMIT
        return Allowance(limit, self.overrides.get(child, max(1, scaled)), exhausted_until)


def child_name(source: str) -> str:
    """Write a source's name as in a setting: `regulations.gov` is `regulations_gov`."""
    return re.sub("[.-]", "_", source.lower())


def bucket_of(moment: datetime) -> datetime:
    """Return the start of the bucket that a moment is in."""
    return _EPOCH + (moment - _EPOCH) // BUCKET * BUCKET


def oldest_counted(now: datetime) -> datetime:
    """Return the start of the oldest bucket that still counts."""
    return bucket_of(now - HOUR - ON_THE_WAY)


def spent_lately(spent: Iterable[Spent], now: datetime) -> tuple[int, int]:
    """Add up what counts now, by all and by the one that asks."""
    counted = [part for part in spent if _ends_to_count(part.bucket) > now]
    return sum(part.by_all for part in counted), sum(part.by_child for part in counted)


def read_limit(header: str | None) -> int | None:
    """Read X-RateLimit-Limit; None where it gives no number of requests."""
    text = (header or "").strip()
    if not (text.isascii() and text.isdigit()):
        return None
    return min(int(text[:9]), LARGEST_LIMIT) or None


def fingerprint(key: str) -> str:
    """Name a key without giving it away."""
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _free_at(limit: int, spent: Iterable[tuple[datetime, int]], now: datetime) -> datetime | None:
    """Tell when so much has grown old that one more fits the limit."""
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
