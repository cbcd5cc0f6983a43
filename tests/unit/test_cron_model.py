"""Cron slots against a plain model that looks at every minute, across changes of the clocks (spec 1.2)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headwater.core import cron

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
ZONES = ["Europe/London", "America/New_York"]
NAMES = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


def changes(zone: str) -> Iterator[datetime]:
    """The moments of four years at which a zone's clocks are changed, as UTC."""
    hour = datetime(2025, 1, 1, tzinfo=UTC)
    while hour.year < 2029:
        later = hour + timedelta(hours=1)
        if hour.astimezone(ZoneInfo(zone)).utcoffset() != later.astimezone(ZoneInfo(zone)).utcoffset():
            yield later
        hour = later


CHANGES = [(zone, change) for zone in ZONES for change in changes(zone)]


def allowed(field: str, low: int, high: int) -> set[int]:
    """The numbers that a field of a schedule names."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        begin, end = (low, high) if span == "*" else (int(first), int(last or (high if step else first)))
        found.update(range(begin, end + 1, int(step or 1)))
    return found


class Model:
    """Whether a schedule names a minute of local time."""

    def __init__(self, schedule: str) -> None:
        minutes, hours, days, months, weekdays = schedule.split()
        for number, name in enumerate(NAMES):
            weekdays = weekdays.lower().replace(name, str(number))
        self.minutes, self.hours = allowed(minutes, 0, 59), allowed(hours, 0, 23)
        self.days, self.months = allowed(days, 1, 31), allowed(months, 1, 12)
        self.weekdays = {number % 7 for number in allowed(weekdays, 0, 7)}
        # Cron's own rule: if both are given, one of them is enough.
        self.either_day = not days.startswith("*") and not weekdays.startswith("*")

    def names(self, local: datetime) -> bool:
        by_date, by_weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        is_day = by_date or by_weekday if self.either_day else by_date and by_weekday
        return is_day and local.month in self.months and local.hour in self.hours and local.minute in self.minutes

    def slots(self, zone: str, start: datetime, end: datetime) -> list[datetime]:
        """The slots after one moment and up to another, found by looking at every minute."""
        found, before, moment = [], start.astimezone(ZoneInfo(zone)), start
        while moment < end:
            moment += MINUTE
            local = moment.astimezone(ZoneInfo(zone))
            skipped = local.utcoffset() - before.utcoffset()  # type: ignore[operator]
            missing = [local - number * MINUTE for number in range(1, skipped // MINUTE + 1)]
            if (self.names(local) and local.fold == 0) or any(self.names(passed) for passed in missing):
                found.append(moment)
            before = local
        return found


def some(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    spans = st.tuples(numbers, numbers).map(sorted).filter(lambda span: span[0] < span[1])
    return st.one_of(
        st.just("*"),
        numbers.map(str),
        st.lists(numbers, min_size=2, max_size=3).map(lambda chosen: ",".join(map(str, chosen))),
        spans.map("{0[0]}-{0[1]}".format),
        st.tuples(spans, st.integers(1, 7)).map("{0[0][0]}-{0[0][1]}/{0[1]}".format),
        st.integers(2, 30).map("*/{}".format),
    )


few_minutes = st.one_of(st.sampled_from(["0", "30", "59", "0,30", "15,45", "*/20"]), some(0, 59))
early_hours = st.one_of(st.sampled_from(["0", "1", "2", "3", "*", "1-3", "0,1,2"]), some(0, 23))
days = st.one_of(st.just("*"), st.just("*"), some(1, 31))
months = st.one_of(st.just("*"), st.just("*"), some(1, 12))
weekdays = st.one_of(
    st.just("*"), st.sampled_from(["0", "7", "0,7", "5-7", "0-2", "1-5", "sun", "MON-FRI", "sat,SUN"]), some(0, 7)
)
schedules = st.tuples(few_minutes, early_hours, days, months, weekdays).map(" ".join)


@settings(deadline=None, max_examples=120)
@given(schedules, st.sampled_from(CHANGES), st.integers(0, 2 * 24 * 60), st.integers(1, 4))
def test_slots_are_those_that_a_look_at_every_minute_finds(
    schedule: str, changing: tuple[str, datetime], minutes_before: int, length: int
) -> None:
    """Weekdays, a repeated local time once, a skipped one at the gap's end; in London and New York, both ways."""
    zone, change = changing
    start = change - minutes_before * MINUTE
    end = start + length * DAY
    try:
        cron.check(schedule)
    except ValueError:
        assume(False)
    expected = Model(schedule).slots(zone, start, end)
    found, moment = [], start
    while (moment := cron.next_slot(schedule, zone, moment)) <= end:
        found.append(moment)
    assert found == expected
    if expected:
        assert cron.last_slot(schedule, zone, end) == expected[-1]
        assert cron.last_slot(schedule, zone, expected[0]) == expected[0]


@pytest.mark.parametrize("schedule", ["* * * * * *", "0 * * *", "@daily"])
def test_a_text_without_five_fields_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError, match="is not a cron schedule"):
        cron.check(schedule)
