"""Operations on days: the NEW and LATEST items of a day, and whether its sources were read to their ends."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

from headwater.core import cron
from headwater.core.dates import bounds, day_before, day_of
from headwater.core.errors import BadRequest, HeadwaterError, OperatorError
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.core.source import Source
from headwater.core.text import make_storable
from headwater.db import completeness, items, runs, sources
from headwater.db.completeness import MissingItem, SourceCompleteness
from headwater.db.context import DatabaseContext
from headwater.db.items import DayFilter as DayFilter
from headwater.db.items import DayItem as DayItem
from headwater.db.items import DayPosition, DayReading
from headwater.db.items import ItemCount as ItemCount
from headwater.db.pool import Connection
from headwater.db.runs import RunFilter
from headwater.documents.content_filter import prepare_filter
from headwater.sources.kind import Kind
from headwater.sources.registry import get_kind, get_kinds

# A day that is read later than this after its end lacks too many updates.
_ON_TIME = timedelta(hours=6)
_FIRST, _LAST = date(1000, 1, 1), date(3000, 1, 1)
_MOST_TOPICS = 30
_MAX_DAYS_BACK = 30  # to look for the last day that was read after its end


class DayState(StrEnum):
    """The state of a day of a source."""

    COMPLETE = "complete"  # read to its end, soon after it
    RECONSTRUCTED = "reconstructed"  # read long after its end: items that were updated again since are missing
    SO_FAR = "so_far"  # read before its end
    RUNNING = "running"  # being read for the first time
    FAILED = "failed"
    NOT_READ = "not_read"


_CURSOR = re.compile("([0-9-]{10})_(.+)_(NEW|LATEST)_(.+)_([0-9a-f]{64})")
_MISSING_CURSOR = re.compile("([a-z0-9][a-z0-9._-]{0,63})_([0-9a-f]{64})")
_COUNTS = ("expected", "stored", "waiting", "failed", "unfetched")
WHOLE_DAYS = (DayState.COMPLETE, DayState.RECONSTRUCTED)
_DatedSources = dict[str, tuple[Source, Kind]]


@record
class SourceDay:
    """The state of a day of a source of dated days."""

    source: str
    day: date
    timezone: str
    """The time zone of the day."""
    state: DayState
    read_at: datetime | None = None
    """When the day was read to its end."""
    run_id: int | None = None
    """The last run for the day."""
    reason: str | None = None
    """Why that run failed: a code from the closed list of reasons."""
    error: str | None = None
    """The error as text, or the items that could not be saved though the day was read to its end."""


@record
class DayView:
    """The NEW and LATEST items of a day."""

    day: date
    timezone: str
    """The time zone of the day, except for the sources of dated days."""
    items: list[DayItem]
    next: str | None
    """The `after` of the next page. Null on the last page."""
    sources: list[SourceDay]
    """The sources of dated days, and whether their day is complete."""
    behind: list[SourceDay]
    """The sources that should have a later day by now; only for the latest day."""


@record
class DayCompleteness:
    """How many items of a day are expected, and how many have their page, in all and by source."""

    day: date
    expected: int
    stored: int
    waiting: int
    failed: int
    unfetched: int
    sources: list[SourceCompleteness]
    """The sources with items of the day, those with the most missing pages first."""
    days: list[SourceDay]
    """The sources of dated days, and whether the day was read to its end."""


@record
class MissingPage:
    """Items of a day whose page is not stored, by source."""

    items: list[MissingItem]
    next: str | None
    """The `after` of the next page; null on the last page."""


@record
class DayCounts:
    """The numbers of items of a day that match a filter, the largest first."""

    day: date
    new: int
    latest: int
    sources: list[ItemCount]
    categories: list[ItemCount]
    """By the category of the source."""
    topics: list[ItemCount]
    """The most frequent topics of the newest 1,000 items. An item may have several, or none."""


@dataclass(frozen=True, slots=True)
class DayOperations:
    """Reads the daily index."""

    context: DatabaseContext

    async def today(
        self, only: DayFilter | None = None, *, limit: int | None = None, after: str | None = None
    ) -> DayView:
        """Return today in the time zone of this program. The pages after the first stay on their day."""
        return await self.day(None if after else self._today(), only, limit=limit, after=after)

    def _today(self) -> date:
        return day_of(self.context.clock.now(), self.context.settings.timezone)

    async def day(
        self, wanted: date | None, only: DayFilter | None = None, *, limit: int | None = None, after: str | None = None
    ) -> DayView:
        """Return a day, or by default the latest day that was read after its end; the whole day or a page of it.

        A page that follows another one is of the same day.
        """
        of_page, position = _read_cursor(after) if after is not None else (None, None)
        if wanted and of_page and wanted != of_page:
            raise _bad_cursor()
        wanted = wanted or of_page
        if wanted:
            self._check_range(wanted)
        async with self.context.database.connection() as connection, connection.transaction():
            only = await prepare_filter(connection, only or DayFilter())
            dated = await self._find_dated(connection, only)
            day = wanted or await self._find_latest(connection, dated, only.source)
            found, last = await items.read_day(connection, day, only, limit, position)
            states = await self._read_states(connection, dated, day)
            behind = await self._find_behind(connection, dated, day) if wanted is None else []
            cursor = _format_cursor(day, last) if last else None
            return DayView(day, self.context.settings.timezone, found, cursor, states, behind)

    async def count(self, day: date, only: DayFilter | None = None) -> DayCounts:
        """Count the items of a day by source, category and topic."""
        self._check_range(day)
        async with self.context.database.connection() as connection, connection.transaction():
            only = await prepare_filter(connection, only or DayFilter())
            facets = await items.count_day(connection, day, only, most_topics=_MOST_TOPICS)
        new, latest = (sum(getattr(one, bucket) for one in facets.sources) for bucket in ("new", "latest"))
        return DayCounts(day, new, latest, facets.sources, facets.categories, facets.topics)

    async def measure(self, day: date | None = None, *, source: str | None = None) -> DayCompleteness:
        """Measure whether a day, by default today, is complete: the listed items, and those whose page is stored."""
        day = day or self._today()
        self._check_range(day)
        async with self.context.database.connection() as connection, connection.transaction():
            only = await prepare_filter(connection, DayFilter(source))
            found = await completeness.count_complete(connection, day, only.source)
            states = await self._read_states(connection, await self._find_dated(connection, only), day)
        sums = {name: sum(getattr(one, name) for one in found) for name in _COUNTS}
        return DayCompleteness(day=day, **sums, sources=found, days=states)

    async def list_unread(self, day: date) -> list[SourceDay]:
        """List the sources of dated days that have not read a day to its end, though they were there and enabled."""
        self._check_range(day)
        async with self.context.database.connection() as connection:
            dated = {
                name: (source, kind)
                for name, (source, kind) in (await self._find_dated(connection, DayFilter())).items()
                if source.enabled and source.created_at < self._end(day, kind)
            }
            states = await self._read_states(connection, dated, day)
        return [one for one in states if one.state not in WHOLE_DAYS]

    async def list_missing(
        self, day: date | None = None, *, source: str | None = None, limit: int = 50, after: str | None = None
    ) -> MissingPage:
        """List the items of a day, by default of today, whose page is not stored, each with the reason."""
        day = day or self._today()
        self._check_range(day)
        position = _MISSING_CURSOR.fullmatch(after) if after is not None else None
        if after is not None and position is None:
            raise _bad_cursor()
        async with self.context.database.connection() as connection, connection.transaction():
            only = await prepare_filter(connection, DayFilter(source))
            found = await completeness.list_missing(
                connection, day, only.source, after=(position[1], position[2]) if position else None, limit=limit
            )
        return MissingPage(found, f"{found[-1].source}_{found[-1].item_id}" if len(found) == limit else None)

    def _check_range(self, day: date) -> None:
        if not _FIRST < day < _LAST:
            raise BadRequest(f"{day} is out of range: choose a year from 1000 to 2999.")

    async def _find_dated(self, connection: Connection, only: DayFilter) -> _DatedSources:
        """Return the sources of dated days that a filter admits."""
        found: _DatedSources = {}
        dated = [name for name, kind in get_kinds().items() if kind.dated]
        for source in await sources.get_sources_of_kinds(connection, dated):
            try:
                kind = get_kind(source)
            except OperatorError:
                continue  # its settings cannot be used; `source list` reports it
            category = f"{source.settings.get('category') or ''}/"
            has_category = only.category is None or category.startswith(f"{only.category}/")
            if has_category and only.source in (None, source.name):
                found[source.name] = source, kind
        return found

    async def _find_latest(self, connection: Connection, dated: _DatedSources, name: str | None) -> date:
        """Return the last day that a dated source was read to its end, or else the last day with items."""
        complete = []
        for source, kind in dated.values():
            if source.enabled or name:
                readings = await items.last_days_read(connection, source.id, _MAX_DAYS_BACK)
                complete += [day for day, read_at in readings if read_at >= self._end(day, kind)][:1]
        if complete:
            return max(complete)
        source_id = None
        if name and (one := await sources.get_source(connection, name)):
            source_id = one.id
        indexed = await items.last_day_indexed(connection, source_id, self._today())
        if indexed is None or (name and dated):
            attempts = [await self._explain_last_run(connection, each) for each in dated]
            raise HeadwaterError(" ".join([Reason.UNKNOWN_DAY.sentence, *attempts]), reason=Reason.UNKNOWN_DAY)
        return indexed

    async def _explain_last_run(self, connection: Connection, name: str) -> str:
        last = await runs.list_runs(connection, RunFilter(source=name), limit=1)
        if not last:
            return f"{name} has no runs yet."
        run = last[0]
        outcome = f"{run.status}, {run.reason}: {run.error or ''}" if run.reason else run.status
        return f"{name}, last run for {run.day}: {outcome}".rstrip(": ")

    async def _read_states(self, connection: Connection, dated: _DatedSources, day: date) -> list[SourceDay]:
        ids = [source.id for source, _ in dated.values()]
        readings = await items.list_day_readings(connection, ids, day) if ids else []
        return [self._make_state(reading, dated[reading.source][1], day) for reading in readings]

    async def _find_behind(self, connection: Connection, dated: _DatedSources, shown: date) -> list[SourceDay]:
        """Return the sources whose newest day should be read by now, and is not."""
        behind: list[SourceDay] = []
        for name, (source, kind) in dated.items():
            zone = self._zone(kind)
            slot = cron.last_slot(kind.schedule or "", zone, self.context.clock.now())
            if slot and slot > source.created_at and source.enabled and day_before(slot, zone) > shown:
                (state,) = await self._read_states(connection, {name: (source, kind)}, day_before(slot, zone))
                behind += [] if state.state in WHOLE_DAYS else [state]
        return behind

    def _make_state(self, reading: DayReading, kind: Kind, day: date) -> SourceDay:
        read_at, end = reading.read_at, self._end(day, kind)
        if read_at is None:
            states = {"running": DayState.RUNNING, "failed": DayState.FAILED}
            state = states.get(reading.run_status or "", DayState.NOT_READ)
        elif read_at < end:
            state = DayState.SO_FAR
        else:
            state = DayState.RECONSTRUCTED if read_at > end + _ON_TIME else DayState.COMPLETE
        reason = reading.run_reason if reading.run_status == "failed" else None
        return SourceDay(
            reading.source, day, self._zone(kind), state, read_at, reading.run_id, reason, reading.run_error
        )

    def _end(self, day: date, kind: Kind) -> datetime:
        return bounds(day, self._zone(kind))[1]

    def _zone(self, kind: Kind) -> str:
        return kind.timezone or self.context.settings.timezone


def _format_cursor(day: date, last: DayPosition) -> str:
    return f"{day}_{last.source}_{last.bucket}_{last.moment:%Y-%m-%dT%H:%M:%S.%fZ}_{last.item_id}"


def _read_cursor(text: str) -> tuple[date, DayPosition]:
    parts = _CURSOR.fullmatch(text)
    try:
        day, source, bucket, moment, item_id = parts.groups() if parts else ("",) * 5
        return date.fromisoformat(day), DayPosition(
            make_storable(source), bucket, datetime.fromisoformat(moment).astimezone(UTC), item_id
        )
    except (ValueError, OverflowError):
        raise _bad_cursor() from None


def _bad_cursor() -> BadRequest:
    return BadRequest("after: must be the `next` of the page before, of the same day.")
