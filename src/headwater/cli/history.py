"""`headwater history` and `headwater source history` show the work of Headwater over time."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.common import Json, run_local
from headwater.cli.output import print_result
from headwater.cli.show import console, print_grid, print_table, visible
from headwater.core.history import FAILURES, HistoryWindow, Metric
from headwater.core.text import format_duration

if TYPE_CHECKING:
    from headwater.history.operations import History
    from headwater.history.sources import Lag, SourceHistory

_DAYS_SHOWN = 7
Window = Annotated[HistoryWindow, typer.Option(help="The part of the past.")]


def history(window: Window = HistoryWindow.HOUR, as_json: Json = False) -> None:
    """Show what Headwater did in the last hour, day, month or year, with restarts and changed settings."""
    print_result(run_local(lambda operations: operations.history.measure(window)), _print_history, as_json=as_json)


def source_history(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A source.")], as_json: Json = False
) -> None:
    """Show how fresh the documents of a source are, and its polls, errors and changed settings of the last days."""
    found = run_local(lambda operations: operations.history.sources.show(name))
    print_result(found, _print_source, as_json=as_json)


def _print_source(found: "SourceHistory") -> None:
    from headwater.history.sources import describe_event

    if fresh := found.freshness:
        console.print("[bold]Lags of its newest items[/]  (median, 95th percentile)")
        for step in ("seen", "fetched", "searchable", "total"):
            console.print(f"  {step:<11} {_format_steps(getattr(fresh, step))}")
    if found.days:
        console.print("\n[bold]Days[/] (UTC)")
        print_table(found.days[-_DAYS_SHOWN:], day="day", items="items", polls="polls", failed_polls="failed")
    console.print("\n[bold]Events[/] (UTC)" if found.events else "It has had no poll and no change of a setting.")
    for event in found.events:
        method = f"{event.method} " if event.method not in (None, "main") else ""
        console.print(f"{event.at:%m-%d %H:%M} {event.kind:<8} {visible(method + describe_event(event))}", markup=False)


def _format_steps(lag: "Lag | None") -> str:
    return f"{_format_lag(lag.p50_seconds)}, {_format_lag(lag.p95_seconds)}" if lag else "-"


def _print_history(found: "History") -> None:
    columns = [found.values[metric] for metric in (Metric.FETCHED, *FAILURES, Metric.DOCUMENTS, Metric.BYTES)]
    lags = found.values[Metric.LAG_SECONDS]
    rows = [
        (f"{at:%Y-%m-%d %H:%M}", *(f"{value:,.0f}" for value in values), _format_lag(lag))
        for at, lag, *values in zip(found.times, lags, *columns, strict=True)
        if None not in values
    ]
    if rows:
        names = ["fetched", *(metric.removeprefix("failed_") for metric in FAILURES), "documents", "bytes", "queue lag"]
        console.print(
            f"Attempts by result, in parts of {format_duration(timedelta(seconds=found.part_seconds))} (UTC):"
        )
        print_grid([("from", *names), *rows])
    else:
        console.print("Nothing is recorded yet. `headwater up` records each minute after it has ended.")
    for mark in reversed(found.marks):
        place = f"{mark.source}: " if mark.source else ""
        console.print(f"{mark.at:%Y-%m-%d %H:%M} {mark.kind}: {visible(place + mark.label)}", markup=False)


def _format_lag(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(timedelta(seconds=seconds))
