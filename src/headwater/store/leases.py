"""The one lease shape, read from a row."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headwater.errors import HandoffsMissing
from headwater.model.lease import Lease
from headwater.store.handoffs import overdue_handoffs
from headwater.store.pool import Connection
from headwater.store.sql import query


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
