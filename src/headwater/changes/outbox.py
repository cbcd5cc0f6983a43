"""Outboxes: each receiver has its own, in order per document; who is down or refuses keeps no other waiting (4.4)."""

import random
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from uuid import uuid4

from headwater.changes.delivery import FAILURES_BEFORE_A_PAUSE, settle
from headwater.changes.webhooks import Courier
from headwater.core.clock import Clock
from headwater.core.errors import LeaseLost
from headwater.core.lease import Lease
from headwater.core.webhook import Answered, Delivery, DeliveryStatus
from headwater.db import changes, webhooks
from headwater.db.pool import Connection, Database

MOST_PENDING = 500  # deliveries in one outbox; further changes wait where they are
MOST_PARKED = 1000  # a receiver that refuses so many gets no more until somebody has looked
AT_ONCE = 4  # for one receiver
SCANNED = 20_000  # changes that are looked at in one step for those that a receiver wants
_MOST_STEPS = 20  # in one look, so that a stop need not wait for long


class Outbox:
    """Makes deliveries of changes, and brings them."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        courier: Courier,
        *,
        holder: str,
        lease: timedelta,
        base_seconds: float,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._database = database
        self._clock = clock
        self._courier = courier
        self._holder = holder
        self._lease = lease
        self._base_seconds = base_seconds
        self._chance = chance

    async def claim(self, limit: int) -> list[Delivery]:
        """Claim what is due to be delivered, of each document and receiver the oldest."""
        async with self._database.connection() as connection:
            if not await webhooks.any_enabled(connection):
                return []
        for _ in range(_MOST_STEPS):
            numbered = await self._database.transact(changes.number_changes)
            claimed, is_behind = await self._claim_next(limit)
            if claimed or not (is_behind or numbered == changes.BATCH):
                return claimed
        return []

    async def _claim_next(self, limit: int) -> tuple[list[Delivery], bool]:
        """Claim what is due after one step through what has changed; tell whether there is more to step through."""

        async def work(connection: Connection) -> tuple[list[Delivery], bool]:
            now = self._clock.now()
            held = await webhooks.hold_webhooks(connection, now)
            if not held:
                return [], False
            is_behind = await webhooks.fan_out(
                connection, held, most_pending=MOST_PENDING, most_parked=MOST_PARKED, scan=SCANNED, now=now
            )
            claimed = await webhooks.claim_deliveries(
                connection,
                held,
                lease=Lease(self._holder, uuid4(), now + self._lease, 0),
                now=now,
                at_once=AT_ONCE,
                failing=FAILURES_BEFORE_A_PAUSE,
                limit=limit,
            )
            return claimed, is_behind

        return await self._database.transact(work)

    async def deliver(self, delivery: Delivery) -> Answered:
        """Bring a delivery and keep what came of it; raise LeaseLost where it is another's by then."""

        async def permit() -> None:
            """Keep a send that could outlast the lease from overtaking what another sends by then."""
            if self._clock.now() + self._courier.longest >= delivery.lease.until:
                raise _lost(delivery)

        answered = await self._courier.bring(delivery.receiver, delivery.id, delivery.change, permit)
        now = self._clock.now()
        settlement = settle(delivery, answered, now, base_seconds=self._base_seconds, chance=self._chance())

        async def work(connection: Connection) -> bool:
            return await webhooks.settle_delivery(connection, delivery, answered, settlement, now)

        if not await self._database.run(work):
            raise _lost(delivery)
        if settlement.status is DeliveryStatus.DELIVERED and delivery.failures >= FAILURES_BEFORE_A_PAUSE:
            await self._catch_up(delivery.receiver.name, now)
        return answered

    async def _catch_up(self, name: str, now: datetime) -> None:
        """Let a receiver that is back have what it has missed, and not each when it would be due by itself."""
        await self._database.run(lambda connection: webhooks.wake_deliveries(connection, name, now))

    async def release(self, deliveries: Collection[Delivery]) -> None:
        """Give back what was interrupted; where it is settled or another's by now, nothing changes."""

        async def work(connection: Connection) -> None:
            for delivery in deliveries:
                await webhooks.release_delivery(connection, delivery, self._clock.now())

        await self._database.transact(work)


def _lost(delivery: Delivery) -> LeaseLost:
    return LeaseLost(f"The delivery {delivery.id} to {delivery.receiver.name} is no longer ours.")


async def prune_deliveries(database: Database, now: datetime, keep: timedelta) -> int:
    """Forget what ended longer ago than `keep`, a batch at most; what is parked or pending stays."""
    return await database.transact(lambda connection: webhooks.prune(connection, now - keep))
