"""Commands that look after the stored data: janitor, verify, backup, restore and upgrade."""

import functools
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.filesize import decimal
from rich.progress import MofNCompleteColumn, TimeElapsedColumn, TimeRemainingColumn

from headwater.cli.bars import progress_bars
from headwater.cli.common import Json, Source, Yes, confirm, parse_duration, run, run_local, settings_with_logs
from headwater.cli.output import print_result
from headwater.cli.show import console, plain
from headwater.core.errors import BadRequest
from headwater.core.record import LARGEST_ID

if TYPE_CHECKING:
    from headwater.app.operations import LocalOperations
    from headwater.app.schema import UpgradeReport
    from headwater.core.settings import Settings
    from headwater.documents.upkeep import BackupReport, RestoreReport, SweepReport, VerifyReport

R = TypeVar("R", bound="BackupReport")
_MAX_SHOWN = 10  # findings of each fault, and files


def source_janitor(
    name: Annotated[str | None, typer.Argument(help="A source.")] = None,
    all_sources: Annotated[bool, typer.Option("--all", help="Every source.")] = False,
    older_than: Annotated[str, typer.Option(help="The minimum age of a draft, such as 36h or 7d.")] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    as_json: Json = False,
) -> None:
    """Remove the drafts of raw files that killed writers left. Exits 1 if a source could not be swept."""
    if (name is None) is not all_sources:
        raise BadRequest("Name a source, or use --all.")
    age = parse_duration(older_than, "--older-than")
    report = run_local(lambda operations: operations.upkeep.sweep(name, older_than=age, dry_run=dry_run))
    print_result(report, print_sweep, as_json=as_json)
    raise typer.Exit(1 if any(source.error for source in report.sources) else 0)


def verify(
    source: Source = None,
    since_id: Annotated[int, typer.Option(min=0, max=LARGEST_ID, help="Only documents with a larger id.")] = 0,
    restart: Annotated[bool, typer.Option("--restart", help="Do not resume an interrupted verify.")] = False,
    as_json: Json = False,
) -> None:
    """Compare every document with its raw file. Exits 1 if one is wrong. An interrupted verify resumes later."""
    columns = MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()

    async def compare(operations: "LocalOperations") -> bool:
        async with AsyncExitStack() as until_shown:
            with progress_bars(*columns, quiet=as_json) as show_step:
                on_progress = functools.partial(show_step, "verify")
                report = await until_shown.enter_async_context(
                    operations.upkeep.verify(source=source, since_id=since_id, restart=restart, on_progress=on_progress)
                )
            print_result(report, print_verify, as_json=as_json)
        return not report.wrong

    try:
        is_right = run_local(compare)
    except SystemExit as ending:
        ending.add_note("Verify again to resume from here.")
        raise
    raise typer.Exit(0 if is_right else 1)


def backup(folder: Annotated[Path, typer.Argument(help="A new or an empty folder.")], as_json: Json = False) -> None:
    """Copy database and raw files, as of one moment, while Headwater runs. Exits 1 if raw files are wrong."""
    from headwater.documents.upkeep import back_up

    _copy(back_up, folder, print_backup, as_json=as_json)


def restore(folder: Annotated[Path, typer.Argument(help="The folder of a backup.")], as_json: Json = False) -> None:
    """Restore a backup into an empty data folder and an empty database. Exits 1 if raw files are wrong."""
    from headwater.documents.upkeep import restore_backup

    _copy(restore_backup, folder, print_restore, as_json=as_json)


def upgrade(
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Delete the kept old cluster, if the new one works.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Move the embedded PostgreSQL to this program's major version. The old cluster is kept until --drop-old."""
    from headwater.app import schema

    settings = settings_with_logs("error")
    if drop_old:
        copies = run(schema.list_copies(settings))
        if copies:
            confirm(f"Delete the old cluster in {', '.join(copies)}?", yes=yes)
        report = run(schema.drop_copies(settings))
    else:
        with progress_bars(quiet=as_json) as on_step:
            report = run(schema.upgrade(settings, on_step))
    print_result(report, print_dropped if drop_old else print_upgrade, as_json=as_json)


def _copy(
    copy: "Callable[[Settings, Path, Any], Coroutine[Any, Any, R]]",
    folder: Path,
    render: "Callable[[R], None]",
    *,
    as_json: bool,
) -> None:
    settings = settings_with_logs("error")
    with progress_bars(quiet=as_json) as on_step:
        report = run(copy(settings, folder.absolute(), on_step))
    print_result(report, render, as_json=as_json)
    raise typer.Exit(1 if report.missing or report.differing else 0)


def print_upgrade(report: "UpgradeReport") -> None:
    """Show what an upgrade copied, and which copies of old clusters are kept."""
    if report.from_version is None:
        console.print(f"The database is PostgreSQL {report.to_version} already.")
    else:
        console.print(
            f"The database moved from PostgreSQL {report.from_version} to {report.to_version}. "
            f"All {report.rows:,} rows of {report.tables} tables are equal."
        )
    for folder in report.copies:
        console.print(f"The old cluster is kept in {plain(folder)}.")
    if report.copies:
        size = decimal(report.copies_bytes)
        console.print(f"If Headwater works as before, free its {size}: `headwater upgrade --drop-old`.")


def print_dropped(report: "UpgradeReport") -> None:
    """Show which copies of old clusters were deleted."""
    for folder in report.dropped:
        console.print(f"Deleted {plain(folder)}.")
    freed = decimal(report.dropped_bytes)
    console.print(f"{freed} are free again." if report.dropped else "There is no copy of an old cluster.")


def print_sweep(report: "SweepReport") -> None:
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


def print_backup(report: "BackupReport") -> None:
    """Show the contents of a backup, and how many raw files are wrong."""
    if report.missing:
        console.print(
            f"{report.missing:,} of {report.documents:,} documents have no raw file here. Were they fetched on another "
            "machine, or is a disk not mounted?"
        )
    if report.differing:
        console.print(f"{report.differing:,} of {report.documents:,} documents differ from their raw file.")
    console.print(f"{plain(report.folder)} has {_contents(report)}.")


def print_restore(report: "RestoreReport") -> None:
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


def print_verify(report: "VerifyReport") -> None:
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
