"""Commands about days and runs: `today`, `daily`, `ingest`, `runs`."""

from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli import show, show_days
from headwater.cli.common import Json, run_live, run_local
from headwater.cli.output import print_json
from headwater.core.errors import BadRequest
from headwater.core.run import RunCounters, RunStatus

if TYPE_CHECKING:
    from headwater.app.operations import Operations
    from headwater.discovery.operations import RunRecord
    from headwater.documents.days import DayState

Source = Annotated[str | None, typer.Option(help="Only this source.")]


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
    if as_json:
        print_json(view)
    else:
        show_days.daily(view, is_filtered=only != DayFilter())


def ingest(
    source: Annotated[str, typer.Argument(help="A source of dated days, such as govuk.")],
    day: Annotated[
        str | None, typer.Option("--date", help="The day as YYYY-MM-DD; by default the last that is over.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read a day of a source now, and show the result. Exits 1 if the day could not be read to its end."""
    wanted = _date(day)
    counters = RunCounters()
    with show_days.progress(counters, quiet=as_json):
        run, state = run_live(lambda operations: _ingest(operations, source, wanted, counters))
    if as_json:
        print_json(asdict(run) | {"state": state})
    else:
        show_days.ingested(run, state)
    if run.status is not RunStatus.SUCCEEDED:
        raise typer.Exit(1)


async def _ingest(
    operations: "Operations", source: str, day: date | None, counters: RunCounters
) -> tuple["RunRecord", "DayState"]:
    """Read a day. Return the run and the state of the day after it."""
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
        show_days.runs(found)


def _date(text: str | None) -> date | None:
    try:
        if text is not None and len(text) != len("2026-03-29"):
            raise ValueError
        return date.fromisoformat(text) if text is not None else None
    except ValueError:
        raise BadRequest(f"{text!r} is not a day such as 2026-03-29.") from None
