"""Typed functions over queries/webhooks.sql."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from headwater.core.lease import Lease
from headwater.core.webhook import Answered, Delivery, Receiver, Settlement
from headwater.db.changes import tell_changes
from headwater.db.leases import lease_of
from headwater.db.pool import Connection
from headwater.db.sql import query

BATCH = 500
PRUNED_AT_ONCE = 2000
SCANNED_FOR_A_COUNT = 100_000


async def add_webhook(
    connection: Connection, receiver: Receiver, events: Sequence[str], *, after: int, now: datetime
) -> bool:
    """Add a receiver of what changes after a position; False where its name is taken."""
    given = (receiver.name, receiver.url, receiver.secret, list(events))
    return await connection.fetchval(query("add_webhook"), *given, after, now) is not None


async def remove_webhook(connection: Connection, name: str) -> bool:
    """Remove a receiver with its deliveries; False where there is none."""
    return await connection.fetchval(query("remove_webhook"), name) is not None


async def switch_webhook(connection: Connection, name: str, *, enabled: bool) -> bool:
    """Let a receiver have deliveries, or none for now; False where there is none."""
    return await connection.fetchval(query("switch_webhook"), name, enabled) is not None


async def receiver(connection: Connection, name: str) -> Receiver | None:
    """Return where deliveries go, with the secret."""
    row = await connection.fetchrow(query("webhook_receiver"), name)
    return Receiver(**row) if row else None


async def any_enabled(connection: Connection) -> bool:
    """Tell whether anybody is to be told of anything."""
    return bool(await connection.fetchval(query("webhooks_enabled")))


async def list_webhooks(connection: Connection, *, count_to: int, name: str | None = None) -> list[dict[str, Any]]:
    """List receivers by name and how each is doing, without their secrets."""
    return [dict(row) for row in await connection.fetch(query("list_webhooks"), name, count_to, SCANNED_FOR_A_COUNT)]


async def hold_webhooks(connection: Connection, now: datetime) -> list[int]:
    """Hold the receivers that may be sent to and that nobody else holds; in a transaction."""
    return [row["id"] for row in await connection.fetch(query("hold_webhooks"), now)]


async def hold_webhook(connection: Connection, name: str) -> int | None:
    """Hold a receiver, so that nothing of its outbox is claimed meanwhile; in a transaction."""
    webhook_id: int | None = await connection.fetchval(query("hold_webhook"), name)
    return webhook_id


async def fan_out(
    connection: Connection,
    webhook_ids: Collection[int],
    *,
    most_pending: int,
    most_parked: int,
    scan: int,
    now: datetime,
) -> bool:
    """Make deliveries of what changed, as far as there is room in each outbox; the receivers must be held.

    `scan` changes are looked at for each, at most. Tells whether there may be more for one that has room.
    """
    rows = await connection.fetch(query("fan_out"), list(webhook_ids), most_pending, most_parked, now, scan)
    return any(row["is_behind"] for row in rows)


async def claim_deliveries(
    connection: Connection,
    webhook_ids: Collection[int],
    *,
    lease: Lease,
    now: datetime,
    at_once: int,
    failing: int,
    limit: int,
) -> list[Delivery]:
    """Claim what is due, of each document the oldest; the receivers must be held."""
    whose = (lease.holder, lease.token, lease.until)
    rows = await connection.fetch(query("claim_deliveries"), list(webhook_ids), now, *whose, at_once, failing, limit)
    told = await tell_changes(connection, [row["position"] for row in rows]) if rows else {}
    return [
        Delivery(
            row["id"],
            Receiver(row["name"], row["url"], row["secret"]),
            told[row["position"]],
            lease_of(row),
            row["failures"],
            row["delivered_at"],
            row["failing_since"],
        )
        for row in rows
    ]


async def wake_deliveries(connection: Connection, name: str, now: datetime) -> None:
    """Let all be due now that a receiver has not had yet."""
    await connection.execute(query("wake_deliveries"), name, now)


async def settle_delivery(
    connection: Connection, delivery: Delivery, answered: Answered, settlement: Settlement, now: datetime
) -> bool:
    """Log an attempt and keep what becomes of the delivery and of its receiver; False when its lease is another's."""
    settled = await connection.fetchval(
        query("settle_delivery"),
        delivery.id,
        delivery.lease.token,
        settlement.status,
        settlement.reason,
        settlement.due_at,
        settlement.failures,
        settlement.not_before,
        now,
        answered.elapsed_ms,
        answered.http_status,
        answered.reason,
        answered.detail,
        settlement.counts,
    )
    return settled is not None


async def release_delivery(connection: Connection, delivery: Delivery, now: datetime) -> None:
    """Give back what was interrupted."""
    await connection.execute(query("release_delivery"), delivery.id, delivery.lease.token, now)


async def return_expired_deliveries(connection: Connection, now: datetime) -> int:
    """Take deliveries back from holders that are late, a batch at most; return how many."""
    return len(await connection.fetch(query("return_expired_deliveries"), now, BATCH))


async def list_deliveries(
    connection: Connection,
    name: str,
    *,
    limit: int,
    status: str | None = None,
    before: int | None = None,
) -> list[dict[str, Any]]:
    """List deliveries to a receiver, the last first, each with its attempts. Must run inside a transaction."""
    await connection.execute(query("plan_anew"))
    rows = await connection.fetch(query("list_deliveries"), name, status, before, limit)
    deliveries = {row["id"]: dict(row) | {"log": []} for row in rows}
    for attempt in await connection.fetch(query("delivery_attempts"), list(deliveries)):
        told = dict(attempt)
        deliveries[told.pop("delivery_id")]["log"].append(told)
    return list(deliveries.values())


async def parked_deliveries(connection: Connection, webhook_id: int) -> set[UUID]:
    """Name what a receiver will not have."""
    return {row["id"] for row in await connection.fetch(query("parked_deliveries"), webhook_id)}


async def retry_parked(
    connection: Connection, webhook_id: int, ids: Collection[UUID] | None, now: datetime
) -> list[str]:
    """Send what is parked after all, or let be what has been overtaken; return the status of each."""
    chosen = None if ids is None else list(ids)
    return [row["status"] for row in await connection.fetch(query("retry_parked"), webhook_id, chosen, now)]


async def dismiss_parked(
    connection: Connection, webhook_id: int, ids: Collection[UUID] | None, now: datetime
) -> list[UUID]:
    """Let be what is parked; return which."""
    chosen = None if ids is None else list(ids)
    return [row["id"] for row in await connection.fetch(query("dismiss_parked"), webhook_id, chosen, now)]


async def prune(connection: Connection, before: datetime) -> int:
    """Forget what ended before a time, a batch at most; return how many rows."""
    deliveries = await connection.fetch(query("prune_deliveries"), before, PRUNED_AT_ONCE)
    attempts = await connection.fetch(query("prune_delivery_log"), before, PRUNED_AT_ONCE)
    return len(deliveries) + len(attempts)
