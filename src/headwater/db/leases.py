"""The one lease shape, read from a row."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headwater.core.errors import HandoffsMissing
from headwater.core.lease import Lease
from headwater.db.handoffs import overdue_handoffs
from headwater.db.pool import Connection
from headwater.db.sql import query


def lease_of(row: Mapping[str, Any]) -> Lease:
    """Read the lease columns of a claimed row."""
    return Lease(row["lease_holder"], row["lease_token"], row["lease_until"], row["attempts"])


async def overdue_leases(connection: Connection, now: datetime) -> int:
    """Count the leases of any kind that are past their end and not yet taken back."""
    overdue: int = await connection.fetchval(query("overdue_leases"), now)
    try:
        return overdue + await overdue_handoffs(connection, now)
    except HandoffsMissing:
        return overdue
