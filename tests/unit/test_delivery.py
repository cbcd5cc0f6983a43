"""The decision after an attempt to deliver (spec 4.4), and the signature of a delivery (spec 8.5)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.changes.outbox import FAILURES_BEFORE_A_PAUSE, LONGEST_WAIT, MOST_ATTEMPTS, settle
from headwater.changes.webhooks import classify_status, format_secret, sign
from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.db.changes import Change, ClaimedDelivery, DeliveryStatus, Event, FailedJob, Receiver, SendResult
from headwater.db.messages import AlarmKind, AlarmMessage

NOON = datetime(2026, 3, 12, 12, tzinfo=UTC)
ANY_ANSWER = st.sampled_from([classify_status(status) for status in range(100, 600)] + list(Reason))


def delivery(
    *, attempts: int = 1, failures: int = 0, taken: datetime | None = None, failing: datetime | None = None
) -> ClaimedDelivery:
    job = FailedJob(1, "x", Reason.GONE, "Gone.")
    change = Change(Event.JOB_FAILED, "failed", "c1", NOON, "http://news.test/a", "news", None, None, job)
    lease = Lease("me", uuid4(), NOON, attempts)
    return ClaimedDelivery(uuid4(), Receiver("hook", "http://a.test/", b"x"), change, lease, failures, taken, failing)


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
def test_a_status_decides_the_next_state(status: int, ends: DeliveryStatus) -> None:
    """Spec 4.4."""
    answered = SendResult(classify_status(status), 1, status)
    assert settle(delivery(), answered, NOON, base_seconds=60, chance=0).status is ends


@given(
    reason=ANY_ANSWER,
    attempts=st.integers(1, 1000),
    failures=st.integers(0, 1000),
    chance=st.floats(0, 1),
    asked=st.none() | st.timedeltas(timedelta(0), timedelta(days=1)),
)
def test_a_receiver_that_takes_nothing_loses_nothing(
    reason: Reason, attempts: int, failures: int, chance: float, asked: timedelta | None
) -> None:
    """Spec 4.4: a failed delivery waits at most an hour, or as long as the receiver asks."""
    settlement = settle(
        delivery(attempts=attempts, failures=failures, failing=NOON),
        SendResult(reason, 1, retry_after=asked),
        NOON,
        base_seconds=60,
        chance=chance,
    )
    if settlement.status is DeliveryStatus.PENDING:
        assert settlement.due_at
        longest = max(LONGEST_WAIT, asked or timedelta(0))
        assert NOON < settlement.due_at <= NOON + longest
        assert settlement.not_before is None or settlement.not_before <= NOON + longest
        assert (settlement.not_before is not None) >= (
            settlement.failures >= FAILURES_BEFORE_A_PAUSE and settlement.is_charged
        )
        assert not asked or not settlement.is_charged or settlement.due_at >= NOON + asked
    else:
        assert settlement.failures == 0
        assert (settlement.status is DeliveryStatus.DELIVERED) == (reason is Reason.DELIVERED)


@pytest.mark.parametrize(
    ("attempts", "taken", "ends"),
    [
        (MOST_ATTEMPTS, NOON + timedelta(seconds=1), DeliveryStatus.PARKED),
        (MOST_ATTEMPTS - 1, NOON + timedelta(seconds=1), DeliveryStatus.PENDING),
        (MOST_ATTEMPTS, NOON - timedelta(seconds=1), DeliveryStatus.PENDING),
        (MOST_ATTEMPTS, None, DeliveryStatus.PENDING),
    ],
)
def test_a_delivery_is_given_up_only_if_others_are_taken(
    attempts: int, taken: datetime | None, ends: DeliveryStatus
) -> None:
    """Spec 4.4."""
    failing = delivery(attempts=attempts, taken=taken, failing=NOON)
    settled = settle(failing, SendResult(Reason.HTTP_5XX, 1, 500), NOON, base_seconds=60, chance=0)
    assert settled.status is ends
    assert (settled.reason is Reason.MAX_RETRIES) == (ends is DeliveryStatus.PARKED)


@pytest.mark.parametrize(("attempts", "ends"), [(MOST_ATTEMPTS, "parked"), (MOST_ATTEMPTS - 1, "pending")])
@pytest.mark.parametrize("reason", [Reason.NETWORK, Reason.TIMEOUT, Reason.MAIL_DEFERRED])
def test_an_alarm_is_given_up_though_no_other_was_taken(attempts: int, ends: str, reason: Reason) -> None:
    """Later alarms and digests wait for it."""
    alarm = AlarmMessage("alarm", "began", AlarmKind.DISK_LOW, "here", "Full.", NOON, None)
    failing = replace(delivery(attempts=attempts, failing=NOON), message=alarm)
    assert settle(failing, SendResult(reason, 1), NOON, base_seconds=60, chance=0).status == ends


@pytest.mark.parametrize("reason", [Reason.OFFLINE, Reason.INTERNAL])
def test_a_fault_on_our_side_is_not_charged_to_the_receiver(reason: Reason) -> None:
    settled = settle(
        delivery(attempts=99, failures=2, taken=NOON, failing=NOON - timedelta(1)),
        SendResult(reason, 1),
        NOON,
        base_seconds=60,
        chance=0,
    )
    assert (settled.status, settled.failures, settled.is_charged) == (DeliveryStatus.PENDING, 2, False)
    assert settled.due_at == NOON + timedelta(seconds=60)


def test_a_signature_follows_the_convention() -> None:
    """Spec 8.5: `openssl dgst -sha256 -mac HMAC` returns the same value for id, time and body."""
    secret = bytes(range(32))
    assert sign(secret, "d1", 1700000000, b'{"a":1}') == "v1,pTz5n94n4eiE+O1YDcNZG0VvX76JbBHE8iFH0nP86Rg="
    assert format_secret(secret) == "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def test_the_text_form_of_a_delivery_does_not_have_the_secret() -> None:
    shown = repr(
        ClaimedDelivery(UUID(int=1), Receiver("n", "u", b"hidden"), delivery().message, delivery().lease, 0, None, None)
    )
    assert "hidden" not in shown
