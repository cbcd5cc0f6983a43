"""Commands about documents: `show`, `why`, `diff` and `normalize`."""

import itertools
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal
from rich.markup import escape
from rich.text import Text

from headwater.cli.common import (
    Json,
    Yes,
    confirm,
    run,
    run_local,
    settings_with_logs,
    wait,
)
from headwater.cli.output import print_json, print_result
from headwater.cli.show import break_lines, console, plain, visible

if TYPE_CHECKING:
    from headwater.app.operations import LocalOperations
    from headwater.documents.diff import TextDiff
    from headwater.documents.normalize import NormalizedFile
    from headwater.documents.operations import Document, DocumentDiff
    from headwater.explain.report import Why

_WHY_MARGIN, _WHY_WIDTH = 10, 80
_FIELDS = (
    *("title", "page_kind", "published_at", "updated_at", "language", "region", "byline", "abstract", "image"),
    "canonical_url",
)
_FIELD_WIDTH = 15
_STYLES = {"added": "green", "removed": "red strike", "same": ""}
_MARKS = {"added": ("{+", "+}"), "removed": ("[-", "-]"), "same": ("", "")}
document_app = typer.Typer(help="The documents.", no_args_is_help=True)
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def why(url: Annotated[str, typer.Argument(help="The address of a page.")], as_json: Json = False) -> None:
    """Show everything that is known about a URL: its sources, its end and the reason, and what happens next."""
    print_result(run_local(lambda operations: operations.why(url)), _print_why, as_json=as_json)


def _print_why(found: "Why") -> None:
    """Print labelled sentences. Sentences with the same label follow it once."""
    console.print(f"[bold]{plain(found.url)}[/]")
    for label, group in itertools.groupby(found.lines, key=lambda line: line.label):
        margin = f"[bold]{label:<{_WHY_MARGIN}}[/]"
        for line in group:
            for piece in break_lines(visible(line.text), _WHY_WIDTH - _WHY_MARGIN):
                console.print(margin + escape(piece))
                margin = " " * _WHY_MARGIN


def show_document(
    document: Annotated[str, typer.Argument(help="The id of a document, or its URL.")], as_json: Json = False
) -> None:
    """Show a document: its fields and where they come from, its revisions, and its text."""

    async def get(operations: "LocalOperations") -> "Document":
        return await operations.documents.get(await operations.documents.find(document))

    print_result(run_local(get), _print_document, as_json=as_json)


def _print_document(found: "Document") -> None:
    console.print(f"[bold]{plain(found.title or '(no title)')}[/]\n{plain(found.url)}")
    fetched = f"fetched {found.fetched_at:%Y-%m-%d %H:%M} UTC"
    console.print(f"document {found.id} of {plain(found.source)}, revision {found.revision}, {fetched}\n")
    for name in _FIELDS:
        value = getattr(found, name)
        if value is not None:
            shown = f"{value:%Y-%m-%d %H:%M} UTC" if isinstance(value, datetime) else str(value)
            origin = [found.provenance[name]] if name in found.provenance else []
            origin += [f"{found.confidence[name]:.0%} sure"] if name in found.confidence else []
            about = f"  [dim]({plain(', '.join(origin))})[/]" if origin else ""
            console.print(f"{name:<{_FIELD_WIDTH}}{plain(shown)}{about}")
    raw = f"{decimal(found.raw_bytes)}, read by {found.normalizer}"
    console.print(f"{'raw file':<{_FIELD_WIDTH}}{plain(found.raw_path)}  [dim]({plain(raw)})[/]")
    console.print(f"{'text hash':<{_FIELD_WIDTH}}{found.content_hash}\n{'raw hash':<{_FIELD_WIDTH}}{found.raw_hash}")
    for earlier in found.revisions:
        dates = f"{earlier.fetched_at:%Y-%m-%d %H:%M} to {earlier.replaced_at:%Y-%m-%d %H:%M} UTC"
        console.print(f"{f'revision {earlier.revision}':<{_FIELD_WIDTH}}{dates}  {plain(earlier.title)}")
    if found.artifacts:
        console.print(f"{'tables':<{_FIELD_WIDTH}}{len(found.artifacts)} that the text cannot show; --json has them")
    console.print()
    _print_lines(found.text)


@document_app.command("delete")
def document_delete(
    document: Annotated[str, typer.Argument(help="The id of a document, or its URL.")],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete a document with its revisions and its raw file. Its page is fetched again only by `frontier retry`."""

    async def find(operations: "LocalOperations") -> "Document":
        return await operations.documents.get(await operations.documents.find(document))

    found = run_local(find)
    confirm(f"Delete document {found.id}, {visible(found.url)}?", yes=yes)
    deleted = run_local(lambda operations: operations.documents.delete(found.id))
    print_result(deleted, lambda _: console.print(f"Deleted document {deleted.id}."), as_json=as_json)


def diff(
    document: Annotated[str, typer.Argument(help="The id of a document, or its URL.")],
    before: Annotated[int | None, typer.Option("--from", min=1, help="A revision; by default the one before.")] = None,
    after: Annotated[int | None, typer.Option("--to", min=1, help="A revision; by default the last.")] = None,
    as_json: Json = False,
) -> None:
    """Show what changed in a document that was updated, by paragraphs and words."""

    async def compare(operations: "LocalOperations") -> "DocumentDiff":
        return await operations.documents.diff(await operations.documents.find(document), before, after)

    print_result(run_local(compare), _print_diff, as_json=as_json)


def _print_diff(found: "DocumentDiff") -> None:
    if found.last == 1:
        console.print(f"Document {found.document_id} has one revision only: nothing has changed since it was fetched.")
        return
    console.print(f"[bold]{plain(found.url)}[/]")
    console.print(
        f"[dim]document {found.document_id}, from revision {found.before} ({found.before_came_at:%Y-%m-%d %H:%M}) "
        f"to {found.after} ({found.after_came_at:%Y-%m-%d %H:%M}) of {found.last}[/]"
    )
    print_changes(found)


def print_changes(found: "TextDiff") -> None:
    """Show the changes between two texts."""
    for sentence in found.summary:
        console.print(plain(sentence))
    for change in found.changes:
        line = Text(f"\n{_SIGNS[change.kind]} ")
        if change.row_label:
            line.append(f"{visible(change.row_label)} … ", "dim")
        for previous, piece in zip((None, *change.pieces), change.pieces, strict=False):
            # The marks remain where colours are lost: in a file, or for a reader who cannot see them.
            first, last = _MARKS[piece.kind] if change.kind == "changed" else ("", "")
            is_replacement = piece.kind == "added" and previous is not None and previous.kind == "removed"
            line.append(" " * (piece.text[0].isspace() and not is_replacement))
            line.append(f"{first}{visible(piece.text)}{last}", _STYLES[piece.kind])
        console.print(line)
    if not found.has_all_changes:
        console.print("\nThere are more changes; these are the first.")


def normalize(
    file: Annotated[Path, typer.Argument(help="A page (HTML), a PDF or an XML document; - reads standard input.")],
    url: Annotated[str | None, typer.Option(help="The address of the file. Links are relative to it.")] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print only the Markdown.")] = False,
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
    elif as_markdown and found.markdown:
        _print_lines(found.markdown)
    else:
        _print_facts(found, err=as_markdown)
        if found.text and not as_markdown:
            typer.echo("")
            _print_lines(found.text)
    raise typer.Exit(1 if found.has_failed else 0)


def _print_facts(found: "NormalizedFile", *, err: bool = False) -> None:
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
            typer.echo(f"{name:<8} {visible(value)}", err=err)


def _print_lines(text: str) -> None:
    for line in text.split("\n"):
        typer.echo(visible(line))
