"""Operations on changes and webhooks. A webhook's secret is returned once, when the webhook is added."""

import asyncio
import re
import secrets
import unicodedata
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from headwater.changes.outbox import Sender
from headwater.changes.webhooks import format_secret
from headwater.core.dates import ACCEPTED_MOMENT, parse_moment
from headwater.core.errors import BadRequest, InvalidURL, OperatorError
from headwater.core.reasons import Reason
from headwater.core.record import extend, record
from headwater.core.text import make_storable
from headwater.core.url_input import redact
from headwater.core.urls import join_url, normalize_url
from headwater.db import changes, saved_searches
from headwater.db.changes import SEARCH_EVENTS, WEBHOOK_EVENTS, Change, Delivery, Event, Receiver
from headwater.db.changes import DeliveryStatus as DeliveryStatus
from headwater.db.changes import ReceiverKind as ReceiverKind
from headwater.db.changes import Webhook as Webhook
from headwater.db.clock import read_server_time
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection, Database

_ACCEPTED = f"a cursor of an earlier answer, or {ACCEPTED_MOMENT}"
_COUNT_TO = 10_000
_FOLLOW_SECONDS = 1.0
_FOLLOW_LIMIT = 500
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SECRET_BYTES = 32


@record
class ChangePage:
    """A page of changes in their order."""

    changes: list[Change]
    next: str
    """The `since` of the next page; it is there also when no change follows yet."""


@record
class NewWebhook:
    """A webhook to add."""

    name: str
    url: str
    events: list[str] | None = None
    """By default `document.ready`, `document.deleted` and `job.failed`. `alarm` is for operators."""
    since: str | None = None
    """The cursor, day or time of the first change to deliver; by default now."""
    search: str | None = None
    """A saved search: only documents that match it are delivered, and then all their changes. By default all."""


@record
class AddedWebhook(Webhook):
    """A webhook with the secret that signs its deliveries. The secret is never shown again."""

    secret: str


@record
class RemovedWebhook:
    """The name of a removed webhook."""

    name: str


@record
class DeliveryPage:
    """A page of deliveries, the last delivery first."""

    deliveries: list[Delivery]
    next: str | None
    """The `before` of the next page; null on the last page."""


@record
class RetriedDeliveries:
    """The result of retrying parked deliveries."""

    queued: int
    superseded: int
    """Deliveries that were dismissed because the receiver has taken a later change of the same document."""
    parked: int
    """Deliveries that are still parked."""


@record
class DismissedDeliveries:
    """The result of dismissing parked deliveries."""

    dismissed: int
    parked: int
    """Deliveries that are still parked."""


@record
class WebhookTest:
    """The receiver's answer to a test event."""

    delivered: bool
    reason: Reason
    http_status: int | None
    elapsed_ms: int
    detail: str | None


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """Reads changes by pages, in an order that misses no late commit (spec 8.5)."""

    database: Database

    async def list_after(self, position: int, limit: int) -> list[Change]:
        """List at most `limit` changes after a position; a shorter list is complete."""
        found = await self.database.run(changes.list_changes, position, limit)
        if len(found) < limit:
            await self.number_changes()  # returns 0 if another process has just numbered them: read again anyway
            found = await self.database.run(changes.list_changes, position, limit)
        return found

    async def find_end(self) -> int:
        """Return the position of the last committed change."""
        while await self.number_changes():
            pass
        return await self.database.run(changes.read_last_position)

    async def find_start(self, since: str, field: str = "since") -> int:
        """Return the position of a cursor, day or time; raise an error that names the field."""
        position = changes.parse_cursor(since)
        if position is not None:
            if position > await self.database.run(changes.read_furthest_position):
                raise BadRequest(f"{field}: c{position} is ahead of every change here. Give {_ACCEPTED}.")
            return position
        moment = parse_moment(since, field, _ACCEPTED)
        if moment > (await self.database.run(read_server_time, readings=1)).server:
            raise BadRequest(f"{field}: {since} is in the future. Give {_ACCEPTED}.")
        return await self.find_position(moment)

    async def find_position(self, moment: datetime) -> int:
        """Return the position before the first change at or after a time."""
        end = await self.find_end()
        before = await self.database.run(changes.find_position_before, moment)
        return end if before is None else before

    async def number_changes(self) -> int:
        """Give positions to one batch of committed changes; return how many."""
        return await self.database.transact(changes.number_changes)


class ChangeOperations:
    """The operations on changes."""

    def __init__(self, context: DatabaseContext) -> None:
        self._clock = context.clock
        self._feed = ChangeFeed(context.database)

    async def list_changes(self, since: str | None, limit: int) -> ChangePage:
        """List changes after a cursor, day or time; without one, from the first change on."""
        position = await self._feed.find_start(since) if since is not None else 0
        found = await self._feed.list_after(position, limit)
        return ChangePage(found, found[-1].cursor if found else changes.format_cursor(position))

    async def find_cursor(self, age: timedelta) -> str:
        """Return the cursor before the first change of the last hours."""
        return changes.format_cursor(await self._feed.find_position(self._clock.now() - age))

    async def find_last_cursor(self) -> str:
        """Return the cursor after the last committed change."""
        return changes.format_cursor(await self._feed.find_end())

    async def follow(self, since: str) -> AsyncIterator[Change]:
        """Yield changes after a cursor, day or time, and wait for new ones."""
        position = await self._feed.find_start(since)
        while True:
            found = await self._feed.list_after(position, _FOLLOW_LIMIT)
            for change in found:
                yield change
            if found:
                position = changes.parse_cursor(found[-1].cursor) or 0
            if len(found) < _FOLLOW_LIMIT:
                await asyncio.sleep(_FOLLOW_SECONDS)


class WebhookOperations:
    """The operations on webhooks that need no network."""

    def __init__(self, context: DatabaseContext) -> None:
        self._clock = context.clock
        self._database = context.database
        self._feed = ChangeFeed(context.database)

    async def add(self, new: NewWebhook) -> AddedWebhook:
        """Add a webhook. The result has the secret that signs its deliveries, which is never shown again."""
        receiver = Receiver(check_receiver_name(new.name), _check_url(new.url), secrets.token_bytes(_SECRET_BYTES))
        events = _check_events(new.events, has_search=new.search is not None)
        search_id = await self._find_search(new.search) if new.search is not None else None
        after = await self._feed.find_end() if new.since is None else await self._feed.find_start(new.since)
        added = await self._database.run(
            changes.add_webhook, receiver, events, search_id=search_id, after=after, now=self._clock.now()
        )
        if not added:
            raise OperatorError(f"There is already a webhook named {receiver.name}.", reason=Reason.WEBHOOK_EXISTS)
        return extend(await self.get(receiver.name), AddedWebhook, secret=format_secret(receiver.secret))

    async def _find_search(self, name: str) -> int:
        found = await self._database.run(saved_searches.find_saved_search_id, make_storable(name))
        if found is None:
            raise OperatorError(f"There is no saved search {redact(name)}.", reason=Reason.UNKNOWN_SAVED_SEARCH)
        return found

    async def list_webhooks(self, name: str | None = None) -> list[Webhook]:
        """List webhooks by name, all or the one with a name."""
        await self._feed.number_changes()
        return await self._database.run(changes.list_webhooks, count_to=_COUNT_TO, name=name)

    async def get(self, name: str) -> Webhook:
        """Return a webhook."""
        found = await self.list_webhooks(make_storable(name))
        if not found:
            raise _unknown_webhook(name)
        return found[0]

    async def remove(self, name: str) -> RemovedWebhook:
        """Remove a webhook with its pending deliveries."""
        if not await self._database.run(changes.remove_webhook, make_storable(name)):
            raise _unknown_webhook(name)
        return RemovedWebhook(name)

    async def enable(self, name: str, *, enabled: bool) -> Webhook:
        """Enable a webhook, or disable it: its changes then wait until it is enabled again."""
        now = self._clock.now()
        if not await self._database.transact(changes.enable_webhook, make_storable(name), now, enabled=enabled):
            raise _unknown_webhook(name)
        return await self.get(name)

    async def list_deliveries(
        self, name: str, *, status: str | None = None, limit: int = 50, before: str | None = None
    ) -> DeliveryPage:
        """List deliveries to a webhook with their attempts, the last delivery first."""
        if status is not None and status not in list(DeliveryStatus):
            raise BadRequest(f"status: give one of {', '.join(DeliveryStatus)}.")
        chosen = DeliveryStatus(status) if status else None
        await self.get(name)
        position = await self._feed.find_start(before, "before") if before is not None else None
        found = await self._database.transact(
            changes.list_deliveries, make_storable(name), limit=limit, status=chosen, before=position
        )
        return DeliveryPage(found, found[-1].cursor if len(found) == limit else None)

    async def retry_parked(self, name: str, ids: Collection[str] | None) -> RetriedDeliveries:
        """Send parked deliveries again: all, or those with some ids."""
        statuses = await self._change_parked(name, ids, retry=True)
        queued = statuses.count(DeliveryStatus.PENDING)
        return RetriedDeliveries(queued, len(statuses) - queued, (await self.get(name)).parked)

    async def dismiss_parked(self, name: str, ids: Collection[str] | None) -> DismissedDeliveries:
        """Dismiss parked deliveries: all, or those with some ids."""
        statuses = await self._change_parked(name, ids, retry=False)
        return DismissedDeliveries(len(statuses), (await self.get(name)).parked)

    async def _change_parked(self, name: str, ids: Collection[str] | None, *, retry: bool) -> list[str]:
        chosen = None if ids is None else {_check_id(text) for text in ids}

        async def work(connection: Connection) -> list[str]:
            webhook_id = await changes.lock_webhook(connection, make_storable(name))
            if webhook_id is None:
                raise _unknown_webhook(name)
            for unknown in (chosen or set()) - await changes.list_parked_ids(connection, webhook_id):
                raise OperatorError(f"{name} has no parked delivery {unknown}.", reason=Reason.UNKNOWN_DELIVERY)
            return await changes.change_parked(connection, webhook_id, chosen, self._clock.now(), retry=retry)

        return await self._database.transact(work)


class LiveWebhookOperations(WebhookOperations):
    """The operations on webhooks, with those that send."""

    def __init__(self, context: DatabaseContext, sender: Sender) -> None:
        super().__init__(context)
        self._sender = sender

    async def send_test(self, name: str) -> WebhookTest:
        """Send a test event to a webhook and return the receiver's answer."""
        receiver = await self._database.run(changes.get_receiver, make_storable(name))
        if receiver is None:
            raise _unknown_webhook(name)
        result = await self._sender.send_test(receiver, uuid4(), self._clock.now())
        return extend(result, WebhookTest, delivered=result.reason is Reason.DELIVERED)


def check_receiver_name(name: str) -> str:
    """Return a name that a receiver may have."""
    if not _NAME.fullmatch(name):
        raise BadRequest(
            f"name: {redact(name)!r} must have 1 to 64 lower-case letters, digits, dots, dashes and underscores, "
            "and begin with a letter or digit."
        )
    return name


def _check_url(url: str) -> str:
    if any(unicodedata.category(character) == "Cc" for character in url):
        raise BadRequest("url: remove the control characters.")
    try:
        normalize_url(url)
        return join_url(url, url)
    except InvalidURL as error:
        raise BadRequest(f"url: {error}") from None


def _check_events(events: Sequence[str] | None, *, has_search: bool) -> list[Event]:
    known = SEARCH_EVENTS if has_search else (*WEBHOOK_EVENTS, Event.ALARM)
    if events is None:
        return [event for event in known if event in WEBHOOK_EVENTS]
    unknown = sorted(set(events) - set(known))
    if unknown or not events:
        problem = "has no document that a search could match" if unknown and unknown[0] in list(Event) else "is unknown"
        given = f"{redact(unknown[0])!r} {problem}; " if unknown else ""
        raise BadRequest(f"events: {given}give some of {', '.join(known)}, or leave them out.")
    return [event for event in known if event in events]


def _check_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise BadRequest(f"ids: {redact(text)!r} is not the id of a delivery.") from None


def _unknown_webhook(name: str) -> OperatorError:
    return OperatorError(
        f"There is no webhook or channel named {redact(name)}; `headwater webhook list` lists them.",
        reason=Reason.UNKNOWN_WEBHOOK,
    )
