"""Charts of what Headwater did: the values of a history, as the pages show them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time
from functools import partial
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import Query
from markupsafe import Markup

from headwater.app.operations import Operations
from headwater.core.history import HistoryWindow, Metric
from headwater.history.operations import History, HistoryMark
from headwater.history.sources import Lag, SourceHistory, SourceTrend
from headwater.web.charts import ChartLine, Mark, draw_columns, draw_lines, draw_sparkline

Window = Annotated[HistoryWindow, Query()]
_FEWEST_PARTS = 15
_SECONDS = ((172_800, 86_400, "days"), (7200, 3600, "hours"), (120, 60, "minutes"), (0, 1, "seconds"))
_BYTES = ((1e9, 1e9, "GB"), (1e6, 1e6, "MB"), (1e3, 1e3, "kB"), (0, 1, "bytes"))
_FAILURES = {
    Metric.TRANSIENT: "the host failed for now",
    Metric.PERMANENT: "the host refused",
    Metric.POLICY: "a rule forbids it",
    Metric.CONFIG: "an operator must act",
    Metric.OURS: "our own fault or stop",
}


async def draw_history(operations: Operations, window: HistoryWindow) -> dict[str, Any]:
    """Return the window and its charts by name, for a template."""
    found = await operations.history.measure(window)
    drawn = _draw_charts(found, operations.settings.timezone)
    return {"window": window, "windows": list(HistoryWindow), "drawn": drawn}


def _draw_charts(found: History, timezone: str) -> dict[str, Callable[[], Markup]]:
    zone = ZoneInfo(timezone)
    found = _drop_beginning(found)
    times = [at.astimezone(zone) for at in found.times]
    marks = make_marks(found.marks, zone)
    columns, lines = partial(draw_columns, times, marks=marks), partial(draw_lines, times, marks=marks)
    failed = _add_up(found, *_FAILURES)
    attempts = [ChartLine("done", _add_up(found, Metric.FETCHED)), ChartLine("failed", failed)]
    failures = [ChartLine(label, _add_up(found, metric)) for metric, label in _FAILURES.items()]
    lag, lag_unit = scale(found.values[Metric.LAG_SECONDS], _SECONDS)
    received, received_unit = scale(_add_up(found, Metric.BYTES), _BYTES)
    documents = _add_up(found, Metric.DOCUMENTS)
    pages = zip(_add_up(found, Metric.PAGES), documents, strict=True)
    known = [None if page is None or new is None else max(0, page - new) for page, new in pages]
    new = [ChartLine("new documents", documents), ChartLine("other pages", known)]
    per_minute = {"unit": "a minute"}
    return {
        "attempts": partial(columns, attempts, label="Attempts", **per_minute),
        "failures": partial(columns, failures, label="Failed attempts by class", **per_minute),
        "lag": partial(lines, [ChartLine("age of the oldest due URL", lag)], label="Queue lag", unit=lag_unit),
        "pending": partial(lines, [ChartLine("URLs", found.values[Metric.PENDING])], label="URLs that wait"),
        "pages": partial(columns, new, label="Pages fetched", **per_minute),
        "bytes": partial(
            columns, [ChartLine("received", received)], label="Bytes of pages", unit=f"{received_unit} a minute"
        ),
        "handoffs": partial(
            columns, [ChartLine("hand-offs", _add_up(found, Metric.HANDOFFS))], label="New hand-offs", **per_minute
        ),
    }


def _drop_beginning(found: History) -> History:
    """Return a history without the parts before the first record, so that a new system does not show an empty chart."""
    known = (place for values in found.values.values() for place, value in enumerate(values) if value is not None)
    first = min(min(known, default=len(found.times)), len(found.times) - _FEWEST_PARTS)
    values = {metric: numbers[first:] for metric, numbers in found.values.items()}
    return replace(found, times=found.times[first:], values=values)


_SHORT = {"days": "d", "hours": "h", "minutes": "min", "seconds": "s"}


def draw_source(found: SourceHistory) -> dict[str, Callable[[], Markup]]:
    """Return the charts of a source by name: its items and polls by day, and the lags of its documents."""
    times = [datetime.combine(day.day, time(), UTC) for day in found.days]
    marks = make_marks(found.marks, ZoneInfo("UTC"))
    polls = [
        ChartLine("succeeded", [day.polls - day.failed_polls for day in found.days]),
        ChartLine("failed", [day.failed_polls for day in found.days]),
    ]
    lags = [day.total for day in found.days]
    slow, unit = scale([lag.p95_seconds if lag else None for lag in lags], _SECONDS)
    size = next(size for _, size, name in _SECONDS if name == unit)
    medians = [lag.p50_seconds / size if lag else None for lag in lags]
    items = [ChartLine("items", [day.items for day in found.days])]
    return {
        "published": partial(draw_columns, times, items, label="Items by day of publication (UTC)", marks=marks),
        "polls": partial(draw_columns, times, polls, label="Polls by day (UTC)", marks=marks),
        "lags": partial(
            draw_lines,
            times,
            [ChartLine("95 % of the items", slow), ChartLine("half of them", medians)],
            label="From publication to search",
            unit=unit,
            marks=marks,
        ),
    }


def draw_items(trend: SourceTrend) -> Markup:
    """Return a small chart of the items of a source by day."""
    counts = [day.items for day in trend.days]
    return draw_sparkline(counts, label=f"{sum(counts):,} items in {len(counts)} days, {counts[-1]:,} on the last")


def format_lag(lag: Lag | None) -> str:
    """Write the median and the 95th percentile."""
    return " / ".join(map(_format_seconds, (lag.p50_seconds, lag.p95_seconds))) if lag else "-"


def _format_seconds(seconds: float) -> str:
    if seconds < 1:
        return "< 1 s"
    size, unit = next((size, unit) for least, size, unit in _SECONDS if seconds >= least)
    digits = 1 if unit != "seconds" and seconds / size < 10 else 0
    return f"{seconds / size:.{digits}f} {_SHORT[unit]}"


def make_marks(marks: Iterable[HistoryMark], zone: ZoneInfo) -> list[Mark]:
    """Return the marks of a chart."""
    return [
        Mark(
            mark.at.astimezone(zone),
            mark.label if mark.kind == "restart" else f"{mark.source or 'setting'}: {mark.label}",
            mark.kind,
        )
        for mark in marks
    ]


def _add_up(found: History, *metrics: Metric) -> list[float | None]:
    """Return the sum of metrics for each part, as a number a minute."""
    minutes = found.part_seconds / 60
    return [
        None if None in values else sum(filter(None, values)) / minutes
        for values in zip(*(found.values[metric] for metric in metrics), strict=True)
    ]


def scale(
    values: Sequence[float | None], units: Sequence[tuple[float, float, str]] = _SECONDS
) -> tuple[list[float | None], str]:
    """Return the values in the unit that fits the largest, and the unit."""
    largest = max(filter(None, values), default=0)
    size, unit = next((size, unit) for least, size, unit in units if largest >= least)
    return [None if value is None else value / size for value in values], unit
