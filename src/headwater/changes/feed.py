"""The change feed: what became of documents and jobs, in an order that misses nothing which commits late (spec 8.5)."""

import re
from datetime import UTC, date, datetime, time

from headwater.core.change import Change
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.db import changes
from headwater.db.clock import read_server_time
from headwater.db.pool import Database

_CURSOR = re.compile(r"c([0-9]{1,18})")
_WHAT_TO_GIVE = "a cursor that was answered before, or a day or time such as 2026-03-29 or 2026-03-29T14:00Z"


class ChangeFeed:
    """Reads changes by pages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def after(self, position: int, limit: int) -> list[Change]:
        """List the changes after a position, at most `limit` (up to `changes.BATCH`); fewer are all that there are."""
        found = await self._numbered(position, limit)
        if len(found) < limit:
            await self.number()  # finds none where somebody else has just let them in
            found = await self._numbered(position, limit)
        return found

    async def end(self) -> int:
        """Return the position of the last change that has committed."""
        while await self.number():
            pass
        async with self._database.connection() as connection:
            return await changes.last_position(connection)

    async def start(self, since: str, field: str = "since") -> int:
        """Return the position to read on from, given a cursor, a day or a time; refuse what is none, by its field."""
        found = _CURSOR.fullmatch(since)
        if found:
            return await self._known(int(found[1]), field)
        moment = _moment(since, field)
        async with self._database.connection() as connection:
            now = (await read_server_time(connection, readings=1)).server
        if moment > now:
            raise OperatorError(f"{field}: {since} is yet to come.", reason=Reason.BAD_REQUEST)
        return await self.position_at(moment)

    async def position_at(self, moment: datetime) -> int:
        """Return the position right before all that changed at a time or later."""
        end = await self.end()
        async with self._database.connection() as connection:
            before = await changes.position_before(connection, moment)
        return end if before is None else before

    async def number(self) -> int:
        """Let in what has committed, a batch at most; return how many changes."""
        return await self._database.transact(changes.number_changes)

    async def _numbered(self, position: int, limit: int) -> list[Change]:
        async with self._database.connection() as connection:
            return await changes.changes_after(connection, position, limit)

    async def _known(self, position: int, field: str) -> int:
        async with self._database.connection() as connection:
            furthest = await changes.furthest_position(connection)
        if position > furthest:
            raise OperatorError(
                f"{field}: c{position} is ahead of all that can have been read here. Give {_WHAT_TO_GIVE}.",
                reason=Reason.BAD_REQUEST,
            )
        return position


def _moment(text: str, field: str) -> datetime:
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise OperatorError(f"{field}: give {_WHAT_TO_GIVE}.", reason=Reason.BAD_REQUEST) from None
