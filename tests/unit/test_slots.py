"""The state of a slot after its past runs (spec 1.2, 6.5)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.reasons import Reason
from headwater.core.slot_state import MAX_FAILED, MAX_LOST, PastRun, SlotState, read_slot_state

NOW = datetime(2026, 7, 14, 1, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)


def is_free(past: list[PastRun], now: datetime) -> bool:
    return read_slot_state(past, now) is SlotState.FREE


def test_a_slot_without_runs_is_free() -> None:
    assert is_free([], NOW)


@pytest.mark.parametrize("reason", [None, Reason.POLLED, Reason.HTTP_4XX, Reason.BAD_SOURCE])
def test_a_slot_is_closed_after_a_success_or_a_permanent_failure(reason: Reason | None) -> None:
    assert not is_free([PastRun(reason, LONG_AGO)], NOW)


def test_the_wait_doubles_with_each_temporary_failure() -> None:
    past: list[PastRun] = []
    waits = []
    for _ in range(MAX_FAILED):
        past.append(PastRun(Reason.HTTP_5XX, NOW))
        waits.append(
            next((minutes for minutes in range(1000) if is_free(past, NOW + timedelta(minutes=minutes))), None)
        )
    assert waits == [10, 20, 40, 80, None]


def test_a_slot_that_lost_its_process_is_free_at_once_but_only_a_few_times() -> None:
    lost = PastRun(Reason.WORKER_LOST, NOW)
    assert [is_free([lost] * times, NOW) for times in range(1, MAX_LOST + 1)] == [True] * (MAX_LOST - 1) + [False]


@given(st.lists(st.sampled_from(list(Reason)), max_size=8))
def test_a_stopped_run_does_not_count(reasons: list[Reason]) -> None:
    past = [PastRun(reason, LONG_AGO) for reason in reasons]
    stopped = PastRun(Reason.SHUTDOWN, LONG_AGO)
    assert is_free([stopped, *past, stopped], NOW) == is_free(past, NOW)
