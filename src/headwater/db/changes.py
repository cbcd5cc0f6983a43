"""Typed functions over queries/changes.sql and queries/webhooks.sql, and the records that they return."""

import re
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.db.messages import AlarmMessage, Digest
from headwater.db.pool import Connection
from headwater.db.sql import query, read_lease, to_record

NUMBERED_AT_ONCE = 5000
MOST_PENDING = 500  # deliveries in one outbox; further changes stay in the feed until there is room
MOST_PARKED = 1000  # no deliveries are made for a receiver with so many parked ones
AT_ONCE = 4  # deliveries to one receiver
SCANNED = 20_000  # changes that one step reads for each receiver
_RESCUED_AT_ONCE = 500
_PRUNED_AT_ONCE = 2000
_SCANNED_FOR_A_COUNT = 100_000
_CURSOR = re.compile(r"c([0-9]{1,18})")


class Event(StrEnum):
    """The events of deliveries."""

    DOCUMENT_READY = "document.ready"  # a document is new or has changed
    DOCUMENT_DELETED = "document.deleted"
    JOB_FAILED = "job.failed"
    ALARM = "alarm"  # an alarm began or is over
    DIGEST = "digest"  # new documents of a saved search, for a channel


# A webhook gets these unless it asks for others.
WEBHOOK_EVENTS = (Event.DOCUMENT_READY, Event.DOCUMENT_DELETED, Event.JOB_FAILED)
SEARCH_EVENTS = (Event.DOCUMENT_READY, Event.DOCUMENT_DELETED)  # a webhook with a search gets only these


class ReceiverKind(StrEnum):
    """The way to a receiver."""

    WEBHOOK = "webhook"  # each change is a signed request
    EMAIL = "email"  # digests by mail
    APPRISE = "apprise"  # digests by a service that Apprise knows


class DeliveryStatus(StrEnum):
    """The status of a delivery."""

    PENDING = "pending"
    DELIVERED = "delivered"
    PARKED = "parked"  # the receiver refused it: it waits for an operator and blocks no other delivery
    DISMISSED = "dismissed"  # an operator dismissed it, or the receiver took a later one of the same document or job


@record
class ChangedDocument:
    """A document at the revision of the change. Language and date are the present ones."""

    id: int
    """`/documents/ID` returns its present text."""
    revision: int
    title: str
    content_hash: str
    """SHA-256 of the text."""
    language: str | None
    """Its plain code, such as `de`."""
    region: str | None
    published_at: datetime | None


@record
class DeletedDocument:
    """A document that an operator, a purge or the retention of its source deleted."""

    id: int
    reason: Reason
    """A code from the closed list of reasons."""
    message: str
    """A sentence for a person."""


@record
class FailedJob:
    """A job, its item, and why the job failed."""

    id: int
    reference_id: str | None
    """The id of its item; null if its source was purged."""
    reason: Reason
    """A code from the closed list of reasons."""
    message: str
    """A sentence for a person."""


@record
class Change:
    """A document that is new, has a new text, was corrected or was deleted; or a job that failed.

    A correction changes title, byline, date, language, picture or abstract. It makes no revision. All earlier changes
    of a deleted document are read as its deletion.
    """

    event: Event
    what: Literal["new", "changed", "corrected", "deleted", "failed"]
    cursor: str
    """The place of the change in the feed: `since=CURSOR` begins with the next change."""
    at: datetime
    url: str
    source: str | None
    document: ChangedDocument | None
    deleted: DeletedDocument | None
    job: FailedJob | None


@record
class Webhook:
    """A webhook and its present state."""

    name: str
    url: str
    """The address. Of a service only its name is shown, because the address is a secret."""
    kind: ReceiverKind
    events: list[Event]
    search: str | None
    """The saved search that its documents match. Null: it gets all documents."""
    digest_hour: int | None
    """The hour of the daily digest, in its time zone. Null: digests are sent at once."""
    timezone: str
    quiet_from: int | None
    """From this hour to the hour `quiet_to` it gets nothing. Null: it has no quiet hours."""
    quiet_to: int | None
    enabled: bool
    waiting: int
    """Changes that the receiver has not taken yet, counted up to 10,000."""
    waiting_since: datetime | None
    """The time of the oldest waiting change."""
    parked: int
    """Deliveries that the receiver refused."""
    failures: int
    """Failed deliveries in a row."""
    failing_since: datetime | None
    """The time when the first of the pending deliveries failed."""
    failing_reason: Reason | None
    error: str | None
    not_before: datetime | None
    """No delivery is sent before this time."""
    delivered_at: datetime | None
    """The time of the last successful delivery."""
    created_at: datetime


@record
class DeliveryAttempt:
    """An attempt to deliver."""

    attempt: int
    ended_at: datetime
    elapsed_ms: int | None
    http_status: int | None
    reason: Reason
    detail: str | None


@record
class Delivery:
    """A delivery of one change to one webhook."""

    id: UUID
    """The header `Webhook-Id` carries it."""
    cursor: str
    """The cursor of the change."""
    event: Event
    url: str
    status: DeliveryStatus
    reason: Reason | None
    attempts: int
    due_at: datetime
    ended_at: datetime | None
    log: list[DeliveryAttempt]


@dataclass(frozen=True, slots=True)
class Receiver:
    """The address that deliveries go to, and the secret that signs them."""

    name: str
    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    kind: ReceiverKind = ReceiverKind.WEBHOOK


Message = Change | Digest | AlarmMessage


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery that this process holds until the lease ends."""

    id: UUID
    receiver: Receiver
    message: Message
    lease: Lease
    failures: int
    """Failed deliveries to the receiver in a row."""
    delivered_at: datetime | None
    """The time of the last successful delivery to the receiver."""
    failing_since: datetime | None
    """The time when this delivery failed first."""


@dataclass(frozen=True, slots=True)
class SendResult:
    """The result of one attempt to deliver."""

    reason: Reason
    elapsed_ms: int
    http_status: int | None = None
    detail: str | None = None
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """The next state of a delivery and of its receiver after an attempt."""

    status: DeliveryStatus
    reason: Reason
    due_at: datetime | None
    failures: int
    not_before: datetime | None
    is_charged: bool = True
    """False if we caused the failure: then neither the delivery nor the receiver is charged for it."""


def format_cursor(position: int) -> str:
    """Return the cursor of a position."""
    return f"c{position}"


def parse_cursor(text: str) -> int | None:
    """Return the position of a cursor, None if the text is not a cursor."""
    found = _CURSOR.fullmatch(text)
    return int(found[1]) if found else None


async def number_changes(connection: Connection) -> int:
    """Give positions to one batch of committed changes; return how many. Must run inside a transaction."""
    last = await connection.fetchval(query("lock_change_state"))
    value: int = await connection.fetchval(query("number_changes"), last, NUMBERED_AT_ONCE)
    return value


async def read_last_position(connection: Connection) -> int:
    """Return the last position that a change has."""
    value: int = await connection.fetchval(query("last_position"))
    return value


async def read_furthest_position(connection: Connection) -> int:
    """Return the largest position that a reader can have reached."""
    value: int = await connection.fetchval(query("furthest_position"))
    return value


async def find_position_before(connection: Connection, moment: datetime) -> int | None:
    """Return the position before the first change at or after a time; None if there is no such change."""
    value: int | None = await connection.fetchval(query("position_before"), moment)
    return value


async def list_changes(connection: Connection, after: int, limit: int) -> list[Change]:
    """List changes in their order."""
    rows = await connection.fetch(query("positions_after"), after, limit)
    return list((await read_changes(connection, [row["position"] for row in rows])).values())


async def read_changes(connection: Connection, positions: Collection[int]) -> dict[int, Change]:
    """Return the changes at some positions, in their order."""
    rows = await connection.fetch(query("read_changes"), list(positions))
    return {row["position"]: _change(row) for row in rows}


def _change(row: Any) -> Change:
    document = deleted = job = None
    if row["job_id"] is not None:
        event, job = Event.JOB_FAILED, {**row, "id": row["job_id"], "message": Reason.of(row["reason"]).sentence}
    elif row["what"] == "deleted":
        event = Event.DOCUMENT_DELETED
        deleted = {**row, "id": row["document_id"], "message": Reason.of(row["reason"]).sentence}
    else:
        event = Event.DOCUMENT_READY
        document = {**row, "id": row["document_id"], "content_hash": row["content_hash"].hex()}
    cursor = format_cursor(row["position"])
    return to_record(Change, row, event=event, cursor=cursor, document=document, deleted=deleted, job=job)


async def read_alarms(connection: Connection, positions: Collection[int]) -> dict[int, AlarmMessage]:
    """Return the alarms that began or ended at some positions."""
    return {
        row["position"]: to_record(AlarmMessage, row, event="alarm", what="over" if row["is_over"] else "began")
        for row in await connection.fetch(query("alarms_of_changes"), list(positions))
    }


async def add_webhook(
    connection: Connection,
    receiver: Receiver,
    events: Sequence[Event],
    *,
    search_id: int | None = None,
    after: int,
    now: datetime,
) -> bool:
    """Add a webhook for the changes after a position; return False if its name is taken."""
    parameters = (receiver.name, receiver.url, receiver.secret, list(events))
    return await connection.fetchval(query("add_webhook"), *parameters, search_id, after, now) is not None


async def remove_webhook(connection: Connection, name: str) -> bool:
    """Remove a webhook with its deliveries; return False if there is none."""
    return await connection.fetchval(query("remove_webhook"), name) is not None


async def enable_webhook(connection: Connection, name: str, now: datetime, *, enabled: bool) -> bool:
    """Enable or disable a webhook, and make its pending deliveries due now; return False if there is none."""
    is_known = await connection.fetchval(query("enable_webhook"), name, enabled) is not None
    await wake_deliveries(connection, name, now)
    return is_known


async def get_receiver(connection: Connection, name: str) -> Receiver | None:
    """Return the receiver of a webhook, with its secret."""
    row = await connection.fetchrow(query("get_receiver"), name)
    return to_record(Receiver, row) if row else None


async def has_enabled_webhook(connection: Connection) -> bool:
    """Return whether any webhook is enabled."""
    return bool(await connection.fetchval(query("has_enabled_webhook")))


async def list_webhooks(connection: Connection, *, count_to: int, name: str | None = None) -> list[Webhook]:
    """List webhooks by name."""
    rows = await connection.fetch(query("list_webhooks"), name, count_to, _SCANNED_FOR_A_COUNT)
    return [to_record(Webhook, row) for row in rows]


async def lock_ready_webhooks(connection: Connection, now: datetime) -> list[int]:
    """Lock the webhooks that may be sent to and that no other transaction has locked; return their ids."""
    return [row["id"] for row in await connection.fetch(query("lock_ready_webhooks"), now)]


async def lock_webhook(connection: Connection, name: str) -> int | None:
    """Lock a webhook, so that none of its deliveries is claimed until the transaction ends; return its id."""
    value: int | None = await connection.fetchval(query("lock_webhook"), name)
    return value


async def fan_out(connection: Connection, webhook_ids: Collection[int], now: datetime) -> bool:
    """Make deliveries of the next changes for each locked webhook, up to the room in its outbox.

    Return whether there may be more changes for a webhook that has room.
    """
    rows = await connection.fetch(query("fan_out"), list(webhook_ids), MOST_PENDING, MOST_PARKED, now, SCANNED)
    return any(row["is_behind"] for row in rows)


async def claim_deliveries(
    connection: Connection,
    webhook_ids: Collection[int],
    lease: Lease,
    now: datetime,
    *,
    channel_until: datetime,
    failing: int,
    limit: int,
    channels: int,
) -> list[ClaimedDelivery]:
    """Claim the oldest due delivery of each document; the webhooks must be locked. Channels have a longer lease."""
    holder = (lease.holder, lease.token, lease.until)
    rows = await connection.fetch(
        query("claim_deliveries"), list(webhook_ids), now, *holder, AT_ONCE, failing, limit, channel_until, channels
    )
    positions = [row["position"] for row in rows]
    found: dict[int, Message] = {**await read_changes(connection, positions)} if rows else {}
    if any(row["event"] == Event.ALARM for row in rows):
        found |= await read_alarms(connection, positions)
    return [
        ClaimedDelivery(
            row["id"],
            to_record(Receiver, row),
            to_record(Digest, row["digest"]) if row["digest"] else found[row["position"]],
            read_lease(row),
            row["failures"],
            row["delivered_at"],
            row["failing_since"],
        )
        for row in rows
    ]


async def wake_deliveries(connection: Connection, name: str, now: datetime) -> None:
    """Make all pending deliveries to a receiver due now."""
    await connection.execute(query("wake_deliveries"), name, now)


async def settle_delivery(
    connection: Connection, delivery: ClaimedDelivery, result: SendResult, settlement: Settlement, now: datetime
) -> bool:
    """Log an attempt and save the next state of delivery and receiver; return False if the lease is lost."""
    sent = (result.elapsed_ms, result.http_status, result.reason, result.detail)
    settled = await connection.fetchval(
        query("settle_delivery"), delivery.id, delivery.lease.token, *astuple(settlement), now, *sent
    )
    return settled is not None


async def release_delivery(connection: Connection, delivery: ClaimedDelivery, now: datetime) -> None:
    """Release a delivery that a stop interrupted."""
    await connection.execute(query("release_delivery"), delivery.id, delivery.lease.token, now)


async def return_expired_deliveries(connection: Connection, now: datetime) -> int:
    """Take back one batch of deliveries whose leases have expired; return how many."""
    return len(await connection.fetch(query("return_expired_deliveries"), now, _RESCUED_AT_ONCE))


async def list_deliveries(
    connection: Connection, name: str, *, limit: int, status: DeliveryStatus | None, before: int | None
) -> list[Delivery]:
    """List deliveries to a webhook with their attempts, the last delivery first. Must run inside a transaction."""
    await connection.execute(query("plan_for_values"))
    rows = await connection.fetch(query("list_deliveries"), name, status, before, limit)
    logs: dict[UUID, list[dict[str, Any]]] = {row["id"]: [] for row in rows}
    for row in await connection.fetch(query("delivery_attempts"), list(logs)):
        logs[row["delivery_id"]].append(dict(row))
    return [to_record(Delivery, row, cursor=format_cursor(row["position"]), log=logs[row["id"]]) for row in rows]


async def list_parked_ids(connection: Connection, webhook_id: int) -> set[UUID]:
    """Return the ids of the parked deliveries to a webhook."""
    return {row["id"] for row in await connection.fetch(query("list_parked_ids"), webhook_id)}


async def change_parked(
    connection: Connection, webhook_id: int, ids: Collection[UUID] | None, now: datetime, *, retry: bool
) -> list[str]:
    """Retry or dismiss the parked deliveries of a locked webhook, or those with some ids; return their new statuses."""
    name = "retry_parked" if retry else "dismiss_parked"
    chosen = None if ids is None else list(ids)
    return [row["status"] for row in await connection.fetch(query(name), webhook_id, chosen, now)]


async def prune_deliveries(connection: Connection, before: datetime) -> int:
    """Delete one batch of the deliveries and attempts that ended before a time; return how many rows."""
    deliveries = await connection.fetch(query("prune_deliveries"), before, _PRUNED_AT_ONCE)
    attempts = await connection.fetch(query("prune_delivery_log"), before, _PRUNED_AT_ONCE)
    return len(deliveries) + len(attempts)
