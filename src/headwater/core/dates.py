"""Dates of feeds and pages, and days of time zones.

An impossible, relative or absurd date is no date, and never "now". A day is half-open and has 23, 24 or 25 hours
(spec 6.2).
"""

import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

from headwater.core.errors import BadRequest

ACCEPTED_MOMENT = "a day or time such as 2026-03-29 or 2026-03-29T14:00Z"
# A date outside these years is a default value or a mistake.
MIN_YEAR = 1990
MAX_YEAR = 2100

_MONTHS = [
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
]
_MONTH_NUMBERS = {name[:3]: number for number, name in enumerate(_MONTHS, start=1)}

# Minutes east of UTC. For a name with several meanings, the most frequent one in feeds.
_ZONES = {
    **dict.fromkeys(("z", "ut", "utc", "gmt", "wet"), 0),
    **dict.fromkeys(("bst", "cet", "met", "mez", "west"), 60),
    **dict.fromkeys(("cest", "eet", "mesz", "mest", "sast"), 120),
    **dict.fromkeys(("eest", "msk"), 180),
    "ist": 330,
    **dict.fromkeys(("awst", "hkt", "sgt"), 480),
    **dict.fromkeys(("jst", "kst"), 540),
    "acst": 570,
    "aest": 600,
    "acdt": 630,
    "aedt": 660,
    "nzst": 720,
    "nzdt": 780,
    "ndt": -150,
    **dict.fromkeys(("adt", "art", "brt"), -180),
    "nst": -210,
    **dict.fromkeys(("ast", "edt"), -240),
    **dict.fromkeys(("cdt", "est"), -300),
    **dict.fromkeys(("cst", "mdt"), -360),
    **dict.fromkeys(("mst", "pdt"), -420),
    **dict.fromkeys(("akdt", "pst"), -480),
    "akst": -540,
    "hst": -600,
}
_MAX_OFFSET_MINUTES = 15 * 60

# The usual form of RFC 822 in feeds: "Tue, 05 Mar 2024 10:30:00 GMT", or with an offset in quarters of an hour.
_USUAL_WEEKDAYS = frozenset(("Mon,", "Tue,", "Wed,", "Thu,", "Fri,", "Sat,", "Sun,"))
_USUAL_MONTHS = {name.capitalize(): f"{number:02}" for name, number in _MONTH_NUMBERS.items()}
_USUAL_ZONES = {
    **dict.fromkeys(("GMT", "UTC", "Z"), "Z"),
    **{f"{sign}{h:02}{m:02}": f"{sign}{h:02}:{m:02}" for sign in "+-" for h in range(15) for m in (0, 15, 30, 45)},
}
_CLOCK = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:[.,]\d+)?)?(?:\s*(?P<half>[ap])\.?m\b\.?)?"
    r"(?:\s*\(?(?P<zone>[a-z]{1,5})?\s*(?P<sign>[+-])(?P<zone_hours>\d{1,2}):?(?P<zone_minutes>\d{2})?\b"
    r"|\s*\(?(?P<name>[a-z]{1,5})\b)?",
    re.IGNORECASE,
)
_NUMERIC_DAY = re.compile(r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d{2}))?")
_WORD_OR_NUMBER = re.compile(r"[a-z]+|\d+", re.IGNORECASE)
_LONGEST = 100


def parse_date(text: str) -> datetime | None:
    """Return the moment in UTC, or None if the text is no date. A day without a time is its midnight.

    Formats are RFC 822 with common mistakes, ISO 8601, W3CDTF, and English dates with words.
    """
    moment = parse_local_date(text)
    return moment.astimezone(UTC) if moment and moment.tzinfo is not UTC else moment


def parse_local_date(text: str) -> datetime | None:
    """Return the moment in the time zone of the text, so that its day is the author's day."""
    text = text.strip()
    if not text or len(text) > _LONGEST:
        return None
    try:
        return _in_range(_read_usual(text) or _read_loosely(text))
    except (ValueError, OverflowError):
        return None


def _read_usual(text: str) -> datetime | None:
    """Read ISO 8601 or the usual form of RFC 822. This is faster than the loose reader."""
    try:
        if text[0].isdecimal():
            return datetime.fromisoformat(text)
        weekday, day, month, year, clock, zone = text.split(" ")
        if weekday not in _USUAL_WEEKDAYS or clock[2:3] != ":" or len(clock) != len("10:30:00"):
            return None
        return datetime.fromisoformat(f"{year}-{_USUAL_MONTHS[month]}-{day}T{clock}{_USUAL_ZONES[zone]}")
    except (ValueError, KeyError):
        return None


def _read_loosely(text: str) -> datetime | None:
    clock = _CLOCK.search(text)
    # The rest of the text, without the time, is the day.
    day_text = text if clock is None else f"{text[: clock.start()]} {text[clock.end() :]}"
    day = _numeric_day(day_text) or _day_in_words(day_text)
    if day is None:
        return None
    return day if clock is None else _at(day, clock)


def _numeric_day(text: str) -> datetime | None:
    if match := _NUMERIC_DAY.search(text):
        return datetime(int(match[1]), int(match[2]), int(match[3]), tzinfo=UTC)
    if match := _YEAR_OR_MONTH.fullmatch(text):
        return datetime(int(match[1]), int(match[2] or 1), 1, tzinfo=UTC)
    return None


def _day_in_words(text: str) -> datetime | None:
    month, numbers = None, []
    for word in _WORD_OR_NUMBER.findall(text.lower()):
        if word.isdecimal():
            numbers.append(word)
        elif month is None:
            month = _month(word)
    if month is None or len(numbers) != 2:
        return None
    day, year = numbers if len(numbers[0]) <= 2 else reversed(numbers)
    century = 0 if len(year) != 2 else 2000 if int(year) < 50 else 1900
    return datetime(century + int(year), month, int(day), tzinfo=UTC)


def _month(word: str) -> int | None:
    number = _MONTH_NUMBERS.get(word[:3])
    if number is None or not (_MONTHS[number - 1].startswith(word) or word == "sept"):
        return None
    return number


def _at(day: datetime, clock: re.Match[str]) -> datetime:
    hour, minute, second = int(clock["hour"]), int(clock["minute"]), int(clock["second"] or 0)
    if clock["half"]:
        if not 1 <= hour <= 12:
            raise ValueError("no hour of a half day")
        hour = hour % 12 + (12 if clock["half"] in "pP" else 0)
    if hour > 24 or minute > 59 or second > 60 or (hour == 24 and minute + second > 0):
        raise ValueError("no time of day")
    # 24:00 is the next midnight. A leap second becomes the second before it.
    moment = day + timedelta(hours=hour, minutes=minute, seconds=min(second, 59))
    return moment.replace(tzinfo=_zone(clock))


def _zone(clock: re.Match[str]) -> timezone:
    if clock["sign"]:
        minutes = int(clock["zone_hours"]) * 60 + int(clock["zone_minutes"] or 0)
        if minutes > _MAX_OFFSET_MINUTES:
            raise ValueError("no zone is that far from UTC")
        return timezone(timedelta(minutes=-minutes if clock["sign"] == "-" else minutes))
    # RFC 5322: a time in an unknown zone is read as UTC.
    return timezone(timedelta(minutes=_ZONES.get((clock["name"] or "").lower(), 0)))


def _in_range(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    year = moment.year if moment.tzinfo is UTC else moment.astimezone(UTC).year
    return moment if MIN_YEAR <= year <= MAX_YEAR else None


def check_timezone(name: str) -> None:
    """Raise a ValueError for a name that is no time zone."""
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise ValueError(f"{name!r} is not a time zone such as Europe/London") from None


def day_of(moment: datetime, timezone: str) -> date:
    """Return the local day of a moment."""
    return moment.astimezone(ZoneInfo(timezone)).date()


def day_before(moment: datetime, timezone: str) -> date:
    """Return the last local day that has ended at a moment."""
    return day_of(moment, timezone) - timedelta(days=1)


def bounds(day: date, timezone: str) -> tuple[datetime, datetime]:
    """Return the day's first moment and the next day's first moment, in UTC."""
    midnight = datetime.combine(day, time(0), ZoneInfo(timezone))
    # Some clocks skip midnight. The conversion to UTC then returns the first moment that exists.
    return midnight.astimezone(UTC), (midnight + timedelta(days=1)).astimezone(UTC)


def parse_moment(text: str, field: str, accepted: str = ACCEPTED_MOMENT) -> datetime:
    """Parse the day or time of an argument, in UTC unless it names a time zone. A day is its first moment."""
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise BadRequest(f"{field}: give {accepted}.") from None
