"""The manual kind: users submit its URLs."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import ClassVar

from headwater.core.frontier import Origin
from headwater.core.source import Intervals, Item
from headwater.sources.kind import Kind
from headwater.sources.run import Run


class ManualKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source that is never polled. Its URLs come from `headwater frontier submit` and from the API."""

    origin: ClassVar[Origin] = Origin.MANUAL

    concurrency: int = 100  # its URLs are of many sites

    def methods(self, interval: timedelta) -> Intervals:
        """Return no methods."""
        del interval
        return {}

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        """Yield nothing."""
        del run
        nothing: tuple[Item, ...] = ()
        for item in nothing:
            yield item
