"""When a feed is polled next (spec 3.2)."""

from datetime import datetime, timedelta

LONGEST_WAIT = timedelta(hours=24)


def next_poll(now: datetime, interval: timedelta, errors: int, chance: float) -> datetime:
    """Add the interval, doubled for each error in a row up to a day; by chance (0..1) up to a tenth more."""
    wait = min(interval * (1 << min(errors, 20)), max(LONGEST_WAIT, interval))
    return now + wait * (1 + chance / 10)
