"""What a door may ask about webhooks. A secret is told once, when its webhook is added."""

import re
import secrets
import unicodedata
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID, uuid4

from headwater.app.runtime import Runtime
from headwater.changes.delivery import shown_secret
from headwater.changes.feed import ChangeFeed
from headwater.core.change import Event, cursor_of
from headwater.core.errors import InvalidURL, OperatorError
from headwater.core.reasons import Reason
from headwater.core.text import make_storable
from headwater.core.url_input import redact
from headwater.core.urls import join_url, normalize_url
from headwater.core.webhook import Answered, DeliveryStatus, Receiver
from headwater.db import webhooks
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection

T = TypeVar("T")
COUNTED = 10_000  # of what waits
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SECRET_BYTES = 32


class WebhookOperations:
    """The part of the desk about webhooks."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context
        self._database = context.database
        self._feed = ChangeFeed(context.database)

    async def add(
        self, name: str, url: str, events: Sequence[str] | None = None, since: str | None = None
    ) -> dict[str, Any]:
        """Add a webhook for changes from now on, or since a cursor, day or time; the answer has its secret."""
        receiver = Receiver(_checked_name(name), _checked_url(url), secrets.token_bytes(_SECRET_BYTES))
        wanted = _checked_events(events)
        after = await self._feed.end() if since is None else await self._feed.start(since)
        async with self._database.connection() as connection:
            added = await webhooks.add_webhook(connection, receiver, wanted, after=after, now=self._context.clock.now())
        if not added:
            raise OperatorError(f"There is a webhook named {receiver.name} already.", reason=Reason.WEBHOOK_EXISTS)
        return await self.show(receiver.name) | {"secret": shown_secret(receiver.secret)}

    async def listed(self) -> list[dict[str, Any]]:
        """List webhooks by name, each with how it is doing."""
        return await self._look()

    async def show(self, name: str) -> dict[str, Any]:
        """Return a webhook and how it is doing."""
        found = await self._look(make_storable(name))
        if not found:
            raise _unknown(name)
        return found[0]

    async def _look(self, name: str | None = None) -> list[dict[str, Any]]:
        await self._feed.number()
        async with self._database.connection() as connection:
            return await webhooks.list_webhooks(connection, count_to=COUNTED, name=name)

    async def remove(self, name: str) -> None:
        """Remove a webhook, with what it has not had yet."""
        if not await self._database.run(lambda connection: webhooks.remove_webhook(connection, make_storable(name))):
            raise _unknown(name)

    async def switch(self, name: str, *, enabled: bool) -> dict[str, Any]:
        """Deliver to a webhook, or hold back what changes until it is enabled again."""

        async def work(connection: Connection) -> None:
            if not await webhooks.switch_webhook(connection, make_storable(name), enabled=enabled):
                raise _unknown(name)
            await webhooks.wake_deliveries(connection, make_storable(name), self._context.clock.now())

        await self._database.transact(work)
        return await self.show(name)

    async def deliveries(
        self, name: str, *, status: str | None = None, limit: int = 50, before: str | None = None
    ) -> list[dict[str, Any]]:
        """List deliveries to a webhook, the last first, each with its attempts; `before` the cursor of one."""
        if status is not None and status not in list(DeliveryStatus):
            raise OperatorError(f"status: is one of {', '.join(DeliveryStatus)}.", reason=Reason.BAD_REQUEST)
        await self.show(name)
        position = await self._feed.start(before, "before") if before is not None else None
        rows = await self._database.transact(
            lambda connection: webhooks.list_deliveries(
                connection, make_storable(name), limit=limit, status=status, before=position
            )
        )
        return [_told(row) for row in rows]

    async def retry(self, name: str, ids: Collection[str] | None) -> dict[str, int]:
        """Send parked deliveries after all, all or those of some ids; tell how many are, and how many are overtaken."""
        statuses = await self._with_parked(name, ids, webhooks.retry_parked)
        queued = statuses.count(DeliveryStatus.PENDING)
        return {"queued": queued, "superseded": len(statuses) - queued, "parked": (await self.show(name))["parked"]}

    async def dismiss(self, name: str, ids: Collection[str] | None) -> dict[str, int]:
        """Let parked deliveries be, all or those of some ids; tell how many."""
        dismissed = await self._with_parked(name, ids, webhooks.dismiss_parked)
        return {"dismissed": len(dismissed), "parked": (await self.show(name))["parked"]}

    async def _with_parked(
        self,
        name: str,
        ids: Collection[str] | None,
        change: Callable[[Connection, int, Collection[UUID] | None, datetime], Awaitable[list[T]]],
    ) -> list[T]:
        chosen = None if ids is None else {_checked_id(text) for text in ids}

        async def work(connection: Connection) -> list[T]:
            webhook_id = await webhooks.hold_webhook(connection, make_storable(name))
            if webhook_id is None:
                raise _unknown(name)
            for stranger in (chosen or set()) - await webhooks.parked_deliveries(connection, webhook_id):
                raise OperatorError(f"{name} has no parked delivery {stranger}.", reason=Reason.UNKNOWN_DELIVERY)
            return await change(connection, webhook_id, chosen, self._context.clock.now())

        return await self._database.transact(work)


class LiveWebhookOperations(WebhookOperations):
    """The same for a process that reaches out."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime.context)
        self._courier = runtime.courier

    async def test(self, name: str) -> Answered:
        """Send a webhook something to try it by, and return what came of it; nothing else changes."""
        async with self._database.connection() as connection:
            receiver = await webhooks.receiver(connection, make_storable(name))
        if receiver is None:
            raise _unknown(name)
        return await self._courier.knock(receiver, uuid4(), self._context.clock.now())


def _told(row: dict[str, Any]) -> dict[str, Any]:
    told = row | {"id": str(row["id"]), "cursor": cursor_of(row["position"])}
    del told["position"]
    return told


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise OperatorError(
            f"name: {redact(name)!r} must be of lower-case letters, digits, dots, dashes and underscores, 64 at "
            "most, and begin with a letter or digit.",
            reason=Reason.BAD_REQUEST,
        )
    return name


def _checked_url(url: str) -> str:
    if any(unicodedata.category(character) == "Cc" for character in url):
        raise OperatorError("url: has a control character.", reason=Reason.BAD_REQUEST)
    try:
        normalize_url(url)
        return join_url(url, url)
    except InvalidURL as error:
        raise OperatorError(f"url: {error}", reason=Reason.BAD_REQUEST) from None


def _checked_events(events: Sequence[str] | None) -> list[str]:
    known = list(Event)
    if events is not None and not events:
        raise OperatorError(f"events: name one of {', '.join(known)}, or leave them out.", reason=Reason.BAD_REQUEST)
    for event in events or ():
        if event not in known:
            raise OperatorError(f"events: {redact(event)!r} is none of {', '.join(known)}.", reason=Reason.BAD_REQUEST)
    return [str(event) for event in known if events is None or event in events]


def _checked_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise OperatorError(f"ids: {redact(text)!r} is no delivery's id.", reason=Reason.BAD_REQUEST) from None


def _unknown(name: str) -> OperatorError:
    return OperatorError(
        f"There is no webhook named {redact(name)}; `headwater webhook list` lists them.",
        reason=Reason.UNKNOWN_WEBHOOK,
    )
