"""The health of a source (spec 3.2)."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.feeds.flaws import FeedFlaw
from headwater.sources.health import PollHistory, SourceHealth, assess_health

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
LOOK = timedelta(seconds=30)
WELL = PollHistory(
    added_at=NOW - timedelta(days=100),
    next_poll_at=NOW + timedelta(minutes=5),
    last_polled_at=NOW - timedelta(minutes=10),
    last_success_at=NOW - timedelta(minutes=10),
    last_new_at=NOW - timedelta(hours=3),
    usual_gap=timedelta(hours=2),
)
UNPOLLED = PollHistory(added_at=NOW, next_poll_at=NOW + timedelta(minutes=5))


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


moments = st.none() | st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))
any_polls = st.builds(
    PollHistory,
    added_at=st.datetimes(datetime(2025, 1, 1), datetime(2026, 3, 29), timezones=st.just(UTC)),
    enabled=st.booleans(),
    scheduled=st.booleans(),
    polling=st.booleans(),
    next_poll_at=moments,
    last_polled_at=moments,
    last_success_at=moments,
    consecutive_errors=st.integers(0, 20),
    last_error=st.none() | st.just("http://a.test/feed answered 500."),
    last_new_at=moments,
    flaws=st.lists(st.sampled_from(FeedFlaw)),
    failing_since=moments,
    usual_gap=st.none() | st.timedeltas(timedelta(0), timedelta(days=1000)),
)


@pytest.mark.parametrize(
    ("polls", "expected", "values"),
    [
        (WELL, SourceHealth.ON_TIME, ["10 minutes", "5 minutes"]),
        (replace(WELL, next_poll_at=NOW), SourceHealth.ON_TIME, ["10 minutes"]),
        (replace(WELL, polling=True), SourceHealth.ON_TIME, ["10 minutes"]),
        (replace(WELL, scheduled=True, next_poll_at=None), SourceHealth.ON_TIME, ["10 minutes", "schedule"]),
        (UNPOLLED, SourceHealth.NEW, ["5 minutes"]),
        (replace(UNPOLLED, next_poll_at=None), SourceHealth.NEW, ["request"]),
        (replace(UNPOLLED, next_poll_at=None, scheduled=True), SourceHealth.NEW, ["schedule"]),
        (replace(WELL, enabled=False, consecutive_errors=3), SourceHealth.DISABLED, []),
        (
            replace(WELL, consecutive_errors=1, last_error="http://a.test/feed answered 500."),
            SourceHealth.FAILING,
            ["once", "10 minutes", "http://a.test/feed answered 500."],
        ),
        (
            replace(UNPOLLED, last_polled_at=NOW, consecutive_errors=12, last_error="The answer is not a feed."),
            SourceHealth.FAILING,
            ["12 times", "never", "The answer is not a feed."],
        ),
        (replace(WELL, next_poll_at=ago(hours=3)), SourceHealth.LATE, ["3 hours"]),
        (replace(WELL, flaws=[FeedFlaw.TRUNCATED]), SourceHealth.FLAWED, [FeedFlaw.TRUNCATED.sentence, "5 minutes"]),
        (
            replace(WELL, consecutive_errors=2, last_error="No.", failing_since=ago(hours=3)),
            SourceHealth.FAILING,
            ["2026-03-29 09:00 UTC", "No.", "5 minutes"],
        ),
        (replace(WELL, last_new_at=ago(days=8)), SourceHealth.SILENT, ["8 days", "2 hours"]),
        (replace(WELL, last_new_at=None, usual_gap=None), SourceHealth.SILENT, ["100 days"]),
    ],
)
def test_each_history_has_a_health_and_its_reason_names_the_values(
    polls: PollHistory, expected: SourceHealth, values: list[str]
) -> None:
    verdict = assess_health(polls, NOW, LOOK)
    assert verdict.health is expected
    assert [value for value in values if value not in verdict.why] == []


@given(any_polls, st.timedeltas(timedelta(0), timedelta(hours=1)))
def test_every_reason_is_made_of_sentences(polls: PollHistory, look: timedelta) -> None:
    verdict = assess_health(polls, NOW, look)
    assert verdict.why[0].isupper()
    assert verdict.why.endswith(".")
    assert "None" not in verdict.why
    assert re.search(r"(?<!\d)-", verdict.why) is None, "no length of time is negative"


@given(any_polls)
def test_a_source_with_errors_is_failing_unless_it_is_disabled(polls: PollHistory) -> None:
    verdict = assess_health(polls, NOW, LOOK)
    if not polls.enabled:
        assert verdict.health is SourceHealth.DISABLED
    elif polls.consecutive_errors:
        assert verdict.health is SourceHealth.FAILING


def test_a_source_is_late_after_five_minutes_and_two_checks() -> None:
    grace = timedelta(minutes=5) + 2 * LOOK
    assert assess_health(replace(WELL, next_poll_at=NOW - grace), NOW, LOOK).health is SourceHealth.ON_TIME
    late = replace(WELL, next_poll_at=NOW - grace - timedelta(seconds=1))
    assert assess_health(late, NOW, LOOK).health is SourceHealth.LATE
    assert assess_health(late, NOW, LOOK * 2).health is SourceHealth.ON_TIME
    assert assess_health(replace(late, polling=True), NOW, LOOK).health is SourceHealth.ON_TIME


def test_a_source_that_waits_too_long_for_its_first_poll_is_late() -> None:
    assert assess_health(replace(UNPOLLED, next_poll_at=ago(hours=1)), NOW, LOOK).health is SourceHealth.LATE


@pytest.mark.parametrize(
    ("gap", "quiet", "expected"),
    [
        (timedelta(hours=2), 7.5, SourceHealth.SILENT),
        (timedelta(hours=2), 6.5, SourceHealth.ON_TIME),
        (timedelta(days=1), 9, SourceHealth.ON_TIME),
        (timedelta(days=1), 10.5, SourceHealth.SILENT),
        (timedelta(days=30), 290, SourceHealth.ON_TIME),
        (None, 29, SourceHealth.ON_TIME),
        (None, 31, SourceHealth.SILENT),
    ],
)
def test_silence_is_measured_by_the_usual_gap(gap: timedelta | None, quiet: float, expected: SourceHealth) -> None:
    polls = replace(WELL, usual_gap=gap, last_new_at=ago(days=quiet))
    assert assess_health(polls, NOW, LOOK).health is expected


def test_a_new_source_without_items_is_not_silent_yet() -> None:
    polls = replace(WELL, added_at=ago(days=1), last_new_at=None, usual_gap=None)
    assert assess_health(polls, NOW, LOOK).health is SourceHealth.ON_TIME


def test_a_source_without_recent_polls_is_not_silent() -> None:
    stopped = ago(days=20)
    polls = replace(WELL, last_polled_at=stopped, last_success_at=stopped, last_new_at=stopped - timedelta(hours=3))
    assert assess_health(polls, NOW, LOOK).health is SourceHealth.ON_TIME


def test_failures_on_our_side_are_failing_after_a_day() -> None:
    error = "Parsing the body took too long and was stopped."
    history = replace(WELL, last_error=error)
    for last_success_at, health, value in (
        (history.last_success_at, SourceHealth.ON_TIME, "10 minutes"),
        (ago(days=3), SourceHealth.FAILING, "3 days"),
    ):
        verdict = assess_health(replace(history, last_success_at=last_success_at), NOW, LOOK)
        assert (verdict.health, value in verdict.why, error in verdict.why) == (health, True, True)


def test_sources_sort_the_worst_first() -> None:
    named = sorted(SourceHealth, key=str)
    assert sorted(named, key=lambda one: one.rank) == [
        "failing",
        "late",
        "flawed",
        "silent",
        "new",
        "on_time",
        "disabled",
    ]
