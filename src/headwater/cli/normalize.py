"""The command `headwater normalize FILE`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli import show
from headwater.cli.common import Json, run, settings_with_logs, wait
from headwater.cli.output import print_json

if TYPE_CHECKING:
    from headwater.documents.normalize import NormalizedFile


def normalize(
    file: Annotated[
        Path,
        typer.Argument(help="A page (HTML), a PDF or an XML document, or - for standard input.", show_default=False),
    ],
    url: Annotated[str | None, typer.Option(help="The address of the file. Links are relative to it.")] = None,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print only the Markdown. Why there is none goes to stderr.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the document that a file would become, without storing it. Exits 1 if the file cannot be read.

    The command waits for a FIFO until another program writes to it and closes it.
    """
    from headwater.documents.normalize import normalize_file, read_body

    settings = settings_with_logs("error")
    body = wait(lambda: read_body(settings, file))
    found = run(normalize_file(settings, file, body, url))
    if as_json:
        print_json(found)
    elif not as_markdown:
        _show_facts(found)
        if found.text:
            typer.echo("")
            _print_lines(found.text)
    elif found.markdown:
        _print_lines(found.markdown)
    else:
        _show_facts(found, err=True)
    raise typer.Exit(1 if found.has_failed else 0)


def _show_facts(found: "NormalizedFile", *, err: bool = False) -> None:
    facts = {
        "file": found.file,
        "read by": found.normalizer or "nothing",
        "status": found.status + (f": {found.message}" if found.message else ""),
        "title": found.title,
        "pages": str(found.page_count or ""),
        "apart": ", ".join(f"{table.name} (page {table.page}: {table.why})" for table in found.artifacts),
    }
    for name, value in facts.items():
        if value:
            typer.echo(f"{name:<8} {show.visible(value)}", err=err)


def _print_lines(text: str) -> None:
    for line in text.split("\n"):
        typer.echo(show.visible(line))
