"""`headwater handoff`: what runs have handed off, the jobs that wait for pages, and what is tried again."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli import show_handoffs as show
from headwater.cli.common import LAST_ID, Json, T, run, settings_with_logs
from headwater.cli.output import print_json
from headwater.core.errors import OperatorError
from headwater.core.handoff import JobFilter
from headwater.core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headwater.handoff.operations import HandoffOperations

handoff_app = typer.Typer(help="What runs hand off, and the jobs that wait for its pages.", no_args_is_help=True)

Source = Annotated[str | None, typer.Option(help="Only this source.")]
RunId = Annotated[int | None, typer.Option("--run", min=1, max=LAST_ID, help="Only what this run touched last.")]
WhyFailed = Annotated[str | None, typer.Option("--reason", help="Only jobs that failed for this reason.")]
Limit = Annotated[int, typer.Option(min=1, max=1000)]
Offset = Annotated[int, typer.Option(min=0, max=LAST_ID, help="Pass over so many.")]


@handoff_app.command("list")
def list_handoffs(
    source: Source = None,
    status: Annotated[str | None, typer.Option(help="queued, running, completed or failed.")] = None,
    run_id: RunId = None,
    limit: Limit = 50,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """List hand-offs, newest first: how each ended and why, and how its job stands."""
    rows, total = run(
        _ask(
            lambda operations: operations.listed(
                source=source, status=status, scrape_run_id=run_id, limit=limit, offset=offset
            )
        )
    )
    if as_json:
        print_json({"handoffs": rows, "total": total, "limit": limit, "offset": offset})
    else:
        show.handoffs(rows, total, offset)


@handoff_app.command("show")
def show_handoff(
    handoff_id: Annotated[int, typer.Argument(metavar="ID", min=1, max=LAST_ID, help="A hand-off.")],
    as_json: Json = False,
) -> None:
    """Show a hand-off and the jobs of its item."""
    row, jobs = run(_ask(lambda operations: _with_jobs(operations, handoff_id)))
    if as_json:
        print_json(row | {"jobs": jobs})
    else:
        show.handoff(row, jobs)


async def _with_jobs(operations: "HandoffOperations", handoff_id: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    row = await operations.get(handoff_id)
    jobs, _ = await operations.jobs(JobFilter(reference_id=row["reference_id"]))
    return row, jobs


@handoff_app.command("jobs")
def list_jobs(
    source: Source = None,
    status: Annotated[str | None, typer.Option(help="queued, running, ready or failed.")] = None,
    reason: WhyFailed = None,
    run_id: RunId = None,
    limit: Limit = 50,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """List jobs, newest first: each waits for the page of an item, or is ready, or failed."""
    only = JobFilter(source, status, reason, run_id)
    rows, total = run(_ask(lambda operations: operations.jobs(only, limit=limit, offset=offset)))
    if as_json:
        print_json({"jobs": rows, "total": total, "limit": limit, "offset": offset})
    else:
        show.jobs(rows, total, offset)


@handoff_app.command("retry")
def retry(
    handoff_ids: Annotated[list[int] | None, typer.Argument(metavar="ID", help="Hand-offs, by their numbers.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All failed jobs that the filters choose.")] = False,
    source: Source = None,
    reason: WhyFailed = None,
    run_id: RunId = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Try again what failed: hand-offs that are named, or their jobs; or with --all every failed job of a choice."""
    if bool(handoff_ids) == everything or everything != bool(source or reason or run_id):
        raise OperatorError(
            "Give numbers of hand-offs, or --all with at least one of --source, --reason, --run.",
            reason=Reason.BAD_REQUEST,
        )
    if everything:
        only = JobFilter(source, "failed", reason, run_id)
        if not yes and not sys.stdin.isatty():
            raise OperatorError("Nobody can be asked here: add --yes. Nothing was changed.", reason=Reason.BAD_REQUEST)
        retried = run(_ask(lambda operations: _retry_all(operations, only, asks=not yes)))
        if as_json:
            print_json({"retried": retried})
        else:
            show.retried(retried)
        return
    rows = run(_ask(lambda operations: _retry_each(operations, handoff_ids or [])))
    if as_json:
        print_json({"handoffs": rows})
    else:
        show.handoffs(rows, len(rows), 0)


async def _retry_all(operations: "HandoffOperations", only: JobFilter, *, asks: bool) -> int:
    if asks:
        _, total = await operations.jobs(only, limit=1)
        typer.confirm(f"Let {total:,} failed {'job' if total == 1 else 'jobs'} wait again?", abort=True)
    return await operations.retry_all(source=only.source, reason=only.reason, scrape_run_id=only.scrape_run_id)


async def _retry_each(operations: "HandoffOperations", ids: list[int]) -> list[dict[str, Any]]:
    return [await operations.retry(handoff_id) for handoff_id in ids]


async def _ask(question: "Callable[[HandoffOperations], Awaitable[T]]") -> T:
    from headwater.app.sessions import with_reader

    return await with_reader(settings_with_logs("error"), lambda reader: question(reader.handoffs))
