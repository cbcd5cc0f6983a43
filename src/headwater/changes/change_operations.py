"""What a door may ask about changes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from headwater.changes.feed import ChangeFeed
from headwater.core.change import Change, cursor_of
from headwater.db.context import DatabaseContext

_LOOK_SECONDS = 1.0
_LATELY = timedelta(days=1)
_PAGE = 500


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes in their order, and the cursor to go on from, which is there also when there are none yet."""

    changes: list[Change]
    next: str


class ChangeOperations:
    """The part of the desk about changes."""

    def __init__(self, context: DatabaseContext) -> None:
        self._clock = context.clock
        self._feed = ChangeFeed(context.database)

    async def page(self, since: str | None, limit: int) -> ChangePage:
        """List changes after a cursor, or since a day or time; None: from the first on."""
        position = await self._feed.start(since) if since is not None else 0
        found = await self._feed.after(position, limit)
        return ChangePage(found, cursor_of(found[-1].position if found else position))

    async def lately(self) -> str:
        """Return the cursor of 24 hours ago."""
        return cursor_of(await self._feed.position_at(self._clock.now() - _LATELY))

    async def follow(self, since: str) -> AsyncIterator[Change]:
        """Yield changes after a cursor, or since a day or time, for as long as somebody wants them."""
        position = await self._feed.start(since)
        while True:
            found = await self._feed.after(position, _PAGE)
            for change in found:
                yield change
                position = change.position
            if len(found) < _PAGE:
                await asyncio.sleep(_LOOK_SECONDS)
