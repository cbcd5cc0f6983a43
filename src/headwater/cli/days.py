"""Commands about days and runs: `today`, `daily`, `completeness`, `missing`, `ingest`, `runs`."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.bars import watching
from headwater.cli.common import Category, Json, Language, Since, Source, Topic, read_since, run_live, run_local
from headwater.cli.output import print_json, print_result
from headwater.cli.show import console, plain, print_table, wrap
from headwater.cli.show_days import STATES, print_day
from headwater.core.errors import BadRequest
from headwater.core.reasons import Reason
from headwater.core.run import RunCounters, RunStatus

if TYPE_CHECKING:
    from headwater.app.operations import LocalOperations, Operations
    from headwater.discovery.operations import RunRecord
    from headwater.documents.days import DayCompleteness, DayState, DayView, MissingPage
    from headwater.stories.operations import DocumentStories


def today(
    day: Annotated[str | None, typer.Argument(help="A day as YYYY-MM-DD; by default today.")] = None,
    source: Source = None,
    category: Category = None,
    topic: Topic = None,
    language: Language = None,
    since: Since = None,
    as_json: Json = False,
) -> None:
    """Show the NEW and LATEST items of today, with their times and documents."""
    from headwater.documents.days import DayFilter

    wanted = _date(day)
    only = DayFilter(source, category, topic, language, read_since(since))

    async def work(operations: "LocalOperations") -> tuple["DayView", "DocumentStories"]:
        view = await (operations.days.day(wanted, only) if wanted else operations.days.today(only))
        ids = [item.document_id for item in view.items if item.document_id is not None]
        return view, await operations.stories.list_of(ids)

    view, stories = run_local(work)
    print_result(view, lambda view: print_day(view, stories.stories, is_filtered=only != DayFilter()), as_json=as_json)


def daily(
    day: Annotated[
        str, typer.Argument(metavar="[DATE]", help="A day as YYYY-MM-DD, or latest: the last that was read to its end.")
    ] = "latest",
    source: Source = None,
    category: Category = None,
    topic: Topic = None,
    language: Language = None,
    since: Since = None,
    bucket: Annotated[str | None, typer.Option(help="NEW or LATEST only.")] = None,
    organisation: Annotated[str | None, typer.Option(help="Only items of the organisation with this title.")] = None,
    document_type: Annotated[str | None, typer.Option("--type", help="Only this type, such as press_release.")] = None,
    as_json: Json = False,
) -> None:
    """Show the NEW and LATEST items of the last complete day or of any other, and whether the day is complete."""
    from headwater.documents.days import DayFilter

    wanted = None if day == "latest" else _date(day)
    if bucket is not None and bucket.upper() not in ("NEW", "LATEST"):
        raise BadRequest(f"--bucket: is NEW or LATEST, not {bucket!r}.")
    content = source, category, topic, language, read_since(since)
    only = DayFilter(*content, bucket.upper() if bucket else None, organisation, document_type)
    view = run_local(lambda operations: operations.days.day(wanted, only))
    print_result(view, lambda view: print_day(view, is_filtered=only != DayFilter()), as_json=as_json)


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
    from headwater.documents.days import DayFilter

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


_Day = Annotated[str | None, typer.Argument(metavar="[DATE]", help="A day as YYYY-MM-DD; by default today.")]


def completeness(day: _Day = None, source: Source = None, as_json: Json = False) -> None:
    """Count the items that sources list for a day, and those whose page is stored, waits or failed."""
    wanted = _date(day)
    found = run_local(lambda ops: ops.days.measure(wanted, source=source))
    print_result(found, _print_completeness, as_json=as_json)


def missing(
    day: _Day = None,
    source: Source = None,
    limit: Annotated[int, typer.Option(min=1, max=500)] = 50,
    after: Annotated[str | None, typer.Option(help="The `next` of the page before.")] = None,
    as_json: Json = False,
) -> None:
    """List the items of a day whose page is not stored, each with the reason."""
    wanted = _date(day)
    found = run_local(lambda ops: ops.days.list_missing(wanted, source=source, limit=limit, after=after))
    print_result(found, _print_missing, as_json=as_json)


def _print_completeness(found: "DayCompleteness") -> None:
    counts = {name: name for name in ("expected", "stored", "waiting", "failed", "unfetched")}
    if not found.sources:
        console.print(f"[bold]{found.day}[/]: no source lists an item.")
        return
    console.print(f"[bold]{found.day}[/]: {found.stored:,} of {found.expected:,} items have their page.")
    print_table(found.sources, source="source", **counts)
    if found.stored < found.expected:
        console.print(f"[dim]`headwater missing {found.day}` lists the others.[/]")


def _print_missing(page: "MissingPage") -> None:
    if not page.items:
        console.print("No item lacks its page.")
    for item in page.items:
        reason = f" ({item.reason})" if item.reason else ""
        due = f", not before {item.due_at:%Y-%m-%d %H:%M} UTC" if item.due_at else ""
        console.print(f"{item.status:<9} {plain(item.source)}: {plain(item.title or '(no title)')}{reason}{due}")
        console.print(f"          [dim]{plain(item.url)}[/]")
    if page.next:
        console.print(f"[dim]There are more: --after {plain(page.next)}[/]")


def _date(text: str | None) -> date | None:
    try:
        if text is not None and len(text) != len("2026-03-29"):
            raise ValueError
        return date.fromisoformat(text) if text is not None else None
    except ValueError:
        raise BadRequest(f"{text!r} is not a day such as 2026-03-29.") from None


def _print_ingested(run: "RunRecord", state: "DayState") -> None:
    read = f"{run.fetched or 0:,} records in {run.pages or 0:,} pages, {run.seconds or 0:.1f} s"
    what = f"{plain(run.source)} {run.day}"
    if run.status is RunStatus.SUCCEEDED:
        console.print(f"{what}: {run.new:,} NEW, {run.latest:,} LATEST ({read})")
        console.print(f"  {STATES[state]}")
        if run.error:
            console.print(f"[yellow]{wrap(run.error, ' ' * 4)}[/]")
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
