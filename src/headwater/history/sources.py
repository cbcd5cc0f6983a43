"""The past of sources: how fresh their documents are, their polls and their changed settings."""

from collections.abc import Collection
from datetime import date, datetime, timedelta
from typing import Literal

from headwater.core.record import record
from headwater.core.source import Method
from headwater.db import history, source_history, sources
from headwater.db.context import DatabaseContext
from headwater.db.history import HistoryMark
from headwater.db.pool import Connection, Database
from headwater.db.source_history import DayRow, PollRow

DAYS = 30
_MOST_POLLS = 300
_MOST_EVENTS = 60
_MOST_MARKS = 30
_KEEP_POLLS = timedelta(days=7)
_KEEP_DAYS = timedelta(days=60)
_PRUNE_BATCH = 5000
_MEASURE_BATCH = 20
_MEASURED_ITEMS = 200
EventKind = Literal["poll", "run", "setting"]


@record
class Lag:
    """The time between two steps, of the newest items."""

    p50_seconds: float
    """The median."""
    p95_seconds: float


@record
class Freshness:
    """The steps of the newest items, at most 200 of the last 30 days. Null: no item has both times."""

    seen: Lag | None
    """From the publication to the first sighting. Items that are older than their source have none."""
    fetched: Lag | None
    """From the first sighting to the end of the first good answer."""
    searchable: Lag | None
    """From that end until searches find the document."""
    total: Lag | None
    """From the publication until searches find the document."""
    measured_at: datetime


@record
class SourceDayHistory:
    """A day (UTC) of a source."""

    day: date
    items: int
    """Published on that day."""
    polls: int
    failed_polls: int
    total: Lag | None
    """From the publication until searches find the document, as it was measured last on that day."""


@record
class SourceTrend:
    """The last 30 days of a source that were measured, the oldest first."""

    days: list[SourceDayHistory]
    freshness: Freshness | None
    """Null: it was not measured yet."""


@record
class SourceEvent:
    """A poll, several polls in a row that found nothing, a poll of a run, or a changed setting."""

    at: datetime
    """Of several polls: the last one."""
    since: datetime
    """Of several polls: the first one."""
    kind: EventKind
    polls: int
    method: Method | None
    reason: str | None
    text: str | None
    """The error of a poll, or the setting and its values."""
    items: int | None
    new_items: int
    new_urls: int
    run_id: int | None


@record
class SourceHistory(SourceTrend):
    """The past of a source."""

    name: str
    events: list[SourceEvent]
    """The newest first: polls of the last 7 days and changed settings."""
    marks: list[HistoryMark]
    """The restarts and the changes of its settings in the last 30 days, the newest first."""


def describe_event(event: SourceEvent) -> str:
    """Describe an event in a few words."""
    if event.kind == "setting":
        return event.text or ""
    if event.text is not None:
        return f"failed ({(event.reason or '').replace('_', ' ')}): {event.text}"
    if event.polls > 1:
        return f"{event.polls} polls found nothing new"
    new = [f"{event.new_items:,} new of {event.items or 0:,} items"] if event.new_items else []
    new += [f"{event.new_urls:,} new URL{'s' * (event.new_urls != 1)}"] if event.new_urls else []
    return ", ".join(new) or "nothing new"


class SourceHistoryOperations:
    """The operations on the past of sources."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context
        self._database = context.database

    async def list_trends(self, names: Collection[str]) -> dict[str, SourceTrend]:
        """Return the last 30 days of sources by name. A source that was not measured yet is left out."""
        since = self._context.clock.now().date() - timedelta(days=DAYS - 1)
        found = await self._database.run(source_history.list_days, list(names), since)
        return {name: SourceTrend(list(map(_make_day, days)), _find_freshness(days)) for name, days in found.items()}

    async def show(self, name: str) -> SourceHistory:
        """Return the last days of a source, how fresh its documents are, and what happened to it."""
        trends = await self.list_trends([name])
        since = self._context.clock.now() - timedelta(days=DAYS)

        async def work(connection: Connection) -> tuple[list[SourceEvent], list[HistoryMark]]:
            source = await sources.require_source(connection, name)
            polls = await source_history.list_polls(connection, source.id, _MOST_POLLS)
            marks = await source_history.list_source_marks(connection, source.id, _MOST_MARKS)
            all_marks = await history.list_marks(connection, since, _MOST_MARKS, name)
            return merge_events(polls, marks)[:_MOST_EVENTS], all_marks

        events, marks = await self._database.run(work)
        trend = trends.get(name) or SourceTrend([], None)
        return SourceHistory(days=trend.days, freshness=trend.freshness, name=name, events=events, marks=marks)

    async def get_state(self, name: str) -> object:
        """Return a value that changes when something happens to a source."""
        return await self._database.run(source_history.get_source_state, name, self._context.clock.now())


def merge_events(polls: list[PollRow], marks: list[tuple[datetime, str]]) -> list[SourceEvent]:
    """Return all events, the newest first. Polls in a row that found nothing are one event."""
    events = [_make_event(poll) for poll in polls]
    events += [SourceEvent(at, at, "setting", 0, None, None, label, None, 0, 0, None) for at, label in marks]
    events.sort(key=lambda event: event.at, reverse=True)
    merged: list[SourceEvent] = []
    for event in events:
        if merged and _is_quiet(event) and _is_quiet(merged[-1]) and event.method == merged[-1].method:
            last = merged.pop()
            event = SourceEvent(
                last.at, event.since, "poll", last.polls + 1, event.method, event.reason, None, last.items, 0, 0, None
            )
        merged.append(event)
    return merged


def _make_event(poll: PollRow) -> SourceEvent:
    return SourceEvent(
        at=poll.at,
        since=poll.at,
        kind="poll" if poll.run_id is None else "run",
        polls=1,
        method=Method(poll.method),
        reason=poll.reason,
        text=poll.error,
        items=poll.items,
        new_items=poll.new_items,
        new_urls=poll.new_urls,
        run_id=poll.run_id,
    )


def _is_quiet(event: SourceEvent) -> bool:
    return event.kind == "poll" and event.text is None and not event.new_items and not event.new_urls


def _make_day(row: DayRow) -> SourceDayHistory:
    return SourceDayHistory(row.day, row.items, row.polls, row.failed_polls, _make_lag(row.total_lags))


def _make_lag(values: list[float] | None) -> Lag | None:
    return Lag(*values) if values else None


def _find_freshness(days: list[DayRow]) -> Freshness:
    last = days[-1]
    steps = (last.seen_lags, last.fetched_lags, last.searchable_lags, last.total_lags)
    seen, fetched, searchable, total = map(_make_lag, steps)
    return Freshness(seen, fetched, searchable, total, last.measured_at)


async def measure_sources(database: Database, now: datetime) -> int:
    """Measure the next sources that were not measured for an hour, or that had something new. Return how many."""

    async def work(connection: Connection) -> int:
        ids = await source_history.find_unmeasured(connection, now, _MEASURE_BATCH)
        if ids:
            await source_history.measure_sources(connection, ids, now, _MEASURED_ITEMS)
            await source_history.prune_days(connection, ids, (now - _KEEP_DAYS).date())
        return len(ids)

    await database.transact(source_history.prune_polls, now - _KEEP_POLLS, _PRUNE_BATCH)
    return await database.transact(work)
