"""The kind API: adding a kind of source is writing one class.

A kind declares its attributes with defaults; a source row may override any of them. `discover` yields items and uses
`run.http`, `run.state`, `run.now` and nothing else.
"""

from collections.abc import AsyncIterator
from typing import ClassVar

import msgspec

from headwater.model.frontier import Origin
from headwater.model.source import Item
from headwater.policy import cron
from headwater.policy.days import check_timezone
from headwater.sources.run import Run


class Kind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every source inherits. Each field is an attribute that a source row may override."""

    origin: ClassVar[Origin] = Origin.FEED

    schedule: str | None = None  # a cron string in the source's time zone; None: polled by interval
    timezone: str | None = None  # None: the setting `timezone`
    poll_interval_minutes: int | None = None  # None: the setting of the same name
    priority: int = 5  # 1 (least) to 10
    rate_per_second: float | None = None  # pages asked of one host; None: as its robots.txt or the settings say

    def discover(self, run: Run) -> AsyncIterator[Item]:
        """Yield what the source lists now."""
        raise TypeError(f"{type(self).__name__} must define discover()")

    def partition(self, item: Item) -> str | None:
        """Return where an item's raw bytes go below the source's folder; None: by host and URL hash."""
        del item
        return None

    def check(self) -> None:
        """Refuse settings that cannot work, with a ValueError that names the field."""
        if self.schedule is not None:
            try:
                cron.check(self.schedule)
            except ValueError as error:
                raise ValueError(f"schedule: {error}") from None
        if self.timezone is not None:
            try:
                check_timezone(self.timezone)
            except ValueError as error:
                raise ValueError(f"timezone: {error}") from None
        if self.poll_interval_minutes is not None and not 1 <= self.poll_interval_minutes <= 7 * 24 * 60:
            raise ValueError("poll_interval_minutes: must be from 1 to 10080")
        if self.rate_per_second is not None and not 0.0001 <= self.rate_per_second <= 1000:
            raise ValueError("rate_per_second: must be from 0.0001 to 1000")
        if not 1 <= self.priority <= 10:
            raise ValueError("priority: must be from 1 to 10")
