"""A webhook: a receiver that is told of changes, and one delivery to it."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from headwater.core.change import Change
from headwater.core.lease import Lease
from headwater.core.reasons import Reason


class DeliveryStatus(StrEnum):
    """Where a delivery stands."""

    PENDING = "pending"
    DELIVERED = "delivered"
    PARKED = "parked"  # the receiver will not have it: it waits for an operator, and nothing waits for it
    DISMISSED = "dismissed"  # an operator let it be, or a later one of the same document or job was taken


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where to, and what it is signed with."""

    name: str
    url: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery that is ours until the lease ends.

    `failures` counts those of its receiver in a row, `delivered_at` is when that took something last, and
    `failing_since` when this one failed for the first time.
    """

    id: UUID
    receiver: Receiver
    change: Change
    lease: Lease
    failures: int
    delivered_at: datetime | None
    failing_since: datetime | None


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of an attempt to deliver; `retry_after` is how long the receiver asks to be left alone."""

    reason: Reason
    elapsed_ms: int
    http_status: int | None = None
    detail: str | None = None
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """What becomes of a delivery after an attempt, and of its receiver: `failures` in a row, left alone `not_before`.

    `counts`: whether it was an attempt at all, and not we who could not.
    """

    status: DeliveryStatus
    reason: Reason
    due_at: datetime | None
    failures: int
    not_before: datetime | None
    counts: bool = True
