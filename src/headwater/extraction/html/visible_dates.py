"""Find days in the text of pages, in about twenty languages. A time without a time zone is ignored.

A day after words such as "closes on" is a deadline, and no date of publication.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from headwater.core.dates import MAX_YEAR, MIN_YEAR

# The first letters of the months, in about twenty languages.
_MONTHS = [
    "jan jän ene gen янв січ sty oca ιαν led ينا",  # noqa: RUF001
    "feb fév fev фев лют lut şub φεβ úno فبر",
    "mar mär mrt мар бер maa μαρ bře مار",  # noqa: RUF001
    "apr avr abr апр кві kwi nis απρ dub أبر ابر",
    "may mai maj mag mei май мая тра máj μαι kvě ماي",
    "jun juin giu июн чер cze haz ιουν červn يون",  # noqa: RUF001
    "jul juil lug июл лип lip tem ιουλ červe يول",
    "aug aou aoû ago авг сер sie ağu αυγ srp أغس اغس",  # noqa: RUF001
    "sep set сен вер wrz eyl σεπ zář سبت",
    "oct okt out ott окт жов paź eki οκτ říj أكت اكت",
    "nov ноя лис kas νοε lis نوف",
    "dec dez déc dic дек гру gru ara δεκ pro ديس",  # noqa: RUF001
]
_MONTH_OF = {start: number for number, starts in reversed(list(enumerate(_MONTHS, 1))) for start in starts.split()}
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_PATTERNS = [
    re.compile(pattern)
    for pattern in (
        rf"(?<!\d){_YEAR}\s?[-/.年]\s?(?P<month>\d\d?)\s?[-/.月]\s?(?P<day>\d\d?)(?!\d)",
        rf"(?<!\d)(?P<day>\d\d?)\s?[./-]\s?(?P<month>\d\d?)\s?[./-]\s?{_YEAR}(?!\d)",
        rf"(?<!\d)(?P<day>\d\d?)(?:\.|st|nd|rd|th|er|º)?[\s-]+(?:de |di )?(?P<name>[^\W\d_]{{3,12}})\.?,?[\s-]+"
        rf"(?:de |del )?{_YEAR}",
        rf"(?P<name>[^\W\d_]{{3,12}})\.?\s+(?P<day>\d\d?)(?:st|nd|rd|th)?,?\s+{_YEAR}",
        r"(?<!\d)(?P<day>\d\d)\.(?P<month>\d\d)\.(?P<short>[012]\d)(?!\d)",
    )
]
# In the United States. It comes before the other patterns that match the same characters.
_MONTH_FIRST = re.compile(rf"(?<!\d)(?P<month>\d\d?)\s?[/-]\s?(?P<day>\d\d?)\s?[/-]\s?{_YEAR}(?!\d)")
_IN_ADDRESS = re.compile(r"/((?:19|20)\d\d)[/-]?([01]\d)[/-]?([0-3]\d)(?!\d)")
# Words before a deadline, or before the day on which something ends, in seven languages. A word of publication between
# them and the day ends their effect.
_DEADLINE = re.compile(
    r"\b(?:clos(?:es?|ed|ing)|deadline|due|expir(?:es|ed|y|ation)|ends?|ending|until|till|effective"
    r"|valid (?:to|through)|(?:apply|submit|respond|reply|register) by"
    r"|frist|endet|bis|g\xfcltig|\w+schluss|date limite|cl\xf4ture|jusqu['\u2019]au|\xe9ch\xe9ance"
    r"|fecha l\xedmite|cierre|hasta|vence|plazo|scadenza|entro|fino al|sluit|sluitingsdatum|uiterlijk|prazo|at\xe9)\b"
    r"(?:(?!publi|post|updat|issued|ver\xf6ff|pubbl)[^.;!?]){0,40}$",
    re.IGNORECASE,
)
_LABEL_LENGTH = 60
# A part of all of these patterns that is fast to find.
_MAY_HOLD_ONE = re.compile(r"\d\d(?:\d\d|\.\d\d\.)")
# Arabic and Persian digits.
_OTHER_DIGITS = re.compile("[\u0660-\u0669\u06f0-\u06f9]")
_DIGITS = {first + digit: str(digit) for first in (0x660, 0x6F0) for digit in range(10)}


def date_in_address(url: str) -> str | None:
    """Return the day in an address, which is usual in addresses of news."""
    found = _IN_ADDRESS.search(url)
    return "-".join(found.groups()) if found else None


def first_date(texts: Iterable[str], *, month_first: bool = False) -> datetime | None:
    """Return the first day in the texts. `month_first` reads 11/02/2026 as the second of November."""
    patterns = [_MONTH_FIRST, *_PATTERNS] if month_first else _PATTERNS
    label = ""
    for text in texts:
        is_plain = text.isascii() or not _OTHER_DIGITS.search(text)
        if day := _read(text if is_plain else text.translate(_DIGITS), patterns, label):
            return day
        label = text if len(text) <= _LABEL_LENGTH else ""
    return None


def is_deadline(before: str) -> bool:
    """Return whether the text before a day says that it is a deadline."""
    return _DEADLINE.search(before[-2 * _LABEL_LENGTH :].rstrip(" :")) is not None


def _read(text: str, patterns: Sequence[re.Pattern[str]], label: str) -> datetime | None:
    """Return the first day in a text that is no deadline. `label` is the short text before it."""
    if not _MAY_HOLD_ONE.search(text):
        return None
    found = [match for pattern in patterns for match in pattern.finditer(text)]
    for match in sorted(found, key=lambda match: match.start()):
        before = text[max(0, match.start() - _LABEL_LENGTH) : match.start()]
        if (day := _day(match)) and not is_deadline(before if before.strip() else label):
            return day
    return None


def _day(match: re.Match[str]) -> datetime | None:
    parts = match.groupdict()
    year = int(parts["year"]) if parts.get("year") else 2000 + int(parts["short"])
    month = _month(parts["name"]) if parts.get("name") else int(parts["month"])
    day = int(parts["day"])
    if month and month > 12 >= day:  # 10/31/2020, or 31/10/2020 if the month is first
        month, day = day, month
    if not month or not MIN_YEAR <= year <= MAX_YEAR:
        return None
    try:
        return datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return None


def _month(name: str) -> int | None:
    name = name.lower()
    return next((_MONTH_OF[name[:size]] for size in (5, 4, 3) if name[:size] in _MONTH_OF), None)
