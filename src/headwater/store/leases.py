"""The one lease shape, read from a row."""

from collections.abc import Mapping
from typing import Any

from headwater.model.lease import Lease


def lease_of(row: Mapping[str, Any]) -> Lease:
    """Read the lease columns of a claimed row."""
    return Lease(row["lease_holder"], row["lease_token"], row["lease_until"], row["attempts"])
