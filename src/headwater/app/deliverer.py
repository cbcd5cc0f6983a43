"""The deliverer role: brings changes to webhooks."""

import asyncio
from collections.abc import Callable

import structlog

from headwater.app.runtime import DELIVERIES_AT_ONCE, Runtime
from headwater.core.errors import LeaseLost
from headwater.core.reasons import Reason
from headwater.core.waiting import finish_or_cancel, wait_for_any
from headwater.core.webhook import Answered, Delivery
from headwater.db.pool import is_down

log = structlog.get_logger()


class DelivererRole:
    """Claims what is due and delivers it, so many at once; a slow receiver has only a few of the places."""

    def __init__(
        self, runtime: Runtime, on_delivery: Callable[[Answered], None] = lambda _: None, *, look_seconds: float = 1.0
    ) -> None:
        self._outbox = runtime.outbox
        self._on_delivery = on_delivery
        self._look_seconds = look_seconds
        self._under_way: dict[asyncio.Task[None], Delivery] = {}
        self._room = asyncio.Event()  # something has ended, so that more may be due

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Deliver until `stop`; then let what is under way end within the grace, and give the rest back."""
        while not stop.is_set():
            self._room.clear()
            try:
                await self._start_due()
            except Exception as error:
                if not is_down(error):
                    raise
                log.warning("delivery.claim_failed", error=str(error))
            await wait_for_any((stop, self._room), self._look_seconds)
        deliveries = dict(self._under_way)
        late = await finish_or_cancel(deliveries, grace_seconds)
        if late:
            await self._release([deliveries[task] for task in late])

    async def _release(self, interrupted: list[Delivery]) -> None:
        try:
            await self._outbox.release(interrupted)
        except Exception as error:
            if not is_down(error):
                raise
            log.warning("delivery.not_given_back", deliveries=len(interrupted), error=str(error))

    async def _start_due(self) -> None:
        places = DELIVERIES_AT_ONCE - len(self._under_way)
        if places <= 0:
            return
        for delivery in await self._outbox.claim(places):
            task = asyncio.create_task(self._deliver(delivery))
            self._under_way[task] = delivery
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task)
        self._room.set()

    async def _deliver(self, delivery: Delivery) -> None:
        told = {"webhook": delivery.receiver.name, "delivery": str(delivery.id), "url": delivery.change.url}
        try:
            answered = await self._outbox.deliver(delivery)
        except LeaseLost as error:
            log.warning("delivery.lease_lost", **told, error=str(error))
            return
        except Exception as error:
            if is_down(error):
                log.warning("delivery.not_settled", **told, error=str(error))
            else:
                log.exception("delivery.gone_wrong", **told)
            return  # the lease runs out, and it is sent again
        level = log.info if answered.reason is Reason.DELIVERED else log.warning
        level("delivery.done", **told, reason=str(answered.reason), status=answered.http_status, error=answered.detail)
        self._on_delivery(answered)
