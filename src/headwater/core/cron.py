"""Cron slots in a time zone (spec 1.2).

A local time that occurs twice is one slot, at its first occurrence. A local time that is skipped is a slot at the end
of the gap. Days of the week follow cron: 0 and 7 are Sunday.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

# A schedule without a slot in this time (30 February) never fires.
_HORIZON = timedelta(days=366 * 5)


def check(schedule: str) -> None:
    """Refuse, with a ValueError, a schedule that is not valid, never fires or counts seconds."""
    if len(schedule.split()) != 5:
        raise ValueError(f"{schedule!r} is not a cron schedule such as '0 2 * * *': it must have five fields")
    try:
        next(CronSim(schedule, datetime(2024, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        if not _is_readable(schedule):
            raise ValueError(f"{schedule!r} is not a cron schedule such as '0 2 * * *': {error}") from None
    except StopIteration:
        pass
    else:
        return
    raise ValueError(f"{schedule!r} is a schedule that never fires: none of its months has such a day")


def _is_readable(schedule: str) -> bool:
    """Return whether the day and the month are valid separately. Then the schedule only never fires."""
    minute, hour, day, month, weekday = schedule.split()
    start = datetime(2024, 1, 1, tzinfo=UTC)
    try:
        CronSim(f"{minute} {hour} {day} * {weekday}", start)
        CronSim(f"{minute} {hour} * {month} {weekday}", start)
    except CronSimError:
        return False
    return True


def next_slot(schedule: str, timezone: str, after: datetime) -> datetime:
    """Return the first slot after a moment, in UTC."""
    zone = ZoneInfo(timezone)
    for slot in _slots(schedule, zone, _local(after, zone)):
        if slot > after:
            return slot
    raise AssertionError("check() refuses schedules that never fire")


def slots_between(schedule: str, timezone: str, after: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the slots after a moment, up to and including another."""
    zone = ZoneInfo(timezone)
    last = after
    for slot in _slots(schedule, zone, _local(after, zone)):
        if slot > until:
            return
        if slot > last:
            yield slot
            last = slot


def last_slot(schedule: str, timezone: str, until: datetime) -> datetime | None:
    """Return the last slot at or before a moment, in UTC, or None if there was none in years."""
    zone = ZoneInfo(timezone)
    back = timedelta(hours=3)
    while back < _HORIZON:
        found = None
        for slot in _slots(schedule, zone, _local(until, zone) - back):
            if slot > until:
                break
            found = slot
        if found:
            return found
        back *= 4
    return None


def _slots(schedule: str, zone: ZoneInfo, local_start: datetime) -> Iterator[datetime]:
    """Yield the slots from a local time on, in order.

    The schedule is evaluated in local time without a zone. Then each local time is placed in the zone.
    """
    for local in CronSim(schedule, local_start):
        yield _place(local, zone)


def _place(local: datetime, zone: ZoneInfo) -> datetime:
    first = local.replace(tzinfo=zone, fold=0)
    if first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == local:
        return first.astimezone(UTC)
    # A skipped time: with fold=1, zoneinfo uses the offset after the gap, and the result is before the end of the gap.
    # Search for the end between the two results.
    before, after = local.replace(tzinfo=zone, fold=1).astimezone(UTC), first.astimezone(UTC)
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) / 2
        if middle.astimezone(zone).utcoffset() == before.astimezone(zone).utcoffset():
            before = middle
        else:
            after = middle
    return after.replace(microsecond=0)


def _local(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)
