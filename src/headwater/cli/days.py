"""Commands about days and runs: `today`, `daily`, `ingest`, `runs`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer
from rich.table import Table

from headwater.cli import show
from headwater.cli.bars import watching
from headwater.cli.common import Json, Source, run_live, run_local
from headwater.cli.output import print_json, print_result
from headwater.cli.show import console, plain, wrap
from headwater.core.errors import BadRequest
from headwater.core.reasons import Reason
from headwater.core.run import RunCounters, RunStatus

if TYPE_CHECKING:
    from headwater.app.operations import Operations
    from headwater.discovery.operations import RunRecord
    from headwater.documents.days import DayState, DayView, SourceDay

_MARGIN = " " * 4
_STATES = {
    "complete": "[green]complete[/]",
    "reconstructed": "[yellow]reconstructed[/] long after its end: items that were updated again since are missing",
    "so_far": "[yellow]so far[/]: read before its end",
    "running": "[yellow]being read[/] now",
    "failed": "[red]not complete[/]: it could not be read to its end",
    "not_read": "[yellow]not read[/]",
}


def today(
    day: Annotated[str | None, typer.Argument(help="A day as YYYY-MM-DD; by default today.")] = None,
    as_json: Json = False,
) -> None:
    """Show the NEW and LATEST items of today."""
    wanted = _date(day)
    view = run_local(lambda operations: operations.days.day(wanted) if wanted else operations.days.today())
    if as_json:
        print_json({"day": view.day, "items": view.items})
    else:
        show.day(view.day, view.items)


def daily(
    day: Annotated[
        str, typer.Argument(metavar="[DATE]", help="A day as YYYY-MM-DD, or latest: the last that was read to its end.")
    ] = "latest",
    source: Source = None,
    bucket: Annotated[str | None, typer.Option(help="NEW or LATEST only.")] = None,
    organisation: Annotated[str | None, typer.Option(help="Only items of the organisation with this title.")] = None,
    document_type: Annotated[str | None, typer.Option("--type", help="Only this type, such as press_release.")] = None,
    as_json: Json = False,
) -> None:
    """Show a day as a table: its NEW and LATEST items, and whether it is complete."""
    from headwater.documents.operations import DayFilter

    wanted = None if day == "latest" else _date(day)
    if bucket is not None and bucket.upper() not in ("NEW", "LATEST"):
        raise BadRequest(f"--bucket: is NEW or LATEST, not {bucket!r}.")
    only = DayFilter(source, bucket.upper() if bucket else None, organisation, document_type)
    view = run_local(lambda operations: operations.days.day(wanted, only))
    print_result(view, lambda view: _print_day(view, is_filtered=only != DayFilter()), as_json=as_json)


def ingest(
    source: Annotated[str, typer.Argument(help="A source of dated days, such as govuk.")],
    day: Annotated[str | None, typer.Option("--date", help="YYYY-MM-DD; by default the last day that is over.")] = None,
    as_json: Json = False,
) -> None:
    """Read a day of a source now, and show the result. Exits 1 if the day could not be read to its end."""
    wanted = _date(day)
    counters = RunCounters()

    def look() -> tuple[str, int, int | None]:
        if counters.of is None:
            return counters.stage or "reading", counters.fetched, counters.total
        return counters.stage, counters.done, counters.of

    with watching(look, quiet=as_json):
        run, state = run_live(lambda operations: _ingest(operations, source, wanted, counters))
    if as_json:
        print_json(asdict(run) | {"state": state})
    else:
        _print_ingested(run, state)
    if run.status is not RunStatus.SUCCEEDED:
        raise typer.Exit(1)


async def _ingest(
    operations: "Operations", source: str, day: date | None, counters: RunCounters
) -> tuple["RunRecord", "DayState"]:
    from headwater.documents.operations import DayFilter

    run = await operations.runs.ingest(source, day, counters)
    (found,) = (await operations.days.day(run.day, DayFilter(source=source))).sources
    return run, found.state


def runs(
    source: Source = None,
    status: Annotated[str | None, typer.Option(help="running, succeeded or failed.")] = None,
    day: Annotated[str | None, typer.Option("--date", help="Only runs for this day.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500)] = 20,
    as_json: Json = False,
) -> None:
    """Show the last runs, newest first."""
    from headwater.discovery.operations import RunFilter

    if status not in (None, *RunStatus):
        raise BadRequest(f"--status: is {', '.join(RunStatus)}, not {status!r}.")
    only = RunFilter(source, RunStatus(status) if status else None, _date(day))
    found = run_local(lambda operations: operations.runs.list_runs(only, limit))
    if as_json:
        print_json({"runs": found})
    else:
        _print_runs(found)


def _date(text: str | None) -> date | None:
    try:
        if text is not None and len(text) != len("2026-03-29"):
            raise ValueError
        return date.fromisoformat(text) if text is not None else None
    except ValueError:
        raise BadRequest(f"{text!r} is not a day such as 2026-03-29.") from None


def _print_day(view: "DayView", *, is_filtered: bool = False) -> None:
    counts = Counter(item.bucket for item in view.items)
    console.print(f"[bold]{view.day}[/]: {counts['NEW']:,} NEW, {counts['LATEST']:,} LATEST")
    for source in view.sources:
        _print_state(source)
    for source in view.behind:
        console.print(f"  [bold red]Behind[/]: {source.day} should be there by now.")
        _print_state(source)
    if view.items:
        console.print()
        console.print(_make_table(view))
    elif is_filtered:
        console.print("No items of the day match. Try fewer filters.")


def _print_state(source: "SourceDay") -> None:
    read = f", read {source.read_at:%Y-%m-%d %H:%M} UTC" if source.read_at else ""
    console.print(f"  {plain(source.source)}: {_STATES[source.state]}{read}")
    if source.reason:
        why = source.error or Reason.of(source.reason).sentence
        console.print(wrap(f"its last run ({source.run_id}) failed, {source.reason}: {why}", _MARGIN))
    elif source.error:
        console.print(wrap(source.error, _MARGIN))


def _make_table(view: "DayView") -> Table:
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


def _print_ingested(run: "RunRecord", state: "DayState") -> None:
    read = f"{run.fetched or 0:,} records in {run.pages or 0:,} pages, {run.seconds or 0:.1f} s"
    what = f"{plain(run.source)} {run.day}"
    if run.status is RunStatus.SUCCEEDED:
        console.print(f"{what}: {run.new:,} NEW, {run.latest:,} LATEST ({read})")
        console.print(f"  {_STATES[state]}")
        if run.error:
            console.print(f"[yellow]{wrap(run.error, _MARGIN)}[/]")
        console.print(f"[dim]See `headwater daily {run.day} --source {plain(run.source)}`.[/]")
        return
    console.print(f"{what}: [red]failed[/] ({run.reason}): {plain(_why(run))}")
    console.print(f"{run.items or 0:,} items were kept; the day's index is as it was before ({read}).")


def _print_runs(found: "Sequence[RunRecord]") -> None:
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
