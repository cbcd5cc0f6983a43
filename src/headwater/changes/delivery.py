"""What an answer means for a delivery and its receiver (spec 4.4), and how a delivery is signed.

What a receiver refuses is parked. Everything else is tried again: it is the receiver, or we, who cannot just now. A
receiver that takes nothing at all is asked more and more seldom and loses nothing; a delivery that keeps failing while
others are taken is given up and parked too.
"""

import base64
import hmac
from datetime import datetime, timedelta

from headwater.core.backoff import retry_wait
from headwater.core.reasons import Reason, ReasonClass
from headwater.core.webhook import Answered, Delivery, DeliveryStatus, Settlement
from headwater.http.responses import reason_of_status

SECRET_PREFIX = "whsec_"  # noqa: S105 (what a secret begins with, for whoever meets one)
LONGEST_WAIT = timedelta(hours=1)
MOST_ATTEMPTS = 20
FAILURES_BEFORE_A_PAUSE = 3
_REFUSALS = (Reason.NOT_FOUND, Reason.GONE, Reason.HTTP_4XX, Reason.HTTP_ODD)


def reason_of_answer(status: int) -> Reason:
    """Say what a receiver's status means: 2xx is a yes, and nothing else is."""
    return Reason.DELIVERED if 200 <= status < 300 else reason_of_status(status) or Reason.HTTP_ODD


def settle(delivery: Delivery, answered: Answered, now: datetime, *, base_seconds: float, chance: float) -> Settlement:
    """Decide what becomes of a delivery; `chance` (0..1) spreads retries."""
    if answered.reason is Reason.DELIVERED:
        return Settlement(DeliveryStatus.DELIVERED, answered.reason, None, 0, None)
    if answered.reason in _REFUSALS:
        return Settlement(DeliveryStatus.PARKED, answered.reason, None, 0, None)
    if answered.reason.kind is ReasonClass.OURS:
        due_at = now + _wait(1, base_seconds, chance)
        return Settlement(DeliveryStatus.PENDING, answered.reason, due_at, delivery.failures, None, counts=False)
    failures = delivery.failures + 1
    asked = answered.retry_after or timedelta(0)
    pause = max(asked, _wait(failures - FAILURES_BEFORE_A_PAUSE + 1, base_seconds, chance))
    not_before = now + pause if asked or failures >= FAILURES_BEFORE_A_PAUSE else None
    if _is_hopeless(delivery):
        return Settlement(DeliveryStatus.PARKED, Reason.MAX_RETRIES, None, failures, not_before)
    due_at = now + max(asked, _wait(delivery.lease.attempts, base_seconds, chance))
    return Settlement(DeliveryStatus.PENDING, answered.reason, due_at, failures, not_before)


def _wait(times: int, base_seconds: float, chance: float) -> timedelta:
    return min(retry_wait(times, base_seconds, chance), LONGEST_WAIT)


def _is_hopeless(delivery: Delivery) -> bool:
    """Tell whether it has failed often enough, while its receiver took others: then the receiver is not down."""
    taken, failing = delivery.delivered_at, delivery.failing_since
    return delivery.lease.attempts >= MOST_ATTEMPTS and taken is not None and failing is not None and taken > failing


def shown_secret(secret: bytes) -> str:
    """Write a secret out, as receivers are given it."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def signature(secret: bytes, delivery_id: str, timestamp: int, body: bytes) -> str:
    """Sign a delivery as the Standard Webhooks convention has it."""
    signed = f"{delivery_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret, signed, "sha256")).decode()
