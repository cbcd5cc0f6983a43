"""The sentences about hosts that get no request for a while (issue 20)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.host_wait import HostWait
from headwater.core.reasons import Reason

NOW = datetime(2026, 3, 29, 21, 26, tzinfo=UTC)
SOON = NOW + timedelta(minutes=10)
AGO = NOW - timedelta(minutes=2)


def test_a_wait_names_its_end_its_cause_and_the_command_that_ends_it() -> None:
    wait = HostWait("news.test", SOON, Reason.DNS, AGO)
    assert wait.explain(NOW) == (
        "news.test is left alone until 21:36 UTC, because its name was not found 2 minutes ago; "
        "now: `headwater frontier release news.test`."
    )


def test_a_stored_sentence_has_whole_times() -> None:
    written = str(HostWait("news.test", SOON, Reason.DNS, AGO))
    assert "2026-03-29 21:36 UTC" in written
    assert "2026-03-29 21:24 UTC" in written
    assert "ago" not in written


@pytest.mark.parametrize(
    ("wait", "values"),
    [
        (HostWait("a.test", None, Reason.HOST_CLOSED), ["until it is released", "operator"]),
        (HostWait("a.test", NOW + timedelta(days=1), Reason.RATE_LIMITED), ["2026-03-30 21:26 UTC", "fewer requests"]),
        (HostWait("a.test", SOON, Reason.TIMEOUT, AGO, is_gone=True), ["7 days", "2 minutes ago"]),
    ],
)
def test_each_wait_names_its_values(wait: HostWait, values: list[str]) -> None:
    assert [value for value in values if value not in wait.explain(NOW)] == []


@given(st.sampled_from(Reason), st.none() | st.timedeltas(timedelta(0), timedelta(days=9)), st.booleans())
def test_any_reason_makes_a_sentence(reason: Reason, ago: timedelta | None, is_gone: bool) -> None:
    wait = HostWait("a.test", SOON, reason, None if ago is None else NOW - ago, is_gone)
    for written in (wait.explain(NOW), str(wait)):
        assert written.startswith("a.test is left alone until ")
        assert written.endswith("`headwater frontier release a.test`.")
        assert "None" not in written
