"""Typed functions over queries/alarms.sql."""

from datetime import date, datetime, timedelta
from typing import NamedTuple

from headwater.core.record import record
from headwater.db.messages import AlarmKind
from headwater.db.pool import Connection
from headwater.db.sql import query, to_record


@record
class Alarm:
    """A fault that an operator must know. Each receiver of alarms gets its beginning once, and its end once."""

    id: int
    kind: AlarmKind
    subject: str
    """The source, the day, the folder or the receiver."""
    message: str
    """Why it began."""
    began_at: datetime
    ended_at: datetime | None
    """Null: it is open."""


class ExtractionSums(NamedTuple):
    """The sums of documents, by which extraction is compared with the past of its source."""

    documents: int
    characters: int
    without_title: int
    without_byline: int
    without_date: int
    selected: int
    """Fields that the selectors of the source gave."""
    confidence: float


async def take_alarm_check(connection: Connection, now: datetime, interval: timedelta) -> bool:
    """Return whether this process checks alarms now: none did during the interval."""
    return await connection.fetchval(query("take_alarm_check"), now, now - interval) is not None


async def begin_alarm(connection: Connection, kind: AlarmKind, subject: str, message: str, now: datetime) -> bool:
    """Begin an alarm and make its change; return False if it is open already."""
    return await connection.fetchval(query("begin_alarm"), kind, subject, message, now) is not None


async def end_alarm(connection: Connection, alarm_id: int, now: datetime) -> bool:
    """End an alarm and make its change; return False if it is over already."""
    return await connection.fetchval(query("end_alarm"), alarm_id, now) is not None


async def see_alarm(connection: Connection, kind: AlarmKind, subject: str, now: datetime) -> None:
    """Save that an open alarm was checked where it began."""
    await connection.execute(query("see_alarm"), kind, subject, now)


async def list_seen_disks(connection: Connection, since: datetime) -> set[str]:
    """Return the disks of open alarms that their machines measured after a time."""
    return {row["subject"] for row in await connection.fetch(query("list_seen_disks"), since)}


async def list_alarms(connection: Connection, limit: int, *, only_open: bool) -> list[Alarm]:
    """List alarms: open ones first, then the last ones."""
    return [to_record(Alarm, row) for row in await connection.fetch(query("list_alarms"), only_open, limit)]


async def count_extractions(connection: Connection, limit: int) -> int:
    """Count the new documents of the next changes; return how many changes there were."""
    value: int = await connection.fetchval(query("count_extractions"), limit)
    return value


async def compare_extractions(
    connection: Connection, first_day: date
) -> dict[str, tuple[ExtractionSums | None, ExtractionSums | None]]:
    """Return, by source and kind of page, the sums of the days before and those of the last days."""
    found: dict[str, list[ExtractionSums | None]] = {}
    for row in await connection.fetch(query("compare_extractions"), first_day):
        sums = ExtractionSums(*(row[name] for name in ExtractionSums._fields))
        name = " ".join([row["name"], *([f"({row['page_kind']})"] if row["page_kind"] else [])])
        found.setdefault(name, [None, None])[row["is_recent"]] = sums
    return {name: (past, recent) for name, (past, recent) in found.items()}


async def prune_extraction_days(connection: Connection, before: date) -> None:
    """Delete the sums of old days."""
    await connection.execute(query("prune_extraction_days"), before)
