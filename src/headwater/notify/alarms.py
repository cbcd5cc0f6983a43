"""Compare the state of Headwater with the open alarms, begin those that are missing, and end those that are over.

An alarm and the change that reports it are made in one transaction, so each receiver gets it once, and once more when
it is over. A state between good and bad neither begins nor ends an alarm.
"""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path

import structlog
from rich.filesize import decimal

from headwater.changes.operations import WebhookOperations
from headwater.changes.outbox import FAILURES_BEFORE_A_PAUSE
from headwater.core.dates import bounds, day_of
from headwater.core.record import record
from headwater.core.waiting import wait_for
from headwater.db import alarms, search_index, sources
from headwater.db.alarms import Alarm as Alarm
from headwater.db.context import DatabaseContext
from headwater.db.messages import AlarmKind as AlarmKind
from headwater.db.pool import AWAY, Connection
from headwater.documents.days import DayOperations
from headwater.notify.digests import list_faulty_sources
from headwater.notify.drift import can_compare, find_drift
from headwater.sources.health import SourceHealth, SourceSummary
from headwater.sources.operations import SourceOperations

log = structlog.get_logger()
CHECK_EVERY = timedelta(minutes=1)
_FAILS_FOR = timedelta(hours=1)
_STUCK_FOR = timedelta(hours=1)
_READ_BY = timedelta(hours=6)  # after the end of a day
_DAYS_CHECKED = 3
_EARLIER_CHECKED = 5  # in one check, so that many open alarms cost no more
_UNSEEN_FOR = timedelta(days=1)
LOWEST_FREE_BYTES = 2048 * 1024**2
LOWEST_FREE_SHARE = 0.05
_CALM = 1.2  # of these, from which on a disk has enough space again
_RECENT_DAYS, _KEPT_DAYS = 2, 60
_COUNTED_AT_ONCE = 1000
_MOST_STEPS = 20
_MOST_OPEN = 10_000
_MOST_LISTED = 500


@record
class AlarmList:
    """Alarms: open ones first, then the last ones."""

    alarms: list[Alarm]


@dataclass(slots=True)
class _Found:
    """The faults with their reasons, and the subjects that are neither good nor bad."""

    open: list[Alarm]
    bad: dict[tuple[AlarmKind, str], str] = field(default_factory=dict)
    undecided: set[tuple[AlarmKind, str]] = field(default_factory=set)

    def add(self, kind: AlarmKind, subject: str, message: str) -> None:
        self.bad[kind, subject] = message

    def leave(self, kind: AlarmKind, is_left: Callable[[str], bool]) -> None:
        """Neither begin nor end the open alarms of a kind whose subject is left."""
        self.undecided |= {(kind, one.subject) for one in self.open if one.kind is kind and is_left(one.subject)}


class AlarmOperations:
    """Operations on alarms."""

    def __init__(self, context: DatabaseContext) -> None:
        self._database = context.database

    async def list_alarms(self, *, only_open: bool = False, limit: int = 100) -> AlarmList:
        """List alarms: open ones first, then the last ones."""
        return AlarmList(await self._database.run(alarms.list_alarms, min(limit, _MOST_LISTED), only_open=only_open))


@dataclass(frozen=True, slots=True)
class AlarmKeeper:
    """Begins and ends alarms."""

    context: DatabaseContext
    days: DayOperations
    sources: SourceOperations
    webhooks: WebhookOperations

    async def check(self, now: datetime) -> list[Alarm]:
        """Begin and end alarms. Returns those that are open now."""
        found = _Found(open=await self._list_open())
        for check, kinds in (
            (self._check_sources, (AlarmKind.SOURCE_FAILING, AlarmKind.SOURCE_SILENT)),
            (self._check_days, (AlarmKind.DAY_INCOMPLETE,)),
            (self._check_extraction, (AlarmKind.EXTRACTION_DRIFTED,)),
            (self._check_outboxes, (AlarmKind.OUTBOX_STUCK,)),
            (self._check_unseen_disks, (AlarmKind.DISK_LOW,)),
        ):
            try:
                await check(found, now)
            except AWAY:
                raise
            except Exception:
                log.exception("alarms.check_failed", kinds=kinds)
                for kind in kinds:
                    found.leave(kind, lambda _: True)
        await self.context.database.transact(self._save, found, now)
        return await self._list_open()

    async def _save(self, connection: Connection, found: _Found, now: datetime) -> None:
        for (kind, subject), message in found.bad.items():
            if await alarms.begin_alarm(connection, kind, subject, message, now):
                log.warning("alarm.began", kind=kind, subject=subject, message=message)
        for alarm in found.open:
            is_kept = (alarm.kind, alarm.subject) in found.bad.keys() | found.undecided
            if not is_kept and await alarms.end_alarm(connection, alarm.id, now):
                log.info("alarm.over", kind=alarm.kind, subject=alarm.subject)

    async def _list_open(self) -> list[Alarm]:
        return await self.context.database.run(alarms.list_alarms, _MOST_OPEN, only_open=True)

    async def _check_sources(self, found: _Found, now: datetime) -> None:
        for source in await list_faulty_sources(self.sources):
            if source.health is SourceHealth.SILENT:
                found.add(AlarmKind.SOURCE_SILENT, source.name, source.why)
            else:
                if _fails_long(source, now):
                    found.add(AlarmKind.SOURCE_FAILING, source.name, source.why)
                else:
                    found.undecided.add((AlarmKind.SOURCE_FAILING, source.name))
                found.undecided.add((AlarmKind.SOURCE_SILENT, source.name))

    async def _check_days(self, found: _Found, now: datetime) -> None:
        """Check the last days, and in turn some of the earlier days that are incomplete."""
        today = day_of(now, self.context.settings.timezone)
        last = [today - timedelta(days=back) for back in range(1, _DAYS_CHECKED + 1)]
        open_days = {date.fromisoformat(one.subject) for one in found.open if one.kind is AlarmKind.DAY_INCOMPLETE}
        earlier = sorted(open_days - set(last))
        turn = int(now.timestamp() // CHECK_EVERY.total_seconds()) * _EARLIER_CHECKED % max(len(earlier), 1)
        checked = (earlier[turn:] + earlier[:turn])[:_EARLIER_CHECKED]
        for day in [*last, *checked]:
            if problem := await self._find_missing(day, now):
                found.add(AlarmKind.DAY_INCOMPLETE, str(day), problem)
        left = set(earlier) - set(checked)
        found.leave(AlarmKind.DAY_INCOMPLETE, lambda day: date.fromisoformat(day) in left)

    async def _find_missing(self, day: date, now: datetime) -> str:
        """Return what a day lacks. A source is late from six hours after the end of the day in its time zone."""
        measured = await self.days.measure(day)
        late = {one.source: now >= bounds(day, one.timezone)[1] + _READ_BY for one in measured.days}
        end = bounds(day, self.context.settings.timezone)[1]
        is_late = now >= end + _READ_BY
        unread = [one.source for one in await self.days.list_unread(day) if late.get(one.source, False)]
        waiting = {one.source: one.waiting for one in measured.sources if one.waiting and late.get(one.source, is_late)}
        enabled = await self.context.database.run(sources.list_enabled, waiting, end)
        parts = [f"{', '.join(unread)}: not read to the end of the day."] if unread else []
        if enabled:
            parts.append(f"Pages that wait to be fetched: {sum(waiting[name] for name in enabled)}.")
        return " ".join(parts)

    async def _check_extraction(self, found: _Found, now: datetime) -> None:
        """Count the documents since the last check, and compare each source with its own past."""
        database, today = self.context.database, day_of(now, "UTC")
        for _ in range(_MOST_STEPS):
            if await database.transact(alarms.count_extractions, _COUNTED_AT_ONCE) < _COUNTED_AT_ONCE:
                break
        await database.run(alarms.prune_extraction_days, today - timedelta(days=_KEPT_DAYS))
        compared = await database.run(alarms.compare_extractions, today - timedelta(days=_RECENT_DAYS - 1))
        decided = set()
        for name, (past, recent) in compared.items():
            if past is None or recent is None or not can_compare(past, recent):
                continue
            decided.add(name)
            if changes := find_drift(past, recent):
                found.add(AlarmKind.EXTRACTION_DRIFTED, name, " ".join(changes))
        found.leave(AlarmKind.EXTRACTION_DRIFTED, lambda name: name not in decided)

    async def _check_outboxes(self, found: _Found, now: datetime) -> None:
        for one in await self.webhooks.list_webhooks():
            fails = one.failures >= FAILURES_BEFORE_A_PAUSE
            since = max(filter(None, (one.failing_since or one.waiting_since, one.delivered_at)), default=now)
            if one.enabled and fails and one.waiting_since and now - since >= _STUCK_FOR:
                message = f"{one.waiting} changes wait since {one.waiting_since:%Y-%m-%d %H:%M} UTC. {one.error or ''}"
                found.add(AlarmKind.OUTBOX_STUCK, one.name, message.strip())
            elif fails:
                found.undecided.add((AlarmKind.OUTBOX_STUCK, one.name))
        index = await self.context.database.run(search_index.get_state)
        if self.context.settings.search_url and index and index.failures >= FAILURES_BEFORE_A_PAUSE:
            found.add(AlarmKind.OUTBOX_STUCK, "search index", index.error or "It accepts no changes.")

    async def check_disk(self, now: datetime) -> None:
        """Begin or end the alarm of the disk of this machine. Each process does so: no other one can measure it."""
        free, total = await asyncio.to_thread(measure_disk, self.context.settings.data_dir)
        machine, _, _ = self.context.holder.partition(":")
        own = AlarmKind.DISK_LOW, f"{machine}:{self.context.settings.data_dir}"
        found = _Found(open=[one for one in await self._list_open() if (one.kind, one.subject) == own])
        lowest = max(LOWEST_FREE_BYTES, int(total * LOWEST_FREE_SHARE))
        if free < lowest:
            message = f"{decimal(free)} of {decimal(total)} are free; Headwater needs {decimal(lowest)}."
            found.add(*own, message)
        elif free < lowest * _CALM:
            found.undecided.add(own)
        await self.context.database.transact(self._save, found, now)
        await self.context.database.run(alarms.see_alarm, *own, now)

    async def _check_unseen_disks(self, found: _Found, now: datetime) -> None:
        """End the alarms of machines that have not run for a day, and leave the others to their machines."""
        seen = await self.context.database.run(alarms.list_seen_disks, now - _UNSEEN_FOR)
        found.leave(AlarmKind.DISK_LOW, lambda subject: subject in seen)


def measure_disk(folder: Path) -> tuple[int, int]:
    """Return the free and the total bytes of the disk of a folder, which need not exist yet."""
    usage = shutil.disk_usage(next(one for one in (folder, *folder.parents) if one.exists()))
    return usage.free, usage.total


def _fails_long(source: SourceSummary, now: datetime) -> bool:
    """Return whether a method has failed for an hour, or the source cannot be read at all."""
    failing = [one for one in source.methods if one.health is SourceHealth.FAILING]
    return not failing or any(one.failing_since is None or now - one.failing_since >= _FAILS_FOR for one in failing)


@dataclass(slots=True, eq=False)
class AlarmRole:
    """Checks alarms every minute: each process its own disk, and one process of all the rest."""

    keeper: AlarmKeeper
    look_seconds: float = CHECK_EVERY.total_seconds()

    async def run(self, stop: asyncio.Event, _grace_seconds: float) -> None:
        """Run until `stop`. The first check is after a minute, so that a program that starts can catch up."""
        context = self.keeper.context
        while not stop.is_set():
            await wait_for(stop, self.look_seconds)
            if stop.is_set():
                return
            try:
                now = context.clock.now()
                await self.keeper.check_disk(now)
                if await context.database.run(alarms.take_alarm_check, now, CHECK_EVERY * 0.9):
                    await self.keeper.check(now)
            except AWAY as error:
                log.warning("alarms.check_failed", error=str(error))
            except Exception:
                log.exception("alarms.check_failed")
