"""How long a host is left alone between two requests (spec 2.3, 4.1, 4.2)."""

from datetime import datetime, timedelta

ROBOTS_LIFETIME = timedelta(hours=24)
ROBOTS_BLOCK = timedelta(minutes=10)
LONGEST_BACKOFF_MS = 3_600_000


def delay(crawl_delay_ms: int | None, default_ms: int, backoff_ms: int) -> timedelta:
    """Return the host's own wish, else the default; after 429s at least the back-off."""
    wished = default_ms if crawl_delay_ms is None else crawl_delay_ms
    return timedelta(milliseconds=max(wished, backoff_ms))


def capped_crawl_delay_ms(seconds: float | None, cap_seconds: float) -> int | None:
    """Turn a robots.txt Crawl-delay into milliseconds, never negative, cut at the cap."""
    if seconds is None:
        return None
    return int(1000 * max(0.0, min(seconds, cap_seconds)))


def backoff_after(rate_limited: bool, backoff_ms: int, in_force: timedelta) -> int:
    """Double the delay in force after a 429; halve what is left of a back-off after any other answer."""
    if not rate_limited:
        return backoff_ms // 2
    return min(LONGEST_BACKOFF_MS, max(1000, 2 * int(in_force.total_seconds() * 1000)))


def robots_are_fresh(fetched_at: datetime | None, now: datetime) -> bool:
    """Tell whether a robots.txt read at that time may still be used."""
    return fetched_at is not None and now - fetched_at < ROBOTS_LIFETIME
