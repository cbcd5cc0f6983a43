"""What a door may ask of days: what was NEW and LATEST on one, and whether it was read whole."""

from dataclasses import astuple, dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any

from headwater.core import cron
from headwater.core.dates import bounds, day_before, day_of
from headwater.core.errors import HeadwaterError, OperatorError
from headwater.core.reasons import Reason
from headwater.core.source import Source
from headwater.core.text import make_storable
from headwater.db import items, runs, sources
from headwater.db.context import DatabaseContext
from headwater.db.items import DayFilter
from headwater.db.pool import Connection
from headwater.sources.kind import Kind
from headwater.sources.registry import get_kind

# Read this long after its end, a day lacks too much of what was updated again since.
_ON_TIME = timedelta(hours=6)
_FIRST, _LAST = date(1000, 1, 1), date(3000, 1, 1)
_LOOKED_BACK = 30  # days, for the last that was read after its end


class DayState(StrEnum):
    """How a source of dated days stands with a day."""

    COMPLETE = "complete"  # read whole, soon after its end
    RECONSTRUCTED = "reconstructed"  # read whole, but long after: what was updated again since is missing
    SO_FAR = "so_far"  # read whole, but before its end
    RUNNING = "running"  # being read for the first time
    FAILED = "failed"  # could not be read whole
    NOT_READ = "not_read"


_WHOLE = (DayState.COMPLETE, DayState.RECONSTRUCTED)


@dataclass(frozen=True, slots=True)
class SourceDay:
    """A source of dated days, and how it stands with a day."""

    source: str
    day: date
    timezone: str
    state: DayState
    read_at: datetime | None = None
    run_id: int | None = None  # its last run for that day
    reason: str | None = None  # why that failed
    error: str | None = None  # in words; or what could not be kept, though all was read


@dataclass(frozen=True, slots=True)
class DayView:
    """A day: what was NEW and LATEST, how its sources stand, and which of them should have a later one by now."""

    day: date
    items: list[dict[str, Any]]
    sources: list[SourceDay] = field(default_factory=list)
    behind: list[SourceDay] = field(default_factory=list)


class DayOperations:
    """Answers from the daily index."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context

    async def today(self, only: DayFilter | None = None) -> DayView:
        """Return today, in the time zone of this program."""
        today = day_of(self._context.clock.now(), self._context.settings.timezone)
        return await self.day(today, only)

    async def day(self, wanted: date | None, only: DayFilter | None = None) -> DayView:
        """Return a day; None: the last that every look shows alike, read whole after its end."""
        only = DayFilter(*(value if value is None else make_storable(value) for value in astuple(only or DayFilter())))
        if wanted and not _FIRST < wanted < _LAST:
            raise OperatorError(f"{wanted} is no day that anything happens on.", reason=Reason.BAD_REQUEST)
        async with self._context.database.connection() as connection:
            dated = await self._dated(connection, only.source)
            day = wanted or await self._latest(connection, dated, only.source)
            return DayView(
                day,
                await items.read_day(connection, day, only),
                await self._states(connection, dated, day),
                await self._behind(connection, dated, day) if wanted is None else [],
            )

    async def _dated(self, connection: Connection, name: str | None) -> dict[str, tuple[Source, Kind]]:
        """Return the sources of dated days, or the one of that name; raise where there is no source of it."""
        known = await sources.get_all_sources(connection)
        if name is not None and name not in [source.name for source in known]:
            raise sources.unknown_source(name)
        found: dict[str, tuple[Source, Kind]] = {}
        for source in known:
            try:
                kind = get_kind(source)
            except OperatorError:
                continue  # a kind that is not installed here; `source list` tells
            if kind.dated and name in (None, source.name):
                found[source.name] = source, kind
        return found

    async def _latest(self, connection: Connection, dated: dict[str, tuple[Source, Kind]], name: str | None) -> date:
        """Return the last good day: of sources of dated days the last that was read whole, else the last with items."""
        good = [
            day
            for source, kind in dated.values()
            if (source.enabled or name) and (day := await self._last_good(connection, source, kind))
        ]
        if good:
            return max(good)
        source = await sources.get_source(connection, name) if name else None
        today = day_of(self._context.clock.now(), self._context.settings.timezone)
        indexed = await items.last_day_indexed(connection, source.id if source else None, today)
        if indexed is None or (name and dated):
            told = [Reason.UNKNOWN_DAY.sentence, *[await self._last_try(connection, each) for each in dated]]
            raise HeadwaterError(" ".join(filter(None, told)), reason=Reason.UNKNOWN_DAY)
        return indexed

    async def _last_try(self, connection: Connection, name: str) -> str:
        """Say how the last run of a source that has no good day went."""
        tried = await runs.list_runs(connection, source=name, limit=1)
        if not tried:
            return f"{name} has not been tried."
        run = tried[0]
        told = f"{run['status']}, {run['reason']}: {run['error'] or ''}" if run["reason"] else run["status"]
        return f"{name}, last tried for {run['day']}: {told}".rstrip(": ")

    async def _last_good(self, connection: Connection, source: Source, kind: Kind) -> date | None:
        read = await items.last_days_read(connection, source.id, _LOOKED_BACK)
        return next((day for day, read_at in read if read_at >= self._end(day, kind)), None)

    async def _states(
        self, connection: Connection, dated: dict[str, tuple[Source, Kind]], day: date
    ) -> list[SourceDay]:
        ids = [source.id for source, _ in dated.values()]
        rows = await items.day_states(connection, ids, day) if ids else []
        return [self._state(row, dated[row["source"]][1], day) for row in rows]

    async def _behind(
        self, connection: Connection, dated: dict[str, tuple[Source, Kind]], shown: date
    ) -> list[SourceDay]:
        """Return the sources whose newest day should have been read by now, and was not."""
        behind: list[SourceDay] = []
        for name, (source, kind) in dated.items():
            zone = self._zone(kind)
            slot = cron.last_slot(kind.schedule or "", zone, self._context.clock.now())
            if slot and slot > source.created_at and source.enabled and day_before(slot, zone) > shown:
                (state,) = await self._states(connection, {name: (source, kind)}, day_before(slot, zone))
                behind += [] if state.state in _WHOLE else [state]
        return behind

    def _state(self, row: dict[str, Any], kind: Kind, day: date) -> SourceDay:
        read_at, end = row["read_at"], self._end(day, kind)
        if read_at is not None:
            late = DayState.RECONSTRUCTED if read_at > end + _ON_TIME else DayState.COMPLETE
            state = DayState.SO_FAR if read_at < end else late
        else:
            state = {"running": DayState.RUNNING, "failed": DayState.FAILED}.get(row["run_status"], DayState.NOT_READ)
        failed = row["run_status"] == "failed"
        return SourceDay(
            row["source"],
            day,
            self._zone(kind),
            state,
            read_at,
            row["run_id"],
            row["run_reason"] if failed else None,
            row["run_error"],
        )

    def _end(self, day: date, kind: Kind) -> datetime:
        return bounds(day, self._zone(kind))[1]

    def _zone(self, kind: Kind) -> str:
        return kind.timezone or self._context.settings.timezone
