"""Leases of all kinds, counted for the doctor."""

from datetime import datetime

from headwater.core.errors import HandoffsMissing
from headwater.db.handoffs import count_overdue_handoffs
from headwater.db.pool import Connection
from headwater.db.sql import query


async def count_overdue_leases(connection: Connection, now: datetime) -> int:
    """Count the expired leases of any kind that are not yet taken back."""
    overdue: int = await connection.fetchval(query("count_overdue_leases"), now)
    try:
        return overdue + await count_overdue_handoffs(connection, now)
    except HandoffsMissing:
        return overdue
