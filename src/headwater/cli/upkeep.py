"""The commands that look after what is kept."""

from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli import show_upkeep as show
from headwater.cli.common import LAST_ID, Json, duration, run, settings_with_logs
from headwater.cli.output import print_json
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason

if TYPE_CHECKING:
    from headwater.app.operations import LocalOperations
    from headwater.documents.upkeep import Verified
    from headwater.storage.backup_manifest import Manifest


def source_janitor(
    name: Annotated[str | None, typer.Argument(help="A source.")] = None,
    all_sources: Annotated[bool, typer.Option("--all", help="Every source.")] = False,
    older_than: Annotated[str, typer.Option(help="The least age of what is swept, as 36h or 7d.")] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    as_json: Json = False,
) -> None:
    """Remove the drafts of raw files that killed writers left. Exits 1 if a source could not be swept."""
    from headwater.app.sessions import with_reader
    from headwater.documents.upkeep import Sweep, UpkeepOperations

    if (name is None) is not all_sources:
        raise OperatorError("Name a source, or say --all.", reason=Reason.BAD_REQUEST)
    age = duration(older_than, "--older-than")

    async def ask(operations: UpkeepOperations) -> tuple[list[Sweep], list[str]]:
        if name is None:
            return await operations.sweep_all(older_than=age, dry_run=dry_run)
        return [await operations.sweep(name, older_than=age, dry_run=dry_run)], []

    sweeps, strangers = run(with_reader(settings_with_logs("error"), lambda reader: ask(reader.upkeep)))
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "drafts": sum(sweep.swept.drafts for sweep in sweeps),
                "bytes": sum(sweep.swept.size for sweep in sweeps),
                "sources": [
                    {
                        "name": sweep.source,
                        "drafts": sweep.swept.drafts,
                        "bytes": sweep.swept.size,
                        "error": sweep.error,
                    }
                    for sweep in sweeps
                ],
                "without_source": strangers,
            }
        )
    else:
        show.sweeps(sweeps, strangers, dry_run=dry_run)
    raise typer.Exit(1 if any(sweep.error for sweep in sweeps) else 0)


def verify(
    source: Annotated[str | None, typer.Option(help="Only documents of this source.")] = None,
    since_id: Annotated[int, typer.Option(min=0, max=LAST_ID, help="Only documents with a number over this.")] = 0,
    restart: Annotated[bool, typer.Option("--restart", help="Do not go on where one was interrupted.")] = False,
    as_json: Json = False,
) -> None:
    """Look whether every document is what its raw file says. Exits 1 if one is not; interrupted, it goes on later."""
    from headwater.app.sessions import with_reader

    settings = settings_with_logs("error")

    async def ask(reader: "LocalOperations") -> bool:
        async with AsyncExitStack() as told:
            with show.progress(quiet=as_json) as on_progress:
                verified = await told.enter_async_context(
                    reader.upkeep.verify(source=source, since_id=since_id, restart=restart, on_progress=on_progress)
                )
            if as_json:
                print_json(_as_json(verified))
            else:
                show.verified(verified)
        return not verified.progress.wrong

    try:
        right = run(with_reader(settings, ask))
    except SystemExit as ending:
        ending.add_note("Verify again, it goes on from here.")
        raise
    raise typer.Exit(0 if right else 1)


def backup(
    folder: Annotated[Path, typer.Argument(help="Where to; not there yet, or empty.")], as_json: Json = False
) -> None:
    """Copy database and raw files, as of one moment, while all goes on. Exits 1 if raw files are not right."""
    from headwater.storage.backup import back_up

    settings = settings_with_logs("error")
    with show.steps(quiet=as_json) as on_step:
        manifest = run(back_up(settings, folder.absolute(), on_step))
    if as_json:
        print_json({"folder": str(folder.absolute()), **_told(manifest)})
    else:
        show.backed_up(manifest, str(folder))
    raise typer.Exit(1 if manifest.missing or manifest.unlike else 0)


def restore(
    folder: Annotated[Path, typer.Argument(help="A folder that a backup was made in.")], as_json: Json = False
) -> None:
    """Take a backup back, into an empty data folder and an empty database. Exits 1 if raw files are not right."""
    from headwater.storage import restore as restoring

    settings = settings_with_logs("error")
    with show.steps(quiet=as_json) as on_step:
        restored = run(restoring.restore(settings, folder.absolute(), on_step))
    if as_json:
        told = {"schema": restored.schema, "schema_before": restored.manifest.schema}
        faults = {"missing": restored.missing, "unlike": len(restored.unlike), "unlike_files": restored.unlike}
        print_json(_told(restored.manifest) | told | faults)
    else:
        show.restored(restored)
    raise typer.Exit(1 if restored.missing or restored.unlike else 0)


def _told(manifest: "Manifest") -> dict[str, Any]:
    return {
        "taken_at": manifest.taken_at,
        "headwater": manifest.headwater,
        "schema": manifest.schema,
        "postgres": manifest.postgres,
        "documents": manifest.documents,
        "files": manifest.raw.files,
        "bytes": manifest.raw.size,
        "database_bytes": manifest.database_size,
        "missing": manifest.missing,
        "unlike": manifest.unlike,
    }


def _as_json(verified: "Verified") -> dict[str, Any]:
    progress = verified.progress
    return {
        "begun_at": progress.begun_at,
        "resumed_after": verified.resumed_after,
        "checked": progress.checked,
        "right": progress.checked - progress.wrong,
        "wrong": progress.wrong,
        "faults": progress.faults,
        "findings": [asdict(finding) for finding in progress.findings],
        "unlisted": progress.faults.total() - len(progress.findings),
    }
