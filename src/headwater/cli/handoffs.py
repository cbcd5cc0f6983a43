"""`headwater handoff`: list hand-offs and jobs, and retry the failed ones."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.common import Json, Source, Yes, confirm, run_local
from headwater.cli.output import print_json, print_result
from headwater.cli.show import console, plain
from headwater.core.errors import BadRequest
from headwater.core.record import LARGEST_ID

if TYPE_CHECKING:
    from headwater.db.handoffs import Handoff
    from headwater.db.jobs import Job, JobFilter
    from headwater.handoff.operations import HandoffOperations, RetriedJobs

handoff_app = typer.Typer(help="Hand-offs of items, and the jobs that wait for their pages.", no_args_is_help=True)

RunId = Annotated[
    int | None, typer.Option("--run", min=1, max=LARGEST_ID, help="Only items that this run touched last.")
]
FailedReason = Annotated[str | None, typer.Option("--reason", help="Only jobs that failed for this reason.")]
Limit = Annotated[int, typer.Option(min=1, max=1000)]
Offset = Annotated[int, typer.Option(min=0, max=LARGEST_ID, help="Skip so many.")]

_COLOURS = {"completed": "green", "ready": "green", "failed": "red"}


@handoff_app.command("list")
def list_handoffs(
    source: Source = None,
    status: Annotated[str | None, typer.Option(help="queued, running, completed or failed.")] = None,
    run_id: RunId = None,
    limit: Limit = 50,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """List hand-offs with their reasons and jobs, the newest first."""
    from headwater.handoff.operations import HandoffFilter

    only = HandoffFilter(source, status, run_id)
    page = run_local(lambda operations: operations.handoffs.list_handoffs(only, limit=limit, offset=offset))
    print_result(page, lambda page: _print_handoffs(page.handoffs, page.total, offset), as_json=as_json)


@handoff_app.command("show")
def show_handoff(
    handoff_id: Annotated[int, typer.Argument(metavar="ID", min=1, max=LARGEST_ID, help="A hand-off.")],
    as_json: Json = False,
) -> None:
    """Show a hand-off and the jobs of its item."""
    handoff, jobs = run_local(lambda operations: _get_with_jobs(operations.handoffs, handoff_id))
    if as_json:
        print_json(asdict(handoff) | {"jobs": jobs})
        return
    console.print(f"[bold]Hand-off {handoff.handoff_id}[/] of {plain(handoff.source)}: {plain(handoff.title)}")
    console.print(f"  {plain(handoff.url)}")
    run = f"run {handoff.scrape_run_id}" if handoff.scrape_run_id else "a deleted run"
    attempts = f"{handoff.attempts} attempt{'' if handoff.attempts == 1 else 's'}"
    since = f"since {handoff.updated_at:%Y-%m-%d %H:%M:%S} UTC"
    console.print(f"  {_format_status(handoff.status)} {since}, brought by {run}, {attempts}")
    console.print(f"  {handoff.reason_code}: {handoff.reason_code.sentence}")
    if handoff.error:
        console.print(f"  [red]{plain(handoff.error)}[/]")
    console.print(f"  item {handoff.reference_id}")
    console.print(f"  payload {handoff.payload_hash}")
    for job in jobs:
        reason = f"{job.reason}: {job.reason.sentence}" if job.reason else ""
        document = f"document {job.document_id}" if job.document_id else ""
        console.print(f"  job {job.job_id}  {_format_status(job.status)}  {reason or document}")


async def _get_with_jobs(operations: "HandoffOperations", handoff_id: int) -> "tuple[Handoff, list[Job]]":
    from headwater.handoff.operations import JobFilter

    handoff = await operations.get_handoff(handoff_id)
    return handoff, (await operations.list_jobs(JobFilter(reference_id=handoff.reference_id))).jobs


@handoff_app.command("jobs")
def list_jobs(
    source: Source = None,
    status: Annotated[str | None, typer.Option(help="queued, running, ready or failed.")] = None,
    reason: FailedReason = None,
    run_id: RunId = None,
    limit: Limit = 50,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """List jobs, the newest first. A job waits for the page of an item, is ready, or has failed."""
    from headwater.handoff.operations import JobFilter

    only = JobFilter(source, status, run_id, reason)
    page = run_local(lambda operations: operations.handoffs.list_jobs(only, limit=limit, offset=offset))
    print_result(page, lambda page: _print_jobs(page.jobs, page.total, offset), as_json=as_json)


@handoff_app.command("retry")
def retry(
    handoff_ids: Annotated[list[int] | None, typer.Argument(metavar="ID", help="Numbers of hand-offs.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All failed jobs that match the filters.")] = False,
    source: Source = None,
    reason: FailedReason = None,
    run_id: RunId = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Retry failed hand-offs or their jobs by number; with --all, every failed job that matches the filters."""
    from headwater.handoff.operations import JobFilter

    if bool(handoff_ids) == everything or everything != bool(source or reason or run_id):
        raise BadRequest("Give numbers of hand-offs, or --all with at least one of --source, --reason, --run.")
    if everything:
        only = JobFilter(source, "failed", run_id, reason)
        retried = run_local(lambda operations: _retry_jobs(operations.handoffs, only, yes=yes))
        jobs = "1 job waits for its page" if retried.retried == 1 else f"{retried.retried:,} jobs wait for their pages"
        message = f"{jobs} again." if retried.retried else "No failed jobs match."
        print_result(retried, lambda _: console.print(message), as_json=as_json)
        return
    found = run_local(lambda operations: _retry_handoffs(operations.handoffs, handoff_ids or []))
    if as_json:
        print_json({"handoffs": found})
    else:
        _print_handoffs(found, len(found), 0)


async def _retry_jobs(operations: "HandoffOperations", only: "JobFilter", *, yes: bool) -> "RetriedJobs":
    total = (await operations.list_jobs(only, limit=1)).total
    confirm(f"Retry {total:,} failed {'job' if total == 1 else 'jobs'}?", yes=yes)
    return await operations.retry_jobs(only)


async def _retry_handoffs(operations: "HandoffOperations", ids: list[int]) -> "list[Handoff]":
    return [await operations.retry_handoff(handoff_id) for handoff_id in ids]


def _print_handoffs(handoffs: "Sequence[Handoff]", total: int, offset: int) -> None:
    head = f"{'hand-off':>9}  {'status':<9}  {'updated, UTC':<16}  {'run':>6}  {'reason':<28}  job, source"
    with _table("hand-offs", head, len(handoffs), total, offset):
        for handoff in handoffs:
            job = f"job {handoff.job_id} {handoff.job_status}" if handoff.job_id else "no job"
            failed = f" ({handoff.job_reason})" if handoff.job_reason else ""
            console.print(
                f"{handoff.handoff_id:>9}  {_format_status(handoff.status)}  {handoff.updated_at:%Y-%m-%d %H:%M}  "
                f"{handoff.scrape_run_id or '-':>6}  {handoff.reason_code:<28}  {job}{failed}  {plain(handoff.source)}"
            )
            console.print(f"{'':>9}  [dim]{plain(handoff.url)}[/]")


def _print_jobs(jobs: "Sequence[Job]", total: int, offset: int) -> None:
    head = f"{'job':>9}  {'status':<9}  {'reason, or document':<20}  {'created, UTC':<16}  source"
    with _table("jobs", head, len(jobs), total, offset):
        for job in jobs:
            document = f"document {job.document_id}" if job.document_id else "-"
            console.print(
                f"{job.job_id:>9}  {_format_status(job.status)}  {job.reason or document:<20}  "
                f"{job.created_at:%Y-%m-%d %H:%M}  {plain(job.source)}"
            )
            console.print(f"{'':>9}  [dim]{plain(job.url)}[/]")


@contextmanager
def _table(what: str, head: str, count: int, total: int, offset: int) -> Iterator[None]:
    """Print the head of a table, and after its rows how to see more."""
    if not count:
        console.print(f"There are only {total:,}." if total else f"No {what} match.")
    else:
        console.print(f"[dim]{head}[/]")
    yield
    if 0 < count < total:
        console.print(f"\n{offset + 1:,} to {offset + count:,} of {total:,}; --offset {offset + count} shows more.")


def _format_status(status: str) -> str:
    return f"[{_COLOURS.get(status, 'yellow')}]{status:<9}[/]"
