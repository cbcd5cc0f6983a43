"""Render days and runs."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from rich.markup import escape
from rich.table import Table

from headwater.cli.bars import watching
from headwater.cli.show import console, plain, visible
from headwater.core.reasons import Reason
from headwater.core.run import RunCounters, RunStatus

if TYPE_CHECKING:
    from headwater.discovery.operations import RunRecord
    from headwater.documents.days import DayState, DayView, SourceDay

_STATES = {
    "complete": "[green]complete[/]",
    "reconstructed": "[yellow]reconstructed[/] long after its end: items that were updated again since are missing",
    "so_far": "[yellow]so far[/]: read before its end",
    "running": "[yellow]being read[/] now",
    "failed": "[red]not complete[/]: it could not be read to its end",
    "not_read": "[yellow]not read[/]",
}


def daily(view: "DayView", *, is_filtered: bool = False) -> None:
    """Show the state of a day, and then its items as a table."""
    counts = Counter(item.bucket for item in view.items)
    console.print(f"[bold]{view.day}[/]: {counts['NEW']:,} NEW, {counts['LATEST']:,} LATEST")
    for source in view.sources:
        _state(source)
    for source in view.behind:
        console.print(f"  [bold red]Behind[/]: {source.day} should be there by now.")
        _state(source)
    if view.items:
        console.print()
        console.print(_table(view))
    elif is_filtered:
        console.print("No items of the day match. Try fewer filters.")


def _state(source: "SourceDay") -> None:
    read = f", read {source.read_at:%Y-%m-%d %H:%M} UTC" if source.read_at else ""
    console.print(f"  {plain(source.source)}: {_STATES[source.state]}{read}")
    if source.reason:
        why = source.error or Reason.of(source.reason).sentence
        console.print(_wrapped(f"its last run ({source.run_id}) failed, {source.reason}: {why}"))
    elif source.error:
        console.print(_wrapped(source.error))


def _wrapped(text: str) -> str:
    return escape(textwrap.fill(visible(text), 80, initial_indent="    ", subsequent_indent="    "))


def _table(view: "DayView") -> Table:
    zones = {source.source: ZoneInfo(source.timezone) for source in view.sources}
    table = Table(box=None, padding=(0, 1), show_edge=False, width=min(console.width, 160))
    table.add_column("", no_wrap=True)
    table.add_column("time", no_wrap=True)
    table.add_column("source", no_wrap=True, overflow="ellipsis", max_width=16)
    table.add_column("title, organisations, type, address", ratio=1, overflow="fold")
    for item in view.items:
        moment = item.updated_at if item.bucket == "LATEST" else item.published_at
        details = [", ".join(map(str, item.tags.get("organisations") or ())), item.tags.get("document_type")]
        about = "; ".join(plain(str(part)) for part in details if part)
        lines = [plain(item.title or "(no title)"), *(f"[dim]{line}[/]" for line in (about, plain(item.url)) if line)]
        zone = zones.get(item.source, ZoneInfo("UTC"))
        clock = f"{moment.astimezone(zone):%d %H:%M}" if moment else ""
        table.add_row(item.bucket, clock, plain(item.source), "\n".join(lines))
    return table


@contextmanager
def progress(counters: RunCounters, *, quiet: bool) -> Iterator[None]:
    """Show the progress of a reading in a terminal."""

    def look() -> tuple[str, int, int | None]:
        is_stage = counters.of is not None
        done, of = (counters.done, counters.of) if is_stage else (counters.fetched, counters.total)
        return counters.stage, done, of

    with watching(look, quiet=quiet):
        yield


def ingested(run: "RunRecord", state: "DayState") -> None:
    """Show how a run for a day ended, and the state of the day."""
    read = f"{run.fetched or 0:,} records in {run.pages or 0:,} pages, {run.seconds or 0:.1f} s"
    what = f"{plain(run.source)} {run.day}"
    if run.status is RunStatus.SUCCEEDED:
        console.print(f"{what}: {run.new:,} NEW, {run.latest:,} LATEST ({read})")
        console.print(f"  {_STATES[state]}")
        if run.error:
            console.print(f"[yellow]{_wrapped(run.error)}[/]")
        console.print(f"[dim]See `headwater daily {run.day} --source {plain(run.source)}`.[/]")
        return
    console.print(f"{what}: [red]failed[/] ({run.reason}): {plain(_why(run))}")
    console.print(f"{run.items or 0:,} items were kept; the day's index is as it was before ({read}).")


def runs(found: "Sequence[RunRecord]") -> None:
    """Show runs, a line each, and why failed runs failed."""
    if not found:
        console.print("No runs match.")
    for run in found:
        colour = {RunStatus.SUCCEEDED: "green", RunStatus.FAILED: "red"}.get(run.status, "yellow")
        day = f" {run.day}" if run.day else ""
        counts = "" if run.new is None else f"  {run.new} NEW, {run.latest} LATEST"
        console.print(
            f"{run.id:>6}  {run.started_at:%Y-%m-%d %H:%M}  [{colour}]{run.status:<9}[/]  "
            f"{run.trigger:<8}  {plain(run.source)}{day}{counts}"
        )
        if run.status is RunStatus.FAILED:
            console.print(f"        {run.reason}: {plain(_why(run))}", style="dim")


def _why(run: "RunRecord") -> str:
    return run.error or Reason.of(run.reason or "").sentence
