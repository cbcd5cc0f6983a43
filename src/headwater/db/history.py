"""The tables of history: queries/history.sql as typed functions."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

from headwater.core.history import GAUGES, Metric
from headwater.core.reasons import Reason, ReasonClass
from headwater.core.record import record
from headwater.core.text import clean, make_storable
from headwater.db.handoffs import requires_table
from headwater.db.pool import Connection
from headwater.db.source_history import STORED
from headwater.db.sql import query

_LONGEST_LABEL = 300
_MOST_MARKS = 5000
Step = Literal["minute", "hour", "day"]
MarkKind = Literal["restart", "setting"]


_SEPARATE = {Metric.HANDOFFS, *GAUGES}
_METRIC_OF = {ReasonClass.DONE: Metric.FETCHED} | {
    kind: Metric(f"failed_{kind}") for kind in ReasonClass if kind not in (ReasonClass.DONE, ReasonClass.HANDOFF)
}


@record
class HistoryMark:
    """An event that may explain a bend in a chart."""

    at: datetime
    kind: MarkKind
    source: str | None
    """The source whose setting was changed. Null: the event is of a program."""
    label: str


async def lock_history(connection: Connection) -> bool:
    """Return whether this transaction is the only one that records."""
    return bool(await connection.fetchval(query("lock_history")))


async def get_last_minute(connection: Connection) -> datetime | None:
    """Return the last recorded minute."""
    value: datetime | None = await connection.fetchval(query("get_last_minute"))
    return value


async def get_first_activity(connection: Connection) -> datetime | None:
    """Return the time of the oldest fetch attempt or poll that is logged."""
    value: datetime | None = await connection.fetchval(query("get_first_activity"))
    return value


async def record_minutes(connection: Connection, start: datetime, end: datetime) -> None:
    """Record what ended in the minutes between two times."""
    reasons = {reason.value: _METRIC_OF[reason.kind] for reason in Reason if reason.kind in _METRIC_OF}
    counted = [metric for metric in Metric if metric not in _SEPARATE]
    await connection.execute(
        query("record_minutes"), start, end, list(reasons), list(reasons.values()), STORED, counted
    )


@requires_table
async def count_new_handoffs(connection: Connection, start: datetime, end: datetime) -> dict[datetime, float]:
    """Count the hand-offs that were queued in each minute between two times."""
    return {row["at"]: row["value"] for row in await connection.fetch(query("count_new_handoffs"), start, end)}


async def record_values(connection: Connection, metric: Metric, values: Mapping[datetime, float]) -> None:
    """Record the values of minutes."""
    await connection.execute(query("record_values"), list(values), [metric] * len(values), list(values.values()))


async def roll_up(connection: Connection, step: Step, shorter: Step, since: datetime) -> None:
    """Make the rows of a longer step again, from the one that has a time on."""
    await connection.execute(query("roll_up_history"), step, shorter, since, GAUGES)


async def prune(connection: Connection, before: Mapping[Step, datetime]) -> None:
    """Delete the rows of each step before a time, and all marks but the newest."""
    for step, moment in before.items():
        await connection.execute(query("prune_history"), step, moment)
    await connection.execute(query("prune_marks"), _MOST_MARKS)


async def read_history(
    connection: Connection, step: Step, start: datetime, end: datetime, length: timedelta
) -> Iterable[tuple[datetime, Metric, float]]:
    """Return the values between two times, in parts of equal length."""
    rows = await connection.fetch(query("read_history"), step, start, end, length, GAUGES)
    return [(row["at"], Metric(row["metric"]), row["value"]) for row in rows]


async def add_marks(
    connection: Connection, kind: MarkKind, labels: Collection[str], now: datetime, source_id: int | None = None
) -> None:
    """Record events of one kind."""
    for label in labels:
        storable = make_storable(clean(label))[:_LONGEST_LABEL]
        await connection.execute(query("add_mark"), now, kind, storable, source_id)


async def list_marks(
    connection: Connection, since: datetime, limit: int, source: str | None = None
) -> list[HistoryMark]:
    """List the newest events since a time, the newest first. With a source, no settings of other sources are meant."""
    return [HistoryMark(**row) for row in await connection.fetch(query("list_marks"), since, limit, source)]


async def replace_started_program(
    connection: Connection, roles: str, settings: Mapping[str, str]
) -> Mapping[str, str] | None:
    """Save the settings of a program that starts. Return those of the last one with the same roles."""
    before: Mapping[str, str] | None = await connection.fetchval(query("replace_started_program"), roles, settings)
    return before
