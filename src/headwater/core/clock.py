"""Who tells the time."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time; in tests another may."""

    def now(self) -> datetime:
        """Return the time, in UTC."""

    @property
    def is_settled(self) -> bool:
        """Whether hosts may be taken by this time: not while a step of it is waited out."""
