"""What people see of the upkeep."""

from collections.abc import Callable, Iterator
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
    from headwater.documents.upkeep import Sweep, Verified
    from headwater.storage.backup_manifest import Manifest
    from headwater.storage.restore import Restored

_SHOWN = 10  # findings of each fault


def sweeps(done: "list[Sweep]", strangers: list[str], *, dry_run: bool) -> None:
    """Show what was swept, or would be, source by source where there was something."""
    for sweep in done:
        if sweep.error:
            console.print(plain(sweep.error))
        elif sweep.swept.drafts and len(done) > 1:
            console.print(f"{plain(sweep.source)}: {_drafts(sweep.swept.drafts, sweep.swept.size)}")
    for name in strangers:
        console.print(f"The folder {plain(name)} belongs to no source; it was left alone.")
    total = _drafts(sum(sweep.swept.drafts for sweep in done), sum(sweep.swept.size for sweep in done))
    console.print(f"{total} {'would be removed' if dry_run else 'removed'}.")


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a bar in a terminal; what is yielded takes how many are done, and of how many."""
    if quiet or not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:
        task = bars.add_task("verify", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextmanager
def steps(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar for each step in a terminal; what is yielded takes the step, how many are done, and of how many."""
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


def backed_up(manifest: "Manifest", folder: str) -> None:
    """Show what is in a backup, and what should be and is not."""
    of_all = f"of {manifest.documents:,} documents have"
    if manifest.missing:
        console.print(
            f"{manifest.missing:,} {of_all} no raw file here. Were they fetched on another machine, or is a disk not "
            "mounted?"
        )
    if manifest.unlike:
        console.print(f"{manifest.unlike:,} {of_all} another raw file than their row tells of.")
    console.print(f"{plain(folder)} has {_contents(manifest)}, as of {manifest.taken_at:%Y-%m-%d %H:%M:%S} UTC.")


def restored(outcome: "Restored") -> None:
    """Show what was restored, and which raw files are not right."""
    manifest = outcome.manifest
    of_all = f"of {manifest.documents:,} documents have"
    if outcome.missing:
        console.print(f"{outcome.missing:,} {of_all} no raw file in the backup: they had none when it was made.")
    if outcome.unlike:
        unlike = len(outcome.unlike)
        console.print(f"{unlike:,} {of_all} another raw file in the backup than their row tells of:")
        for path in outcome.unlike[:_SHOWN]:
            console.print(f"  {plain(path)}")
        if unlike > _SHOWN:
            console.print(f"  and {unlike - _SHOWN:,} more: --json lists them")
    console.print(f"Restored {_contents(manifest)}, as of {manifest.taken_at:%Y-%m-%d %H:%M:%S} UTC.")
    if manifest.schema != outcome.schema:
        console.print(f"The schema was brought from version {manifest.schema} to {outcome.schema}.")
    console.print("`headwater verify` looks whether all of it is right.")


def _contents(manifest: "Manifest") -> str:
    raw, tables = decimal(manifest.raw.size), decimal(manifest.database_size)
    return f"{manifest.documents:,} documents, {manifest.raw.files:,} raw files ({raw}) and all tables ({tables})"


def verified(outcome: "Verified") -> None:
    """Show what a verify has found, fault by fault."""
    progress = outcome.progress
    if outcome.resumed_after is not None:
        begun = f"{progress.begun_at:%Y-%m-%d %H:%M} UTC"
        console.print(f"One begun {begun} was interrupted: it went on after document {outcome.resumed_after}.")
    for fault, count in progress.faults.most_common():
        console.print(f"\n[bold]{count:,}[/]  {fault}: {fault.sentence}")
        found = [finding for finding in progress.findings if finding.fault is fault]
        for finding in found[:_SHOWN]:
            console.print(f"  document {finding.document_id} of {plain(finding.source)}: {plain(finding.url)}")
            console.print(f"    [dim]{plain(finding.raw_path)}[/] {plain(finding.detail)}")
        if count > _SHOWN:
            console.print(f"  and {count - min(_SHOWN, len(found)):,} more: --json lists them")
    if progress.faults:
        console.print()
    if not progress.checked:
        console.print("There are no documents to look at.")
    elif progress.wrong:
        console.print(f"{progress.wrong:,} of {progress.checked:,} documents are not right.")
    else:
        console.print(f"All {progress.checked:,} documents are right.")


def _drafts(count: int, size: int) -> str:
    return f"{count:,} draft{'' if count == 1 else 's'} ({decimal(size)})"
