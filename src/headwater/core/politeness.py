"""Who waits for whose turn, and how long a host is left alone between two requests (spec 2.3, 4.1, 4.2)."""

import ipaddress
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache, lru_cache

from publicsuffixlist import PublicSuffixList

ROBOTS_LIFETIME = timedelta(hours=24)
ROBOTS_BLOCK = timedelta(minutes=10)
LONGEST_BACKOFF_MS = 3_600_000
QUIET = timedelta(hours=1)  # so long without a complaint, and all is forgiven
_SLOWED = frozenset({429, 503})

KeyOf = Callable[[str], str]


def own_key(host: str) -> str:
    """Let each host, with its port, have its own turn."""
    return host


@lru_cache(maxsize=65_536)
def domain_key(host: str) -> str:
    """Let all hosts of one registrable domain share a turn; an address or a public suffix has its own."""
    name = host.partition(":")[0]
    if host.startswith("[") or _is_address(name):
        return host
    domain = _public_suffixes().privatesuffix(name)
    return f"domain:{domain}" if domain else host


KEYS: dict[str, KeyOf] = {"host": own_key, "domain": domain_key}


def group_key(name: str) -> str:
    """Return the politeness key of a named group."""
    return f"group:{name}"


def delay(crawl_delay_ms: int | None, default_ms: int, backoff_ms: int, *, shared: bool = False) -> timedelta:
    """Return the host's own wish, else the default; after 429s at least the back-off.

    A turn that hosts share is as slow as the slowest of them: a wish for less is not that of the others.
    """
    wished = default_ms if crawl_delay_ms is None else crawl_delay_ms
    if shared:
        wished = max(wished, default_ms)
    return timedelta(milliseconds=max(wished, backoff_ms))


def capped_crawl_delay_ms(seconds: float | None, cap_seconds: float) -> int | None:
    """Turn a robots.txt Crawl-delay into milliseconds, never negative, cut at the cap."""
    if seconds is None:
        return None
    return int(1000 * max(0.0, min(seconds, cap_seconds)))


def asks_for_less(status: int) -> bool:
    """Tell whether a status means that the host wants fewer requests, and not only that this one failed."""
    return status in _SLOWED


def longer_backoff(in_force: timedelta, chance: float) -> int:
    """Double the delay in force; up to a quarter more by chance (0..1), so that workers spread out."""
    doubled = 2 * in_force / timedelta(milliseconds=1) * (1 + chance / 4)
    return min(LONGEST_BACKOFF_MS, max(1000, int(doubled)))


def shorter_backoff(backoff_ms: int, last_throttled_at: datetime | None, now: datetime) -> int:
    """Halve what is left of a back-off after a good answer; forgive it all after a long quiet."""
    if last_throttled_at is None or now - last_throttled_at >= QUIET:
        return 0
    return backoff_ms // 2


def robots_are_fresh(fetched_at: datetime | None, now: datetime) -> bool:
    """Tell whether a robots.txt read at that time may still be used."""
    return fetched_at is not None and now - fetched_at < ROBOTS_LIFETIME


@cache
def _public_suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
