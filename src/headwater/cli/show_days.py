"""What people see of days and runs."""

import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from rich.markup import escape
from rich.table import Table

from headwater.cli.bars import watching
from headwater.cli.show import console, plain, visible
from headwater.core.reasons import Reason
from headwater.core.run import RunCounters

if TYPE_CHECKING:
    from headwater.documents.days import DayView, SourceDay

_STATES = {
    "complete": "[green]complete[/]",
    "reconstructed": "[yellow]reconstructed[/] after its end: what was updated again since is missing",
    "so_far": "[yellow]so far[/]: read before its end",
    "running": "[yellow]being read[/] just now",
    "failed": "[red]not complete[/]: it could not be read whole",
    "not_read": "[yellow]not read[/]",
}


def daily(view: "DayView", *, is_filtered: bool = False) -> None:
    """Show a day as a table, after what is known of how complete it is."""
    counts = Counter(row["bucket"] for row in view.items)
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
        console.print("Nothing of that day matches; try it with fewer filters.")


def _state(source: "SourceDay") -> None:
    read = f", read {source.read_at:%Y-%m-%d %H:%M} UTC" if source.read_at else ""
    console.print(f"  {plain(source.source)}: {_STATES[source.state]}{read}")
    if source.reason:
        told = source.error or Reason.of(source.reason).sentence
        console.print(_wrapped(f"its last run ({source.run_id}) failed, {source.reason}: {told}"))
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
    for row in view.items:
        moment = row["updated_at"] if row["bucket"] == "LATEST" else row["published_at"]
        told = [", ".join(map(str, row["tags"].get("organisations") or ())), row["tags"].get("document_type")]
        about = "; ".join(plain(str(part)) for part in told if part)
        lines = [plain(row["title"] or "(no title)"), *([about] if about else []), plain(row["url"])]
        title, *rest = lines
        table.add_row(
            row["bucket"],
            _clock(moment, zones.get(row["source"], ZoneInfo("UTC"))),
            plain(row["source"]),
            "\n".join([title, *(f"[dim]{line}[/]" for line in rest)]),
        )
    return table


def _clock(moment: datetime | None, zone: ZoneInfo) -> str:
    return f"{moment.astimezone(zone):%d %H:%M}" if moment else ""


@contextmanager
def reading(counters: RunCounters, *, quiet: bool) -> Iterator[None]:
    """Show in a terminal how far a reading is, by what it counts."""

    def look() -> tuple[str, int, int | None]:
        done, of = (counters.done, counters.of) if counters.of is not None else (counters.fetched, counters.total)
        return counters.stage, done, of

    with watching(look, quiet=quiet):
        yield


def ingested(run: dict[str, Any]) -> None:
    """Show how a run for a day ended, and how that day stands now."""
    read = f"{run['fetched'] or 0:,} records in {run['pages'] or 0:,} pages, {run['seconds'] or 0:.1f} s"
    what = f"{plain(run['source'])} {run['day']}"
    if run["status"] == "succeeded":
        console.print(f"{what}: {run['new']:,} NEW, {run['latest']:,} LATEST ({read})")
        console.print(f"  {_STATES[run['state']]}")
        if run["error"]:
            console.print(f"[yellow]{_wrapped(run['error'])}[/]")
        console.print(f"[dim]See `headwater daily {run['day']} --source {plain(run['source'])}`.[/]")
        return
    told = run["error"] or Reason.of(run["reason"]).sentence
    console.print(f"{what}: [red]failed[/] ({run['reason']}): {plain(told)}")
    console.print(f"{run['items'] or 0:,} items were kept; the day's index is as it was before ({read}).")


def runs(rows: list[dict[str, Any]]) -> None:
    """Show runs, a line each, with why those failed that did."""
    if not rows:
        console.print("There have been no such runs.")
    for row in rows:
        colour = {"succeeded": "green", "failed": "red"}.get(row["status"], "yellow")
        day = f" {row['day']}" if row["day"] else ""
        counts = "" if row["new"] is None else f"  {row['new']} NEW, {row['latest']} LATEST"
        console.print(
            f"{row['id']:>6}  {row['started_at']:%Y-%m-%d %H:%M}  [{colour}]{row['status']:<9}[/]  "
            f"{row['trigger']:<8}  {plain(row['source'])}{day}{counts}"
        )
        if row["status"] == "failed":
            told = row["error"] or Reason.of(row["reason"]).sentence
            console.print(f"        {row['reason']}: {plain(told)}", style="dim")
