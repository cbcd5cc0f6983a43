"""The one lease shape: whatever is claimed (a URL, a feed, a run) is claimed like this.

A claim sets holder, token and end, and counts an attempt; a finish must name the token, so a holder whose lease ran
out and was given to another changes nothing. The columns are `lease_holder, lease_token, lease_until, attempts`.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds something, until when, and the token that fences its completion."""

    holder: str
    token: UUID
    until: datetime
    attempts: int
