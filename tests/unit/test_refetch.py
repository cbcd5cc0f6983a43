"""When a watched page is fetched again (spec 11.2)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.reasons import Reason
from headwater.core.refetch import (
    FetchEnd,
    RefetchPolicy,
    RefetchState,
    explain_refetch,
    learn,
    parse_policy,
    plan_refetch,
)

NOW = datetime(2026, 3, 12, 12, 0, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

intervals = st.integers(5, 365 * 24 * 60).map(lambda minutes: timedelta(minutes=minutes))
policies = st.tuples(intervals, intervals).map(lambda pair: RefetchPolicy(min(pair), max(pair)))
ends = st.lists(st.sampled_from(FetchEnd), max_size=60)


def after(policy: RefetchPolicy, history: list[FetchEnd]) -> RefetchState:
    state = learn(policy, RefetchState(), FetchEnd.FIRST)
    for end in history:
        state = learn(policy, state, end)
    return state


@given(policies, ends)
def test_the_bounds_always_hold(policy: RefetchPolicy, history: list[FetchEnd]) -> None:
    """A failed fetch may make the wait longer than the bound, but not the learned interval."""
    state = after(policy, history)
    wait = plan_refetch(policy, state, NOW) - NOW
    assert policy.shortest <= state.interval <= policy.longest
    assert policy.shortest <= wait <= max(policy.longest, 7 * DAY)
    assert state.failures or wait == state.interval


@given(policies, ends)
def test_an_unchanged_page_waits_longer_and_a_changed_one_shorter(
    policy: RefetchPolicy, history: list[FetchEnd]
) -> None:
    state = after(policy, history)
    unchanged = learn(policy, state, FetchEnd.UNCHANGED)
    changed = learn(policy, state, FetchEnd.CHANGED)
    assert changed.interval <= state.interval <= unchanged.interval
    assert unchanged.interval == policy.longest or unchanged.interval > state.interval
    assert changed.interval == policy.shortest or changed.interval < state.interval
    assert (changed.failures, unchanged.failures) == (0, 0)


@given(policies, ends)
def test_a_failure_waits_at_least_as_long_and_leaves_what_was_learned(
    policy: RefetchPolicy, history: list[FetchEnd]
) -> None:
    state = after(policy, history)
    failed = learn(policy, state, FetchEnd.FAILED)
    assert plan_refetch(policy, failed, NOW) >= plan_refetch(policy, state, NOW)
    assert (failed.interval, failed.quiet) == (state.interval, state.quiet)


@given(policies, ends, st.timedeltas(timedelta(0), 1000 * DAY))
def test_a_late_fetch_plans_one_next_fetch_and_makes_up_for_none(
    policy: RefetchPolicy, history: list[FetchEnd], late: timedelta
) -> None:
    """The next fetch counts from the fetch that was made, so it is never overdue from the start."""
    state = after(policy, history)
    assert plan_refetch(policy, state, NOW + late) - late == plan_refetch(policy, state, NOW) > NOW


@given(policies, policies, ends)
def test_a_new_policy_takes_over_what_was_learned_within_its_bounds(
    old: RefetchPolicy, new: RefetchPolicy, history: list[FetchEnd]
) -> None:
    state = after(old, history)
    wait = plan_refetch(new, RefetchState(state.interval), NOW) - NOW
    assert new.shortest <= wait <= new.longest


def test_a_page_that_changes_daily_is_fetched_about_twice_a_day() -> None:
    policy = parse_policy("adaptive")
    assert policy
    state, now, last_seen, fetches = RefetchState(), timedelta(0), 0, 0
    while now < 200 * DAY:
        now += plan_refetch(policy, state, NOW) - NOW
        seen, fetches = now // DAY, fetches + 1
        state = learn(policy, state, FetchEnd.CHANGED if seen > last_seen else FetchEnd.UNCHANGED)
        last_seen = seen
    assert 1.2 <= fetches / 200 <= 3


def test_policies_are_short_texts() -> None:
    assert parse_policy("never") is None
    assert parse_policy("every 6h") == RefetchPolicy(6 * HOUR, 6 * HOUR)
    assert parse_policy("adaptive") == RefetchPolicy(HOUR, 30 * DAY)
    assert parse_policy("adaptive 30m to 7d") == RefetchPolicy(HOUR / 2, 7 * DAY)


@pytest.mark.parametrize(
    "text",
    ["", "6h", "every", "every 6", "every 6 h", "every 4m", "every 366d", "every 999999d", "adaptive 7d to 1h",
     "adaptive 1h", "adaptive 4m to 1h", "adaptive 1h to 366d", "Never", " never", "every -1h", "every ٦h"],
)  # fmt: skip
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="^must "):
        parse_policy(text)


def test_the_plan_is_explained_by_what_decided_it() -> None:
    adaptive, fixed = parse_policy("adaptive 2h to 7d"), parse_policy("every 6h")
    assert adaptive
    assert fixed
    assert "6 hours" in explain_refetch(fixed, RefetchState(), Reason.STORED)
    assert "3 fetches" in explain_refetch(adaptive, RefetchState(2 * DAY, quiet=3), Reason.UNCHANGED)
    assert "2 times" in explain_refetch(fixed, RefetchState(6 * HOUR, failures=2), Reason.NOT_FOUND)
    assert "(410)" in explain_refetch(fixed, RefetchState(6 * HOUR, failures=1), Reason.GONE)
