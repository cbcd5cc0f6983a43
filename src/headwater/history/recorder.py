"""Record what Headwater did in each minute, roll it up to hours and days, and delete what is old."""

import contextlib
from collections.abc import Collection
from dataclasses import fields
from datetime import datetime, timedelta

from headwater import __version__
from headwater.core.errors import HandoffsMissing
from headwater.core.history import Metric
from headwater.core.settings import Settings, masked
from headwater.db import frontier, history, hosts
from headwater.db.context import DatabaseContext
from headwater.db.history import Step
from headwater.db.pool import Connection, Database

_MINUTE = timedelta(minutes=1)
# A batch of fetches commits a little after the time that its rows have.
_SETTLED_AFTER = timedelta(seconds=15)
_CATCH_UP = timedelta(hours=1)
KEEP: dict[Step, timedelta] = {"minute": timedelta(days=2), "hour": timedelta(days=62), "day": timedelta(days=3 * 366)}


async def record_history(database: Database, now: datetime) -> int:
    """Record the minutes that have ended since the last record, at most of an hour. Return how many.

    A minute in which no program recorded has no queue lag, and its counts come from the fetch log.
    """
    end = last_minute(now)
    if await database.run(_is_current, end):
        return 0
    start = end - _CATCH_UP
    new_handoffs: dict[datetime, float] = {}
    with contextlib.suppress(HandoffsMissing):
        new_handoffs = await database.run(history.count_new_handoffs, start, end)
    return await database.transact(_record, end, new_handoffs, now)


def last_minute(now: datetime) -> datetime:
    """Return the end of the last minute that can be recorded."""
    return (now - _SETTLED_AFTER).replace(second=0, microsecond=0)


async def _is_current(connection: Connection, end: datetime) -> bool:
    last = await history.get_last_minute(connection)
    return last is not None and last + _MINUTE >= end


async def _record(connection: Connection, end: datetime, new_handoffs: dict[datetime, float], now: datetime) -> int:
    if not await history.lock_history(connection):
        return 0
    last = await history.get_last_minute(connection)
    begun = last + _MINUTE if last else await history.get_first_activity(connection) or end - _MINUTE
    start = max(begun.replace(second=0, microsecond=0), end - _CATCH_UP)
    if start >= end:
        return 0
    await history.record_minutes(connection, start, end)
    missed = {at: value for at, value in new_handoffs.items() if at >= start}
    await history.record_values(connection, Metric.HANDOFFS, missed)
    await _record_queue(connection, end - _MINUTE, now)
    await history.roll_up(connection, "hour", "minute", start)
    await history.roll_up(connection, "day", "hour", start)
    await history.prune(connection, {step: end - keep for step, keep in KEEP.items()})
    return (end - start) // _MINUTE


async def _record_queue(connection: Connection, minute: datetime, now: datetime) -> None:
    pending = sum(urls for status, _, urls in await frontier.count_urls(connection) if status == "pending")
    due = await hosts.get_next_ready(connection, now)
    lag = max(0.0, (now - due).total_seconds()) if due else 0.0
    await history.record_values(connection, Metric.PENDING, {minute: pending})
    await history.record_values(connection, Metric.LAG_SECONDS, {minute: lag})


async def mark_start(context: DatabaseContext, roles: Collection[str]) -> None:
    """Mark the start of a program, and the settings that differ from those of the last one with its roles."""
    names, settings = "+".join(sorted(roles)), context.settings
    values = {one.name: masked(one, getattr(settings, one.name)) for one in fields(Settings)}

    async def work(connection: Connection) -> None:
        now = context.clock.now()
        before = await history.replace_started_program(connection, names, values)
        await history.add_marks(connection, "restart", [f"Headwater {__version__} started: {names}"], now)
        if before is not None:
            # Only administrators may read the values.
            changed = [name for name, value in values.items() if before.get(name) != value]
            await history.add_marks(connection, "setting", changed, now)

    await context.database.transact(work)
