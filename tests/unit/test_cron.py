"""Cron slots (spec 1.2): a repeated local time runs once, a skipped one at the gap's end."""

import itertools
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core import cron

ZONES = ["Europe/London", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]


def slots(schedule: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    found = []
    while (start := cron.next_slot(schedule, zone, start)) <= end:
        found.append(start)
    return found


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def test_zero_and_seven_are_sunday() -> None:
    sunday = utc(2026, 3, 15)
    for schedule in ("0 0 * * 0", "0 0 * * 7"):
        assert cron.next_slot(schedule, "UTC", utc(2026, 3, 12)) == sunday


def test_a_repeated_local_time_runs_once() -> None:
    """01:30 London comes twice on 25 October 2026; its first coming is the slot."""
    found = slots("30 1 * * *", "Europe/London", utc(2026, 10, 24, 12), utc(2026, 10, 26, 12))
    assert found == [utc(2026, 10, 25, 0, 30), utc(2026, 10, 26, 1, 30)]


def test_a_skipped_local_time_runs_at_the_gaps_end() -> None:
    """01:30 London does not exist on 29 March 2026; the gap ends at 01:00 UTC."""
    found = slots("30 1 * * *", "Europe/London", utc(2026, 3, 28, 12), utc(2026, 3, 30, 12))
    assert found == [utc(2026, 3, 29, 1, 0), utc(2026, 3, 30, 0, 30)]


def test_two_local_times_inside_one_gap_are_one_slot() -> None:
    found = slots("15,45 2 * * *", "America/New_York", utc(2026, 3, 7, 12), utc(2026, 3, 8, 12))
    assert found == [utc(2026, 3, 8, 7, 0)]


@pytest.mark.parametrize("schedule", ["not a cron", "", "61 * * * *", "* * * *", "0 0 32 2 *", "0 0 31 13 *"])
def test_an_invalid_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(schedule))):
        cron.check(schedule)


@pytest.mark.parametrize(
    "schedule", ["0 0 30 2 *", "0 0 31 2 *", "0 0 30,31 2 *", "0 0 31 FEB,APR *", "5/10 0 31 4,6 *", "0 0 */15 * 1#2"]
)
def test_a_schedule_that_never_fires_is_refused(schedule: str) -> None:
    """It can be read, but no month that it names has such a day."""
    with pytest.raises(ValueError, match=f"^{re.escape(repr(schedule))}.* never fires"):
        cron.check(schedule)


@pytest.mark.parametrize("schedule", ["0 0 29 2 *", "0 0 L 2 *", "0 0 31 1,2 *", "0 0 31 2 1"])
def test_a_schedule_that_fires_rarely_is_accepted(schedule: str) -> None:
    cron.check(schedule)


@given(
    st.sampled_from(["0 2 * * *", "*/20 * * * *", "30 1 * * 0", "15,45 2 * * *", "0 0 1 * *", "5 1-3 * * *"]),
    st.sampled_from(ZONES),
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 12, 31)),
)
def test_next_and_last_slot_agree(schedule: str, zone: str, naive: datetime) -> None:
    moment = naive.replace(tzinfo=UTC, microsecond=0)
    following = cron.next_slot(schedule, zone, moment)
    assert following > moment
    assert cron.last_slot(schedule, zone, following) == following
    last = cron.last_slot(schedule, zone, moment)
    assert last is not None
    assert last <= moment
    assert cron.next_slot(schedule, zone, last) == following


@given(st.sampled_from(ZONES), st.datetimes(datetime(2025, 1, 1), datetime(2027, 12, 31)))
def test_a_daily_schedule_has_one_slot_on_every_local_day(zone: str, naive: datetime) -> None:
    """Compared with a plain model: one slot for each day of the zone, also when clocks change."""
    start = naive.replace(tzinfo=UTC, hour=12, minute=0, second=0, microsecond=0)
    found = slots("30 1 * * *", zone, start, start + timedelta(days=10))
    local_days = [slot.astimezone(ZoneInfo(zone)).date() for slot in found]
    assert local_days == sorted(set(local_days))
    assert all(later - earlier == timedelta(days=1) for earlier, later in itertools.pairwise(local_days))
