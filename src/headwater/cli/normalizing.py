"""`headwater normalize FILE`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli import show
from headwater.cli.common import Json, run, settings_with_logs, wait
from headwater.cli.output import print_json

if TYPE_CHECKING:
    from headwater.documents.normalize import ReadFile


def normalize(
    file: Annotated[
        Path,
        typer.Argument(help="A page (HTML), a PDF or an XML document, or - for standard input.", show_default=False),
    ],
    url: Annotated[str | None, typer.Option(help="Where it came from: its links are told from there.")] = None,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print its Markdown and nothing else; why there is none, to stderr.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a file would be stored as. Nothing is stored. Exits 1 if it cannot be read.

    A FIFO is waited for until somebody writes to it and closes it.
    """
    from headwater.documents.normalize import read_body, read_file

    settings = settings_with_logs("error")
    body = wait(lambda: read_body(settings, file))
    found = run(read_file(settings, file, body, url))
    if as_json:
        print_json(found.as_json())
    elif not as_markdown:
        _show_facts(found)
        if found.article.text:
            typer.echo("")
            _print_lines(found.article.text)
    elif found.markdown:
        _print_lines(found.markdown)
    else:
        _show_facts(found, err=True)
    raise typer.Exit(0 if found.is_as_expected else 1)


def _show_facts(found: "ReadFile", *, err: bool = False) -> None:
    reading, article = found.reading, found.article
    facts = {
        "file": found.file,
        "read by": reading.normalizer or "nothing",
        "status": found.status + (f": {reading.message}" if reading.message else ""),
        "title": article.title,
        "pages": str(reading.page_count or ""),
        "apart": ", ".join(f"{table.name} (page {table.page}: {table.why})" for table in article.artifacts),
    }
    for name, value in facts.items():
        if value:
            typer.echo(f"{name:<8} {show.visible(value)}", err=err)


def _print_lines(text: str) -> None:
    for line in text.split("\n"):
        typer.echo(show.visible(line))
