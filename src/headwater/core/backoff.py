"""How long to wait after a failure, and how long a publisher asks us to wait."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from operator import itemgetter

from headwater.core.poll import RequestedDelay

LONGEST_RETRY = timedelta(hours=24)
_MAX_DIGITS = 9  # more than enough for a day in seconds
_DIRECTIVE = re.compile(r'([^\s=,;]+)(?:\s*=\s*(?:"([^"]*)"|([^\s,;]*)))?')


def retry_wait(attempts: int, base_seconds: float, chance: float) -> timedelta:
    """Return the wait after so many attempts. It doubles each time; `chance` (0..1) adds up to a quarter."""
    return min(timedelta(seconds=doubled(base_seconds, attempts) * (1 + chance / 4)), LONGEST_RETRY)


def doubled(base_seconds: float, attempts: int) -> float:
    """Return `base * 2^(attempts - 1)` seconds, up to the twentieth power."""
    return base_seconds * 2.0 ** min(max(attempts - 1, 0), 20)


def wait_after_loss(attempts: int, place: int) -> timedelta:
    """Return how long a URL waits that lost its worker, the `place`-th URL of those that lost more than one.

    One of them may crash workers. They return one after the other, so that it does not take others with it again.
    """
    return timedelta(seconds=place * 2.0 ** min(attempts - 2, 6)) if attempts > 1 else timedelta(0)


def read_retry_after(header: str | None, now: datetime) -> timedelta | None:
    """Read Retry-After in seconds or as a date. The result is from 0 to a day, or None if the header is unusable."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:_MAX_DIGITS])), LONGEST_RETRY)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(timedelta(0), min(when - now, LONGEST_RETRY))


def read_requested_delay(headers: Mapping[str, str], ttl_seconds: int | None, now: datetime) -> RequestedDelay | None:
    """Return the longest delay that a feed or the headers of its answer (in lower case) request, or None.

    `Age` shortens `max-age`. `no-cache` and `no-store` request nothing: they do not say when something new appears.
    """
    directives: dict[str, str] = {}
    for name, quoted, bare in _DIRECTIVE.findall(headers.get("cache-control", "")):
        directives.setdefault(name.lower(), quoted or bare)
    fresh = 0
    if "no-cache" not in directives and "no-store" not in directives:
        max_age, age = (
            int(digits[: _MAX_DIGITS + 1]) if digits.isascii() and digits.isdigit() else 0
            for digits in (directives.get("max-age", "").strip(), headers.get("age", "").strip())
        )
        fresh = max_age - age
    waits = {
        "ttl": timedelta(seconds=min(max(ttl_seconds or 0, 0), LONGEST_RETRY.total_seconds())),
        "max-age": timedelta(seconds=min(max(fresh, 0), LONGEST_RETRY.total_seconds())),
        "Retry-After": read_retry_after(headers.get("retry-after"), now) or timedelta(0),
    }
    by, longest = max(waits.items(), key=itemgetter(1))
    return RequestedDelay(longest, by) if longest > timedelta(0) else None
