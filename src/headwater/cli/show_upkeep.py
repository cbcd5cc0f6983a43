"""The text output of janitor, verify, backup and restore."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from headwater.cli.show import console, plain

if TYPE_CHECKING:
    from headwater.documents.upkeep import BackupReport, RestoreReport, SweepReport, VerifyReport

_MAX_SHOWN = 10  # findings of each fault, and files


def sweep(report: "SweepReport") -> None:
    """Show the removed drafts, source by source."""
    for source in report.sources:
        if source.error:
            console.print(plain(source.error))
        elif source.drafts and len(report.sources) > 1:
            console.print(f"{plain(source.name)}: {_drafts(source.drafts, source.bytes)}")
    for name in report.without_source:
        console.print(f"The folder {plain(name)} belongs to no source and was left alone.")
    console.print(f"{_drafts(report.drafts, report.bytes)} {'would be removed' if report.dry_run else 'removed'}.")


def _drafts(count: int, size: int) -> str:
    return f"{count:,} draft{'' if count == 1 else 's'} ({decimal(size)})"


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a bar in a terminal. Yields a callback that takes how many are done, and the total."""
    if quiet or not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:
        task = bars.add_task("verify", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextmanager
def steps(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar for each step in a terminal. Yields a callback for the step, the number done, and the total."""
    if quiet or not console.is_terminal:
        yield lambda step, done, total: None
        return
    columns = (TextColumn("{task.description:9}"), BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def show_step(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)

        yield show_step


def backup(report: "BackupReport") -> None:
    """Show the contents of a backup, and how many raw files are wrong."""
    if report.missing:
        console.print(
            f"{report.missing:,} of {report.documents:,} documents have no raw file here. Were they fetched on another "
            "machine, or is a disk not mounted?"
        )
    if report.differing:
        console.print(f"{report.differing:,} of {report.documents:,} documents differ from their raw file.")
    console.print(f"{plain(report.folder)} has {_contents(report)}.")


def restore(report: "RestoreReport") -> None:
    """Show the contents of a restored backup, and which raw files are wrong."""
    if report.missing:
        console.print(f"{report.missing:,} of {report.documents:,} documents have no raw file in the backup.")
    if report.differing:
        console.print(f"{report.differing:,} of {report.documents:,} documents differ from their raw file:")
        for path in report.differing_files[:_MAX_SHOWN]:
            console.print(f"  {plain(path)}")
        _show_rest(report.differing_files, report.differing)
    console.print(f"Restored {_contents(report)}.")
    if report.schema != report.schema_before:
        console.print(f"The schema was updated from version {report.schema_before} to {report.schema}.")
    console.print("`headwater verify` checks the restored documents.")


def _contents(report: "BackupReport") -> str:
    raw, tables = decimal(report.bytes), decimal(report.database_bytes)
    return (
        f"{report.documents:,} documents, {report.files:,} raw files ({raw}) and all tables ({tables}), "
        f"as of {report.taken_at:%Y-%m-%d %H:%M:%S} UTC"
    )


def verify(report: "VerifyReport") -> None:
    """Show the findings of a verify, fault by fault."""
    if report.resumed_after is not None:
        begun = f"{report.begun_at:%Y-%m-%d %H:%M} UTC"
        console.print(f"An interrupted verify, begun at {begun}, was resumed after document {report.resumed_after}.")
    for fault, count in report.faults.items():
        console.print(f"\n[bold]{count:,}[/]  {fault}: {fault.sentence}")
        found = [finding for finding in report.findings if finding.fault is fault]
        for finding in found[:_MAX_SHOWN]:
            console.print(f"  document {finding.document_id} of {plain(finding.source)}: {plain(finding.url)}")
            console.print(f"    [dim]{plain(finding.raw_path)}[/] {plain(finding.detail)}")
        _show_rest(found, count)
    if report.faults:
        console.print()
    if not report.checked:
        console.print("There are no documents to verify.")
    elif report.wrong:
        console.print(f"{report.wrong:,} of {report.checked:,} documents are wrong.")
    else:
        console.print(f"All {report.checked:,} documents are right.")


def _show_rest(listed: Sequence[object], count: int) -> None:
    shown = min(_MAX_SHOWN, len(listed))
    if count > shown:
        console.print(f"  and {count - shown:,} more: --json lists them")
