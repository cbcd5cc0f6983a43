"""When a slot may be run again (spec 1.2, 6.5)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.reasons import Reason
from headwater.core.slot_state import MOST_FAILED, MOST_LOST, PastRun, Standing, standing

NOW = datetime(2026, 7, 14, 1, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)


def may_run(past: list[PastRun], now: datetime) -> bool:
    return standing(past, now) is Standing.FREE


def test_a_slot_that_nobody_ran_may_be_run() -> None:
    assert may_run([], NOW)


@pytest.mark.parametrize("reason", [None, Reason.POLLED, Reason.HTTP_4XX, Reason.BAD_SOURCE])
def test_one_that_is_run_or_done_or_failed_for_good_may_not(reason: Reason | None) -> None:
    assert not may_run([PastRun(reason, LONG_AGO)], NOW)


def test_one_that_failed_for_a_passing_reason_rests_and_rests_longer_each_time() -> None:
    past: list[PastRun] = []
    waits = []
    for _ in range(MOST_FAILED):
        past.append(PastRun(Reason.HTTP_5XX, NOW))
        waits.append(
            next((minutes for minutes in range(1000) if may_run(past, NOW + timedelta(minutes=minutes))), None)
        )
    assert waits == [10, 20, 40, 80, None]


def test_one_that_lost_its_process_is_run_again_at_once_but_not_for_ever() -> None:
    lost = PastRun(Reason.WORKER_LOST, NOW)
    assert [may_run([lost] * times, NOW) for times in range(1, MOST_LOST + 1)] == [True] * (MOST_LOST - 1) + [False]


@given(st.lists(st.sampled_from(list(Reason)), max_size=8))
def test_a_stop_costs_nothing(reasons: list[Reason]) -> None:
    past = [PastRun(reason, LONG_AGO) for reason in reasons]
    stopped = PastRun(Reason.SHUTDOWN, LONG_AGO)
    assert may_run([stopped, *past, stopped], NOW) == may_run(past, NOW)
