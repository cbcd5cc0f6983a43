"""How long to wait after a failure."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

LONGEST_RETRY = timedelta(hours=24)


def retry_wait(attempts: int, base_seconds: float, chance: float) -> timedelta:
    """Double the wait with each attempt so far; up to a quarter more by chance (0..1), so that retries spread out."""
    return min(timedelta(seconds=doubled(base_seconds, attempts) * (1 + chance / 4)), LONGEST_RETRY)


def doubled(base_seconds: float, attempts: int) -> float:
    """Return the seconds to wait after so many attempts: `base * 2^(attempts - 1)`, up to the twentieth power."""
    return base_seconds * 2.0 ** min(max(attempts - 1, 0), 20)


def wait_after_loss(attempts: int, place: int) -> timedelta:
    """Return how long a URL waits that lost its worker, the `place`-th of those that were lost more than once.

    One of them may be what ends workers: they come back one after the other, so that it takes no other with it again.
    """
    return timedelta(seconds=place * 2.0 ** min(attempts - 2, 6)) if attempts > 1 else timedelta(0)


def retry_after(header: str | None, now: datetime) -> timedelta | None:
    """Read Retry-After, seconds or a date; never negative, at most a day, None where it says nothing."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        # More digits than a day has seconds need not be read.
        return min(timedelta(seconds=int(text[:9])), LONGEST_RETRY)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(timedelta(0), min(when - now, LONGEST_RETRY))
