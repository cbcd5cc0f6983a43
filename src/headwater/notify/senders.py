"""Sends a delivery on the way of its receiver: a signed request, a mail, or a message through Apprise."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import TYPE_CHECKING
from uuid import UUID

from headwater.changes.webhooks import WebhookSender, milliseconds_since
from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError, LeaseLost
from headwater.core.reasons import Reason
from headwater.db.changes import Message, Receiver, ReceiverKind, SendResult
from headwater.db.messages import AlarmMessage, Digest
from headwater.notify.texts import Text, write_alarm, write_digest, write_test

if TYPE_CHECKING:
    from headwater.http.mail import MailClient
    from headwater.http.services import ServiceClient

Permit = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ReceiverSender:
    """Sends deliveries to receivers of each kind."""

    webhooks: WebhookSender
    mail: "MailClient"
    services: "ServiceClient"
    mail_from: str
    clock: Clock

    def longest(self, kind: ReceiverKind) -> timedelta:
        """Return the longest time that one attempt takes."""
        if kind is ReceiverKind.APPRISE:
            return timedelta(seconds=self.services.seconds)
        return self.mail.longest if kind is ReceiverKind.EMAIL else self.webhooks.longest(kind)

    async def send(
        self, receiver: Receiver, delivery_id: UUID, message: Message, permit: Permit | None = None
    ) -> SendResult:
        """Send a message and return the result; every failure is a result, except one that `permit` raises."""
        if receiver.kind is ReceiverKind.WEBHOOK:
            return await self.webhooks.send(receiver, delivery_id, message, permit)
        if isinstance(message, Digest):
            return await self._write(receiver, delivery_id, write_digest(message), message.made_at, permit)
        assert isinstance(message, AlarmMessage), "channels get digests and alarms"
        moment = message.ended_at or message.began_at
        return await self._write(receiver, delivery_id, write_alarm(message), moment, permit)

    async def send_test(self, receiver: Receiver, delivery_id: UUID, now: datetime) -> SendResult:
        """Send a test message."""
        if receiver.kind is ReceiverKind.WEBHOOK:
            return await self.webhooks.send_test(receiver, delivery_id, now)
        return await self._write(receiver, delivery_id, write_test(receiver.name), now, None)

    async def _write(
        self, receiver: Receiver, delivery_id: UUID, text: Text, moment: datetime, permit: Permit | None
    ) -> SendResult:
        began = time.monotonic()
        if permit:
            await permit()
        try:
            if receiver.kind is ReceiverKind.EMAIL:
                await self.mail.send(write_mail(self.mail_from, receiver.url, delivery_id, text, moment))
            else:
                await self.services.send(receiver.url, text.subject, text.plain)
        except LeaseLost:
            raise
        except HeadwaterError as error:
            return SendResult(error.reason, milliseconds_since(began), detail=str(error))
        return SendResult(Reason.DELIVERED, milliseconds_since(began))


def write_mail(sender: str, recipient: str, delivery_id: UUID, text: Text, moment: datetime) -> EmailMessage:
    """Write a mail. Each attempt to send it has the same Message-ID, so a mailbox can drop a repeated one."""
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = recipient
    mail["Subject"] = text.subject
    mail["Date"] = format_datetime(moment)
    mail["Message-ID"] = f"<{delivery_id}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(text.plain)
    mail.add_alternative(text.html, subtype="html")
    return mail
