"""The manual kind: what people hand in. It looks for nothing by itself."""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import ClassVar

from headwater.core.frontier import Origin
from headwater.core.source import Item, Method
from headwater.sources.kind import Kind
from headwater.sources.run import Run


class ManualKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source that is never polled; its URLs come by `headwater frontier submit` and by the API."""

    origin: ClassVar[Origin] = Origin.MANUAL

    def methods(self, interval: timedelta) -> Mapping[Method, timedelta | None]:
        """Return none: there is nothing to read."""
        del interval
        return {}

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        """Yield nothing."""
        del run
        nothing: tuple[Item, ...] = ()
        for item in nothing:
            yield item
