"""The outbox of each receiver: ordered per document, and a slow or failing receiver delays no other (spec 4.4).

A delivery that the receiver refuses is parked. Any other failure is tried again, because the receiver or this machine
may recover. If a receiver accepts nothing, the outbox keeps its deliveries and tries less often. A delivery that keeps
failing while others succeed is parked. A digest or an alarm that keeps failing is parked too: later ones wait for it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID, uuid4

import structlog

from headwater.core.backoff import retry_wait
from headwater.core.errors import LeaseLost
from headwater.core.lease import Lease
from headwater.core.reasons import Reason, ReasonClass
from headwater.core.waiting import finish_or_cancel, wait_for_any
from headwater.db import changes
from headwater.db.changes import (
    Change,
    ClaimedDelivery,
    DeliveryStatus,
    Message,
    Receiver,
    ReceiverKind,
    SendResult,
    Settlement,
)
from headwater.db.context import DatabaseContext
from headwater.db.pool import AWAY, Connection

log = structlog.get_logger()

_DELIVERIES_AT_ONCE = 64
_CHANNELS_AT_ONCE = 48  # of them, so that a slow mail server delays no webhook
LONGEST_WAIT = timedelta(hours=1)
MOST_ATTEMPTS = 20
FAILURES_BEFORE_A_PAUSE = 3
_MOST_STEPS = 20  # in one claim, so that a stop does not wait long
_REFUSALS = (Reason.NOT_FOUND, Reason.GONE, Reason.HTTP_4XX, Reason.HTTP_ODD, Reason.MAIL_REFUSED)


class Sender(Protocol):
    """Sends deliveries."""

    def longest(self, kind: ReceiverKind, /) -> timedelta:
        """Return the longest time that one attempt takes."""

    async def send(
        self,
        receiver: Receiver,
        delivery_id: UUID,
        message: Message,
        permit: Callable[[], Awaitable[None]] | None = None,
        /,
    ) -> SendResult:
        """Send a message and return the result; every failure is a result, except one that `permit` raises."""

    async def send_test(self, receiver: Receiver, delivery_id: UUID, now: datetime, /) -> SendResult:
        """Send a test message."""


@dataclass(frozen=True, slots=True)
class Outbox:
    """Makes deliveries of changes, and sends them."""

    context: DatabaseContext
    sender: Sender

    async def claim(self, limit: int, channels: int = _CHANNELS_AT_ONCE) -> list[ClaimedDelivery]:
        """Claim due deliveries: for each document and receiver the oldest. At most `channels` are to channels."""
        if not await self.context.database.run(changes.has_enabled_webhook):
            return []
        for _ in range(_MOST_STEPS):
            numbered = await self.context.database.transact(changes.number_changes)
            claimed, is_behind = await self.context.database.transact(self._claim_next, limit, channels)
            if claimed or not (is_behind or numbered == changes.NUMBERED_AT_ONCE):
                return claimed
        return []

    async def _claim_next(
        self, connection: Connection, limit: int, channels: int
    ) -> tuple[list[ClaimedDelivery], bool]:
        """Make deliveries of the next changes and claim due ones; return also whether there are more changes."""
        now = self.context.clock.now()
        locked = await changes.lock_ready_webhooks(connection, now)
        if not locked:
            return [], False
        is_behind = await changes.fan_out(connection, locked, now)
        until = now + timedelta(seconds=self.context.settings.lease_seconds)
        lease = Lease(self.context.holder, uuid4(), until, 0)
        claimed = await changes.claim_deliveries(
            connection,
            locked,
            lease,
            now,
            channel_until=until + max(map(self.sender.longest, (ReceiverKind.EMAIL, ReceiverKind.APPRISE))),
            failing=FAILURES_BEFORE_A_PAUSE,
            limit=limit,
            channels=channels,
        )
        return claimed, is_behind

    async def deliver(self, delivery: ClaimedDelivery) -> SendResult:
        """Send a delivery and save the result; raise LeaseLost if another process holds it now."""

        async def permit() -> None:
            """Refuse to send if the send could outlast the lease and overtake a later one."""
            if self.context.clock.now() + self.sender.longest(delivery.receiver.kind) >= delivery.lease.until:
                raise _lease_lost(delivery)

        result = await self.sender.send(delivery.receiver, delivery.id, delivery.message, permit)
        now = self.context.clock.now()
        chance = random.random()  # noqa: S311 - it only spreads retries
        settlement = settle(delivery, result, now, base_seconds=self.context.settings.retry_base_seconds, chance=chance)
        if not await self.context.database.run(changes.settle_delivery, delivery, result, settlement, now):
            raise _lease_lost(delivery)
        if settlement.status is DeliveryStatus.DELIVERED and delivery.failures >= FAILURES_BEFORE_A_PAUSE:
            name = delivery.receiver.name  # it has recovered: send all its pending deliveries now
            await self.context.database.run(changes.wake_deliveries, name, now)
        return result

    async def release(self, deliveries: Collection[ClaimedDelivery]) -> None:
        """Release interrupted deliveries, except settled ones and those of other holders."""
        for delivery in deliveries:
            await self.context.database.run(changes.release_delivery, delivery, self.context.clock.now())


def settle(
    delivery: ClaimedDelivery, result: SendResult, now: datetime, *, base_seconds: float, chance: float
) -> Settlement:
    """Decide the next state of a delivery and its receiver; `chance` (0..1) spreads retries."""
    if result.reason is Reason.DELIVERED:
        return Settlement(DeliveryStatus.DELIVERED, result.reason, None, 0, None)
    if result.reason in _REFUSALS:
        return Settlement(DeliveryStatus.PARKED, result.reason, None, 0, None)
    if result.reason.kind is ReasonClass.OURS:
        due_at = now + _wait(1, base_seconds, chance)
        return Settlement(DeliveryStatus.PENDING, result.reason, due_at, delivery.failures, None, is_charged=False)
    failures = delivery.failures + 1
    asked = result.retry_after or timedelta(0)
    pause = max(asked, _wait(failures - FAILURES_BEFORE_A_PAUSE + 1, base_seconds, chance))
    not_before = now + pause if asked or failures >= FAILURES_BEFORE_A_PAUSE else None
    if _is_hopeless(delivery):
        return Settlement(DeliveryStatus.PARKED, Reason.MAX_RETRIES, None, failures, not_before)
    due_at = now + max(asked, _wait(delivery.lease.attempts, base_seconds, chance))
    return Settlement(DeliveryStatus.PENDING, result.reason, due_at, failures, not_before)


def _wait(times: int, base_seconds: float, chance: float) -> timedelta:
    return min(retry_wait(times, base_seconds, chance), LONGEST_WAIT)


def _is_hopeless(delivery: ClaimedDelivery) -> bool:
    """Return whether it used all attempts while the receiver took others, so that the receiver is not down.

    A digest or an alarm makes all later ones wait, so its attempts alone decide.
    """
    if delivery.lease.attempts < MOST_ATTEMPTS:
        return False
    taken, failing = delivery.delivered_at, delivery.failing_since
    return not isinstance(delivery.message, Change) or (taken is not None and failing is not None and taken > failing)


def _lease_lost(delivery: ClaimedDelivery) -> LeaseLost:
    return LeaseLost(f"Another process holds the delivery {delivery.id} to {delivery.receiver.name} now.")


@dataclass(slots=True, eq=False)
class DelivererRole:
    """Claims due deliveries and sends them concurrently."""

    outbox: Outbox
    on_delivery: Callable[[SendResult], None] = lambda _: None
    look_seconds: float = 1.0
    under_way: dict[asyncio.Task[None], ClaimedDelivery] = field(default_factory=dict)
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # a delivery has ended, so that more may be due

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Deliver until `stop`; then wait for sends under way during the grace, and release the rest."""
        while not stop.is_set():
            self.ended.clear()
            try:
                await self._start_due()
            except AWAY as error:
                log.warning("delivery.claim_failed", error=str(error))
            await wait_for_any((stop, self.ended), self.look_seconds)
        deliveries = dict(self.under_way)
        late = await finish_or_cancel(deliveries, grace_seconds)
        try:
            await self.outbox.release([deliveries[task] for task in late])
        except AWAY as error:
            log.warning("delivery.release_failed", deliveries=len(late), error=str(error))

    async def _start_due(self) -> None:
        room = _DELIVERIES_AT_ONCE - len(self.under_way)
        if room <= 0:
            return
        to_channels = sum(one.receiver.kind is not ReceiverKind.WEBHOOK for one in self.under_way.values())
        for delivery in await self.outbox.claim(room, max(0, _CHANNELS_AT_ONCE - to_channels)):
            task = asyncio.create_task(self._deliver(delivery))
            self.under_way[task] = delivery
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self.under_way.pop(task)
        self.ended.set()

    async def _deliver(self, delivery: ClaimedDelivery) -> None:
        context = {"webhook": delivery.receiver.name, "delivery": str(delivery.id)}
        if isinstance(delivery.message, Change):
            context["url"] = delivery.message.url
        try:
            result = await self.outbox.deliver(delivery)
        except LeaseLost as error:
            log.warning("delivery.lease_lost", **context, error=str(error))
        except AWAY as error:
            log.warning("delivery.not_settled", **context, error=str(error))
        except Exception:
            log.exception("delivery.failed", **context)  # the lease expires, and the delivery is sent again
        else:
            level = log.info if result.reason is Reason.DELIVERED else log.warning
            level("delivery.done", **context, reason=str(result.reason), status=result.http_status, error=result.detail)
            self.on_delivery(result)
