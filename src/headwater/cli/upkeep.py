"""Commands that look after the stored data: janitor, verify, backup and restore."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli import show_upkeep as show
from headwater.cli.common import Json, parse_duration, run, run_local, settings_with_logs
from headwater.cli.output import print_json
from headwater.core.errors import BadRequest
from headwater.core.record import LARGEST_ID

if TYPE_CHECKING:
    from headwater.app.operations import LocalOperations


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
    if as_json:
        print_json(report)
    else:
        show.sweep(report)
    raise typer.Exit(1 if any(source.error for source in report.sources) else 0)


def verify(
    source: Annotated[str | None, typer.Option(help="Only documents of this source.")] = None,
    since_id: Annotated[int, typer.Option(min=0, max=LARGEST_ID, help="Only documents with a larger id.")] = 0,
    restart: Annotated[bool, typer.Option("--restart", help="Do not resume an interrupted verify.")] = False,
    as_json: Json = False,
) -> None:
    """Compare every document with its raw file. Exits 1 if one is wrong. An interrupted verify resumes later."""

    async def compare(operations: "LocalOperations") -> bool:
        async with AsyncExitStack() as until_shown:
            with show.progress(quiet=as_json) as on_progress:
                report = await until_shown.enter_async_context(
                    operations.upkeep.verify(source=source, since_id=since_id, restart=restart, on_progress=on_progress)
                )
            if as_json:
                print_json(report)
            else:
                show.verify(report)
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

    settings = settings_with_logs("error")
    with show.steps(quiet=as_json) as on_step:
        report = run(back_up(settings, folder.absolute(), on_step))
    if as_json:
        print_json(report)
    else:
        show.backup(report)
    raise typer.Exit(1 if report.missing or report.differing else 0)


def restore(folder: Annotated[Path, typer.Argument(help="The folder of a backup.")], as_json: Json = False) -> None:
    """Restore a backup into an empty data folder and an empty database. Exits 1 if raw files are wrong."""
    from headwater.documents.upkeep import restore_backup

    settings = settings_with_logs("error")
    with show.steps(quiet=as_json) as on_step:
        report = run(restore_backup(settings, folder.absolute(), on_step))
    if as_json:
        print_json(report)
    else:
        show.restore(report)
    raise typer.Exit(1 if report.missing or report.differing else 0)
