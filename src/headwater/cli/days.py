"""Commands about days and the runs that read them: `today`, `daily`, `ingest`, `runs`."""

from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli import show, show_days
from headwater.cli.common import Json, run_live, run_local
from headwater.cli.output import print_json
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.run import RunCounters

if TYPE_CHECKING:
    from headwater.app.operations import Operations

Source = Annotated[str | None, typer.Option(help="Only this source.")]


def today(
    day: Annotated[str | None, typer.Argument(help="A day as YYYY-MM-DD; by default today.")] = None,
    as_json: Json = False,
) -> None:
    """Show what is NEW and what is LATEST today."""
    wanted = _date(day)
    view = run_local(lambda operations: operations.days.day(wanted) if wanted else operations.days.today())
    if as_json:
        print_json({"day": view.day, "items": view.items})
    else:
        show.day(view.day, view.items)


def daily(
    day: Annotated[
        str, typer.Argument(metavar="[DATE]", help="A day as YYYY-MM-DD, or latest: the last that was read whole.")
    ] = "latest",
    source: Source = None,
    bucket: Annotated[str | None, typer.Option(help="NEW or LATEST only.")] = None,
    organisation: Annotated[str | None, typer.Option(help="Only items of the organisation with this title.")] = None,
    document_type: Annotated[str | None, typer.Option("--type", help="Only this type, such as press_release.")] = None,
    as_json: Json = False,
) -> None:
    """Show a day as a table: what was NEW and LATEST, and whether it is complete."""
    from headwater.documents.operations import DayFilter

    wanted = None if day == "latest" else _date(day)
    if bucket is not None and bucket.upper() not in ("NEW", "LATEST"):
        raise OperatorError(f"--bucket: is NEW or LATEST, not {bucket!r}.", reason=Reason.BAD_REQUEST)
    only = DayFilter(source, bucket.upper() if bucket else None, organisation, document_type)
    view = run_local(lambda operations: operations.days.day(wanted, only))
    if as_json:
        print_json(asdict(view))
    else:
        show_days.daily(view, is_filtered=only != DayFilter())


def ingest(
    source: Annotated[str, typer.Argument(help="A source of dated days, such as govuk.")],
    day: Annotated[
        str | None, typer.Option("--date", help="The day as YYYY-MM-DD; by default the last that is over.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read a day of a source now, and show what came. Exits 1 if it could not be read whole."""
    wanted = _date(day)
    counters = RunCounters()
    with show_days.reading(counters, quiet=as_json):
        ended = run_live(lambda operations: _ingest(operations, source, wanted, counters))
    if as_json:
        print_json(ended)
    else:
        show_days.ingested(ended)
    if ended["status"] != "succeeded":
        raise typer.Exit(1)


async def _ingest(operations: "Operations", source: str, day: date | None, counters: RunCounters) -> dict[str, Any]:
    """Read a day; return the run, and how the day stands after it."""
    from headwater.documents.operations import DayFilter

    ended = await operations.runs.ingest(source, day, counters)
    (stands,) = (await operations.days.day(ended["day"], DayFilter(source=source))).sources
    return ended | {"state": stands.state}


def runs(
    source: Source = None,
    status: Annotated[str | None, typer.Option(help="running, succeeded or failed.")] = None,
    day: Annotated[str | None, typer.Option("--date", help="Only runs for this day.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500)] = 20,
    as_json: Json = False,
) -> None:
    """Show the last runs, newest first: scheduled ones, and those that somebody asked for."""
    if status not in (None, "running", "succeeded", "failed"):
        raise OperatorError(f"--status: is running, succeeded or failed, not {status!r}.", reason=Reason.BAD_REQUEST)
    wanted = _date(day)
    rows: list[dict[str, Any]] = run_local(
        lambda operations: operations.runs.listed(source=source, status=status, day=wanted, limit=limit)
    )
    if as_json:
        print_json({"runs": rows})
    else:
        show_days.runs(rows)


def _date(text: str | None) -> date | None:
    try:
        if text is not None and len(text) != len("2026-03-29"):
            raise ValueError
        return date.fromisoformat(text) if text is not None else None
    except ValueError:
        raise OperatorError(f"{text!r} is not a day such as 2026-03-29.", reason=Reason.BAD_REQUEST) from None
