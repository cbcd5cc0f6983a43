"""`headwater source import` and `export`: sources from files and into files."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli import show_sources
from headwater.cli.common import Json, run, settings_with_logs
from headwater.cli.output import print_json
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason


def source_import(
    file: Annotated[Path, typer.Argument(help="An OPML or YAML file; - reads standard input.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")] = False,
    as_json: Json = False,
) -> None:
    """Add the sources that a file lists. What cannot be used is told, and the rest goes in.

    Exits 0 if any was added or known, 1 if all were refused, 2 if there was none.
    """
    from headwater.app.sessions import with_reader

    body = _read(file)
    settings = settings_with_logs("error")
    imported = run(with_reader(settings, lambda reader: reader.sources.import_list(body, dry_run=dry_run)))
    if as_json:
        refused = [{"where": one.where, "given": one.given, "why": one.why} for one in imported.refused]
        print_json({"added": imported.added, "known": imported.known, "refused": refused, "dry_run": dry_run})
    else:
        show_sources.imported(imported.added, imported.known, imported.refused, dry_run=dry_run)
    raise typer.Exit(1 if imported.refused and not (imported.added or imported.known) else 0)


def source_export(
    file: Annotated[Path | None, typer.Argument(help="Where to write it; by default standard output.")] = None,
    form: Annotated[str, typer.Option("--format", help="yaml, whole; or opml, the feeds for any reader.")] = "yaml",
) -> None:
    """Write all sources into a file that can be imported."""
    from headwater.app.sessions import with_reader

    if form not in ("yaml", "opml"):
        raise OperatorError(f"--format: is yaml or opml, not {form!r}.", reason=Reason.BAD_REQUEST)
    settings = settings_with_logs("error")
    without: list[str] = []
    if form == "yaml":
        body = run(with_reader(settings, lambda reader: reader.sources.export_yaml()))
    else:
        body, without = run(with_reader(settings, lambda reader: reader.sources.export_opml()))
    _write(body, file)
    if without:
        show_sources.left_out(without)


def _read(file: Path) -> bytes:
    from headwater.sources.import_export import LARGEST_FILE

    enough = LARGEST_FILE + 1  # then it is told that it is too large
    try:
        if str(file) == "-" and sys.stdin is not None:
            return sys.stdin.buffer.read(enough)
        with file.open("rb") as opened:
            return opened.read(enough)
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}.", reason=Reason.BAD_REQUEST) from None


def _write(body: bytes, file: Path | None) -> None:
    if file is None:
        typer.echo(body.decode(), nl=False)
        return
    try:
        file.write_bytes(body)
    except OSError as error:
        raise OperatorError(f"{file} cannot be written: {error.strerror}.", reason=Reason.FOLDER_UNUSABLE) from None
