"""The one shape of a lease on a claimed row, such as a URL, a source or a run.

A claim sets holder, token and end, and counts an attempt. A finish must give the token: a holder whose lease expired
and belongs to another holder changes nothing. The columns are `lease_holder, lease_token, lease_until, attempts`.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Lease:
    """The holder of a row, the end of the lease, and the token that a finish must give."""

    holder: str
    token: UUID
    until: datetime
    attempts: int
