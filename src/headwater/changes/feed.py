"""The change feed: changes of documents and jobs, in an order that misses no late commit (spec 8.5)."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from headwater.core.errors import BadRequest
from headwater.db import changes
from headwater.db.changes import Change
from headwater.db.clock import read_server_time
from headwater.db.pool import Database

_ACCEPTED = "a cursor of an earlier answer, or a day or time such as 2026-03-29 or 2026-03-29T14:00Z"


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """Reads changes by pages."""

    database: Database

    async def list_after(self, position: int, limit: int) -> list[Change]:
        """List at most `limit` changes after a position; a shorter list is complete."""
        found = await self.database.run(changes.list_changes, position, limit)
        if len(found) < limit:
            await self.number_changes()  # returns 0 if another process has just numbered them: read again anyway
            found = await self.database.run(changes.list_changes, position, limit)
        return found

    async def find_end(self) -> int:
        """Return the position of the last committed change."""
        while await self.number_changes():
            pass
        return await self.database.run(changes.read_last_position)

    async def find_start(self, since: str, field: str = "since") -> int:
        """Return the position of a cursor, day or time; raise an error that names the field."""
        position = changes.parse_cursor(since)
        if position is not None:
            if position > await self.database.run(changes.read_furthest_position):
                raise BadRequest(f"{field}: c{position} is ahead of every change here. Give {_ACCEPTED}.")
            return position
        moment = _parse_moment(since, field)
        if moment > (await self.database.run(read_server_time, readings=1)).server:
            raise BadRequest(f"{field}: {since} is in the future. Give {_ACCEPTED}.")
        return await self.find_position(moment)

    async def find_position(self, moment: datetime) -> int:
        """Return the position before the first change at or after a time."""
        end = await self.find_end()
        before = await self.database.run(changes.find_position_before, moment)
        return end if before is None else before

    async def number_changes(self) -> int:
        """Give positions to one batch of committed changes; return how many."""
        return await self.database.transact(changes.number_changes)


def _parse_moment(text: str, field: str) -> datetime:
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise BadRequest(f"{field}: give {_ACCEPTED}.") from None
