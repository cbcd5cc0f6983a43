"""What people see of hand-offs and jobs."""

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.cli.show import console, plain
from headwater.core.reasons import Reason

_COLOURS = {"completed": "green", "ready": "green", "failed": "red"}


def handoffs(rows: Sequence[Mapping[str, Any]], total: int, offset: int) -> None:
    """Show hand-offs, two lines each, and how many there are."""
    if not rows:
        console.print("There are no such hand-offs." if not total else f"There are only {total:,}.")
        return
    console.print(
        f"[dim]{'hand-off':>9}  {'status':<9}  {'updated, UTC':<16}  {'run':>6}  {'reason':<28}  job, source[/]"
    )
    for row in rows:
        job = f"job {row['job_id']} {row['job_status']}" if row["job_id"] else "no job"
        failed = f" ({row['job_reason']})" if row["job_reason"] else ""
        console.print(
            f"{row['handoff_id']:>9}  {_status(row)}  {row['updated_at']:%Y-%m-%d %H:%M}  "
            f"{row['scrape_run_id'] or '-':>6}  {row['reason_code']:<28}  {job}{failed}  {plain(row['source'])}"
        )
        console.print(f"{'':>9}  [dim]{plain(row['url'])}[/]")
    _shown(len(rows), total, offset)


def handoff(row: Mapping[str, Any], jobs_of_item: Sequence[Mapping[str, Any]]) -> None:
    """Show a hand-off in words, and the jobs of its item."""
    console.print(f"[bold]Hand-off {row['handoff_id']}[/] of {plain(row['source'])}: {plain(row['title'])}")
    console.print(f"  {plain(row['url'])}")
    run = f"run {row['scrape_run_id']}" if row["scrape_run_id"] else "a run that is gone"
    attempts = f"{row['attempts']} attempt{'' if row['attempts'] == 1 else 's'}"
    console.print(f"  {_status(row)} since {row['updated_at']:%Y-%m-%d %H:%M:%S} UTC, brought by {run}, {attempts}")
    console.print(f"  {row['reason_code']}: {Reason.of(row['reason_code']).sentence}")
    if row["error"]:
        console.print(f"  [red]{plain(row['error'])}[/]")
    console.print(f"  item {row['reference_id']}")
    console.print(f"  payload {row['payload_hash']}")
    for job in jobs_of_item:
        told = f"{job['reason']}: {Reason.of(job['reason']).sentence}" if job["reason"] else ""
        document = f"document {job['document_id']}" if job["document_id"] else ""
        console.print(f"  job {job['job_id']}  {_status(job)}  {told or document}")


def jobs(rows: Sequence[Mapping[str, Any]], total: int, offset: int) -> None:
    """Show jobs, two lines each, and how many there are."""
    if not rows:
        console.print("There are no such jobs." if not total else f"There are only {total:,}.")
        return
    console.print(f"[dim]{'job':>9}  {'status':<9}  {'why, or document':<20}  {'made, UTC':<16}  source[/]")
    for row in rows:
        document = f"document {row['document_id']}" if row["document_id"] else "-"
        console.print(
            f"{row['job_id']:>9}  {_status(row)}  {row['reason'] or document:<20}  "
            f"{row['created_at']:%Y-%m-%d %H:%M}  {plain(row['source'])}"
        )
        console.print(f"{'':>9}  [dim]{plain(row['url'])}[/]")
    _shown(len(rows), total, offset)


def retried(count: int) -> None:
    """Show how many jobs wait again."""
    wait = "1 job waits for its page again." if count == 1 else f"{count:,} jobs wait for their pages again."
    console.print(wait if count else "No job has failed so.")


def _status(row: Mapping[str, Any]) -> str:
    return f"[{_COLOURS.get(row['status'], 'yellow')}]{row['status']:<9}[/]"


def _shown(count: int, total: int, offset: int) -> None:
    if count < total:
        console.print(f"\n{offset + 1:,} to {offset + count:,} of {total:,}; --offset {offset + count} shows more.")
