"""Makes digests: once for each channel and time, in one transaction with the documents that they report."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import structlog

from headwater.core.dates import day_of
from headwater.db import digests, stories
from headwater.db.context import DatabaseContext
from headwater.db.digests import DueDigest
from headwater.db.messages import DayReport, Digest, DigestDocument
from headwater.db.pool import AWAY, Connection
from headwater.documents.days import DayOperations
from headwater.sources.health import SourceHealth, SourceSummary
from headwater.sources.listing import SourceFilter
from headwater.sources.operations import SourceOperations

log = structlog.get_logger()
MOST_DOCUMENTS = 200  # in one digest; further ones are in the next
_MOST_SILENT = 20
_MOST_COUNTED = 10_000
_SOURCES_AT_ONCE = 200
_PAUSE = timedelta(minutes=1)  # between two digests that are sent at once


@dataclass(frozen=True, slots=True)
class DigestMaker:
    """Makes the digests that are due."""

    context: DatabaseContext
    days: DayOperations
    sources: SourceOperations

    async def make_due(self) -> int:
        """Make all digests that are due. Returns how many."""
        now = self.context.clock.now()
        reports: dict[bool, DayReport] = {}
        made = 0
        for due in await self.context.database.run(digests.list_due_digests, now):
            is_daily = due.digest_hour is not None
            if is_daily not in reports:
                reports[is_daily] = await self._report(now, is_over=is_daily)
            try:
                for _ in range(due.room):
                    if not await self.context.database.transact(self._make, due, reports[is_daily], now):
                        break
                    made += 1
            except AWAY:
                raise
            except Exception:
                log.exception("digests.failed", channel=due.id)  # the digests of others must not wait for it
        return made

    async def _make(self, connection: Connection, due: DueDigest, report: DayReport, now: datetime) -> bool:
        """Make the next digest of a channel. Returns whether there was one."""
        if not await digests.lock_due_digest(connection, due.id, now):
            return False
        rows = await digests.waiting_documents(connection, due.id, MOST_DOCUMENTS)
        ids, position = [row["id"] for row in rows], max((row.pop("position") for row in rows), default=0)
        await digests.end_waiting(connection, due.id, ids)
        more = await digests.count_waiting(connection, due.id, _MOST_COUNTED)
        if not more:
            await digests.plan_digest(connection, due.id, next_due(due, now))
        known = (
            {one.document_id: one.story_id for one in await stories.stories_of(connection, ids, 1, 1)} if ids else {}
        )
        documents = [DigestDocument(**row, story_id=known.get(row["id"])) for row in rows if row["title"] is not None]
        if documents:
            digest = Digest(due.search, due.words, now, documents, more, report)
            await digests.save_digest(connection, due.id, position, digest, now)
        return bool(rows)

    async def _report(self, now: datetime, *, is_over: bool) -> DayReport:
        """Report on yesterday, which is over, or on today."""
        today = day_of(now, self.context.settings.timezone)
        return await self.report(today - timedelta(days=1) if is_over else today, is_over=is_over)

    async def report(self, day: date, *, is_over: bool) -> DayReport:
        """Report whether a day is complete, and the sources that are silent or fail."""
        found = await self.days.measure(day)
        unread = await self.days.list_unread(day) if is_over else []
        problems = [f"{one.source} was not read to the end of the day." for one in unread]
        if found.waiting:
            problems.append(f"Pages that wait to be fetched: {found.waiting}.")
        if found.failed:
            problems.append(f"Pages that could not be stored: {found.failed}.")
        silent = [f"{one.name}: {one.why}" for one in await list_faulty_sources(self.sources)]
        more = [f"and {len(silent) - _MOST_SILENT} more"] if len(silent) > _MOST_SILENT else []
        return DayReport(day, is_over, is_over and not problems, problems, silent[:_MOST_SILENT] + more)


async def list_faulty_sources(sources: SourceOperations) -> list[SourceSummary]:
    """List the sources that fail or are silent, the failing ones first. Only those that may have a fault are read."""
    faulty: list[SourceSummary] = []
    after: str | None = None
    while True:
        page = await sources.list_page(SourceFilter(), limit=_SOURCES_AT_ONCE, after=after)
        faulty += [one for one in page.sources if one.health in (SourceHealth.FAILING, SourceHealth.SILENT)]
        after = page.next
        if after is None or page.sources[-1].health.rank > SourceHealth.SILENT.rank:
            return faulty


def next_due(due: DueDigest, now: datetime) -> datetime:
    """Return when the next digest of a channel may be made."""
    if due.digest_hour is None:
        return now + _PAUSE
    return next_hour(now, due.digest_hour, due.timezone)


def next_hour(now: datetime, hour: int, timezone: str) -> datetime:
    """Return the next beginning of an hour in a time zone. An hour that a change of clocks skips begins after it."""
    zone = ZoneInfo(timezone)
    day = now.astimezone(zone).date()
    while True:
        moment = datetime.combine(day, time(hour), zone).astimezone(ZoneInfo("UTC"))
        if moment > now:
            return moment
        day += timedelta(days=1)
