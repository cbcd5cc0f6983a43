"""Operations on history: they show the work of Headwater over time."""

from datetime import datetime, timedelta
from typing import NamedTuple

from headwater.core.history import HistoryWindow, Metric
from headwater.core.record import record
from headwater.db import history
from headwater.db.context import DatabaseContext
from headwater.db.history import HistoryMark as HistoryMark
from headwater.db.history import Step
from headwater.db.pool import Connection
from headwater.history.recorder import last_minute
from headwater.history.sources import SourceHistoryOperations

_MOST_MARKS = 200


class _Plan(NamedTuple):
    step: Step  # the rows to read
    length: timedelta  # of one part
    parts: int


_PLANS = {
    HistoryWindow.HOUR: _Plan("minute", timedelta(minutes=1), 60),
    HistoryWindow.DAY: _Plan("minute", timedelta(minutes=10), 144),
    HistoryWindow.MONTH: _Plan("hour", timedelta(hours=6), 120),
    HistoryWindow.YEAR: _Plan("day", timedelta(days=3), 122),
}
_EPOCH = datetime.fromisoformat("2000-01-01T00:00:00+00:00")


@record
class History:
    """The work of Headwater in a window, in parts of equal length, the oldest first."""

    window: HistoryWindow
    part_seconds: int
    times: list[datetime]
    """The beginning of each part."""
    values: dict[Metric, list[float | None]]
    """The value of each part: a sum, or the largest value of `pending` and `lag_seconds`. Null: none was recorded."""
    marks: list[HistoryMark]
    """The newest events, the newest first."""


class HistoryOperations:
    """The operations on history."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context
        self.sources = SourceHistoryOperations(context)

    async def get_last_minute(self) -> datetime | None:
        """Return the last recorded minute."""
        return await self._context.database.run(history.get_last_minute)

    async def measure(self, window: HistoryWindow = HistoryWindow.DAY) -> History:
        """Return what Headwater did in a window. It ends with the last part that is complete."""
        plan = _PLANS[window]
        ended = last_minute(self._context.clock.now())
        end = ended - (ended - _EPOCH) % plan.length
        start = end - plan.parts * plan.length

        async def work(connection: Connection) -> History:
            found = await history.read_history(connection, plan.step, start, end, plan.length)
            marks = await history.list_marks(connection, start, _MOST_MARKS)
            values: dict[Metric, list[float | None]] = {metric: [None] * plan.parts for metric in Metric}
            for at, metric, value in found:
                values[metric][(at - start) // plan.length] = value
            times = [start + number * plan.length for number in range(plan.parts)]
            return History(window, int(plan.length.total_seconds()), times, values, marks)

        return await self._context.database.run(work)
