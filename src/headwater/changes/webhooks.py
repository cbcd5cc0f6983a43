"""One delivery over HTTP: signed, to an address that the guard has passed, and no redirect followed (spec 4.3, 8.5)."""

import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from headwater.changes.delivery import reason_of_answer, signature
from headwater.core.backoff import retry_after
from headwater.core.change import Change
from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError, LeaseLost
from headwater.core.http import Limits
from headwater.core.reasons import Reason
from headwater.core.webhook import Answered, Receiver

if TYPE_CHECKING:
    from headwater.http.client import HttpClient, Permit

LONGEST_SECONDS = 15.0
_ANSWER_BYTES = 64 * 1024  # nothing of it is used


class Courier:
    """Brings deliveries."""

    def __init__(self, client: "HttpClient", clock: Clock, *, user_agent: str, lease_seconds: float) -> None:
        self._client = client
        self._clock = clock
        self._user_agent = user_agent
        seconds = min(LONGEST_SECONDS, lease_seconds / 2)  # well before somebody else may bring the same
        self._limits = Limits(read_seconds=seconds, total_seconds=seconds, body_bytes=_ANSWER_BYTES, cut=True)

    @property
    def longest(self) -> timedelta:
        """How long a send may take."""
        return timedelta(seconds=self._limits.total_seconds)

    async def bring(
        self, receiver: Receiver, delivery_id: UUID, change: Change, permit: "Permit | None" = None
    ) -> Answered:
        """Tell a receiver of a change and return what came of it; whatever fails is an answer too.

        `permit` is asked right before; the LeaseLost that it raises is passed on, and nothing is sent.
        """
        return await self._send(receiver, delivery_id, change.told(), permit)

    async def knock(self, receiver: Receiver, delivery_id: UUID, now: datetime) -> Answered:
        """Send a receiver something to try it by, which tells of nothing."""
        return await self._send(receiver, delivery_id, {"event": "test", "at": now})

    async def _send(
        self, receiver: Receiver, delivery_id: UUID, told: dict[str, object], permit: "Permit | None" = None
    ) -> Answered:
        body = msgspec.json.encode({"delivery": str(delivery_id), **told})
        timestamp = int(self._clock.now().timestamp())
        headers = {
            "Content-Type": "application/json",
            "Webhook-Id": str(delivery_id),
            "Webhook-Timestamp": str(timestamp),
            "Webhook-Signature": signature(receiver.secret, str(delivery_id), timestamp, body),
        }
        began = time.monotonic()
        try:
            answer = await self._client.post(
                receiver.url, body, user_agent=self._user_agent, headers=headers, limits=self._limits, permit=permit
            )
        except LeaseLost:
            raise
        except HeadwaterError as error:
            return Answered(error.reason, _milliseconds_since(began), detail=str(error))
        reason = reason_of_answer(answer.status)
        asked = retry_after(answer.headers.get("retry-after"), self._clock.now())
        return Answered(
            reason,
            _milliseconds_since(began),
            http_status=answer.status,
            detail=None if reason is Reason.DELIVERED else f"{receiver.name} answered {answer.status}.",
            retry_after=asked,
        )


def _milliseconds_since(began: float) -> int:
    return int((time.monotonic() - began) * 1000)
