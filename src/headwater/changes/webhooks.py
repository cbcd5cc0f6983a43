"""Send one delivery over HTTP: signed, to an address that the guard permits, without redirects (spec 4.3, 8.5)."""

import base64
import hmac
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from headwater.core.backoff import read_retry_after
from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError, LeaseLost
from headwater.core.http import Limits
from headwater.core.reasons import Reason
from headwater.db.changes import Message, Receiver, ReceiverKind, SendResult
from headwater.http.responses import reason_of_status

if TYPE_CHECKING:
    from headwater.http.client import HttpClient, Permit

LONGEST_SECONDS = 15.0
_RESPONSE_BYTES = 64 * 1024
_SECRET_PREFIX = "whsec_"  # noqa: S105 (not a secret: every secret begins with it)


class WebhookSender:
    """Sends deliveries to receivers."""

    def __init__(self, client: "HttpClient", clock: Clock, *, user_agent: str, lease_seconds: float) -> None:
        self._client = client
        self._clock = clock
        self._user_agent = user_agent
        seconds = min(LONGEST_SECONDS, lease_seconds / 2)  # ends well before another process may send it again
        self._longest = timedelta(seconds=seconds)
        self._limits = Limits(read_seconds=seconds, total_seconds=seconds, body_bytes=_RESPONSE_BYTES, cut=True)

    def longest(self, _kind: ReceiverKind = ReceiverKind.WEBHOOK) -> timedelta:
        """Return the longest time that one attempt takes."""
        return self._longest

    async def send(
        self, receiver: Receiver, delivery_id: UUID, message: Message, permit: "Permit | None" = None
    ) -> SendResult:
        """Send a message and return the result; every failure is a result.

        `permit` is called right before the request. If it raises LeaseLost, nothing is sent and the error is raised.
        """
        return await self._post(receiver, delivery_id, asdict(message), permit)

    async def send_test(self, receiver: Receiver, delivery_id: UUID, now: datetime) -> SendResult:
        """Send a test event, which reports no change."""
        return await self._post(receiver, delivery_id, {"event": "test", "at": now})

    async def _post(
        self, receiver: Receiver, delivery_id: UUID, fields: Mapping[str, object], permit: "Permit | None" = None
    ) -> SendResult:
        body = msgspec.json.encode({"delivery": str(delivery_id), **fields})
        timestamp = int(self._clock.now().timestamp())
        headers = {
            "Content-Type": "application/json",
            "Webhook-Id": str(delivery_id),
            "Webhook-Timestamp": str(timestamp),
            "Webhook-Signature": sign(receiver.secret, str(delivery_id), timestamp, body),
        }
        began = time.monotonic()
        try:
            response = await self._client.request(
                "POST",
                receiver.url,
                body=body,
                user_agent=self._user_agent,
                headers=headers,
                limits=self._limits,
                permit=permit,
            )
        except LeaseLost:
            raise
        except HeadwaterError as error:
            return SendResult(error.reason, milliseconds_since(began), detail=str(error))
        reason = classify_status(response.status)
        return SendResult(
            reason,
            milliseconds_since(began),
            http_status=response.status,
            detail=None if reason is Reason.DELIVERED else f"{receiver.name} answered {response.status}.",
            retry_after=read_retry_after(response.headers.get("retry-after"), self._clock.now()),
        )


def classify_status(status: int) -> Reason:
    """Return the reason of a receiver's status: only 2xx means that it took the delivery."""
    return Reason.DELIVERED if 200 <= status < 300 else reason_of_status(status) or Reason.HTTP_ODD


def format_secret(secret: bytes) -> str:
    """Return a secret in the form that receivers use."""
    return _SECRET_PREFIX + base64.b64encode(secret).decode()


def sign(secret: bytes, delivery_id: str, timestamp: int, body: bytes) -> str:
    """Sign a delivery by the Standard Webhooks convention."""
    signed = f"{delivery_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret, signed, "sha256")).decode()


def milliseconds_since(began: float) -> int:
    """Return the time since a moment of the monotonic clock."""
    return int((time.monotonic() - began) * 1000)
