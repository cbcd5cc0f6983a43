"""Days of a time zone (spec 6.2): half-open, right on days of 23 and of 25 hours."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo


def check_timezone(name: str) -> None:
    """Refuse, with a ValueError, what is no time zone."""
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise ValueError(f"{name!r} is not a time zone such as Europe/London") from None


def day_of(moment: datetime, timezone: str) -> date:
    """Return the local day a moment falls in."""
    return moment.astimezone(ZoneInfo(timezone)).date()


def day_before(moment: datetime, timezone: str) -> date:
    """Return the last local day that is over at a moment."""
    return day_of(moment, timezone) - timedelta(days=1)


def bounds(day: date, timezone: str) -> tuple[datetime, datetime]:
    """Return the day's first moment and the next day's first moment, in UTC."""
    zone = ZoneInfo(timezone)
    return _first_moment(day, zone), _first_moment(day + timedelta(days=1), zone)


def _first_moment(day: date, zone: ZoneInfo) -> datetime:
    # Where midnight is skipped (clocks go forward at 0:00), the UTC round trip lands on the first moment that exists.
    return datetime.combine(day, time(0), tzinfo=zone).astimezone(UTC)
