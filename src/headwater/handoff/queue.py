"""The beginning: what a run has touched is queued in the transaction that saves it, so that none is ever forgotten."""

from collections.abc import Mapping

from headwater.core.errors import HandoffsMissing
from headwater.core.source import Item
from headwater.db import handoffs
from headwater.db.pool import Connection
from headwater.handoff.rules import payload_hash


async def queue_handoffs(
    connection: Connection, source_id: int, run_id: int, items: Mapping[str, Item]
) -> tuple[int, ...] | None:
    """Queue the hand-off of items, given by id; return the ids of their hand-offs, None where these are taken back."""
    payloads = {item_id: payload_hash(item) for item_id, item in items.items()}
    try:
        async with connection.transaction():
            return await handoffs.queue_handoffs(connection, source_id, run_id, payloads)
    except HandoffsMissing:
        return None
