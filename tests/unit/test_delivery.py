"""What an answer means for a delivery and its receiver (spec 4.4), and how a delivery is signed (spec 8.5)."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.changes.delivery import (
    FAILURES_BEFORE_A_PAUSE,
    LONGEST_WAIT,
    MOST_ATTEMPTS,
    reason_of_answer,
    settle,
    shown_secret,
    signature,
)
from headwater.core.change import Change, FailedJob
from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.core.webhook import Answered, Delivery, DeliveryStatus, Receiver

NOON = datetime(2026, 3, 12, 12, tzinfo=UTC)
ANY_ANSWER = st.sampled_from([reason_of_answer(status) for status in range(100, 600)] + list(Reason))


def delivery(
    *, attempts: int = 1, failures: int = 0, taken: datetime | None = None, failing: datetime | None = None
) -> Delivery:
    change = Change(1, NOON, "http://news.test/a", "news", job=FailedJob(1, "x", Reason.GONE))
    lease = Lease("me", uuid4(), NOON, attempts)
    return Delivery(uuid4(), Receiver("hook", "http://a.test/", b"x"), change, lease, failures, taken, failing)


@pytest.mark.parametrize(
    ("status", "ends"),
    [
        (200, DeliveryStatus.DELIVERED),
        (204, DeliveryStatus.DELIVERED),
        (299, DeliveryStatus.DELIVERED),
        (301, DeliveryStatus.PARKED),
        (304, DeliveryStatus.PARKED),
        (400, DeliveryStatus.PARKED),
        (401, DeliveryStatus.PARKED),
        (404, DeliveryStatus.PARKED),
        (408, DeliveryStatus.PENDING),
        (410, DeliveryStatus.PARKED),
        (425, DeliveryStatus.PENDING),
        (429, DeliveryStatus.PENDING),
        (500, DeliveryStatus.PENDING),
        (503, DeliveryStatus.PENDING),
    ],
)
def test_a_status_ends_a_delivery_or_does_not(status: int, ends: DeliveryStatus) -> None:
    """Spec 4.4."""
    answered = Answered(reason_of_answer(status), 1, status)
    assert settle(delivery(), answered, NOON, base_seconds=60, chance=0).status is ends


@given(
    reason=ANY_ANSWER,
    attempts=st.integers(1, 1000),
    failures=st.integers(0, 1000),
    chance=st.floats(0, 1),
    asked=st.none() | st.timedeltas(timedelta(0), timedelta(days=1)),
)
def test_whatever_comes_a_receiver_that_takes_nothing_loses_nothing(
    reason: Reason, attempts: int, failures: int, chance: float, asked: timedelta | None
) -> None:
    """Spec 4.4: what it does not refuse waits, never longer than an hour unless it asks for that."""
    given_up = settle(
        delivery(attempts=attempts, failures=failures, failing=NOON),
        Answered(reason, 1, retry_after=asked),
        NOON,
        base_seconds=60,
        chance=chance,
    )
    if given_up.status is DeliveryStatus.PENDING:
        assert given_up.due_at
        longest = max(LONGEST_WAIT, asked or timedelta(0))
        assert NOON < given_up.due_at <= NOON + longest
        assert given_up.not_before is None or given_up.not_before <= NOON + longest
        assert (given_up.not_before is not None) >= (given_up.failures >= FAILURES_BEFORE_A_PAUSE and given_up.counts)
        assert not asked or not given_up.counts or given_up.due_at >= NOON + asked
    else:
        assert given_up.failures == 0
        assert (given_up.status is DeliveryStatus.DELIVERED) == (reason is Reason.DELIVERED)


@pytest.mark.parametrize(
    ("attempts", "taken", "ends"),
    [
        (MOST_ATTEMPTS, NOON + timedelta(seconds=1), DeliveryStatus.PARKED),
        (MOST_ATTEMPTS - 1, NOON + timedelta(seconds=1), DeliveryStatus.PENDING),
        (MOST_ATTEMPTS, NOON - timedelta(seconds=1), DeliveryStatus.PENDING),
        (MOST_ATTEMPTS, None, DeliveryStatus.PENDING),
    ],
)
def test_only_what_fails_while_others_are_taken_is_given_up(
    attempts: int, taken: datetime | None, ends: DeliveryStatus
) -> None:
    """Spec 4.4."""
    failing = delivery(attempts=attempts, taken=taken, failing=NOON)
    settled = settle(failing, Answered(Reason.HTTP_5XX, 1, 500), NOON, base_seconds=60, chance=0)
    assert settled.status is ends
    assert (settled.reason is Reason.MAX_RETRIES) == (ends is DeliveryStatus.PARKED)


@pytest.mark.parametrize("reason", [Reason.OFFLINE, Reason.INTERNAL])
def test_what_is_our_own_fault_is_not_charged_to_the_receiver(reason: Reason) -> None:
    settled = settle(
        delivery(attempts=99, failures=2, taken=NOON, failing=NOON - timedelta(1)),
        Answered(reason, 1),
        NOON,
        base_seconds=60,
        chance=0,
    )
    assert (settled.status, settled.failures, settled.counts) == (DeliveryStatus.PENDING, 2, False)
    assert settled.due_at == NOON + timedelta(seconds=60)


def test_a_signature_is_that_of_the_convention() -> None:
    """Spec 8.5: as `openssl dgst -sha256 -mac HMAC` works it out over the id, the time and the body."""
    secret = bytes(range(32))
    assert signature(secret, "d1", 1700000000, b'{"a":1}') == "v1,pTz5n94n4eiE+O1YDcNZG0VvX76JbBHE8iFH0nP86Rg="
    assert shown_secret(secret) == "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def test_a_secret_is_not_in_what_is_printed_of_a_delivery() -> None:
    shown = repr(
        Delivery(UUID(int=1), Receiver("n", "u", b"hidden"), delivery().change, delivery().lease, 0, None, None)
    )
    assert "hidden" not in shown
