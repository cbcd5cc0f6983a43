"""The clock of the process."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Returns the time. Tests use clocks of their own."""

    def now(self) -> datetime:
        """Return the time, in UTC."""

    @property
    def is_settled(self) -> bool:
        """Whether hosts may be leased by this time. They may not while the clock waits after a step."""
