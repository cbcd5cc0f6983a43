"""The command `headwater diff DOCUMENT`."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headwater.cli.common import Json, run_local
from headwater.cli.output import print_result
from headwater.cli.show import console, plain, visible

if TYPE_CHECKING:
    from headwater.app.operations import LocalOperations
    from headwater.documents.operations import DocumentDiff

_STYLES = {"added": "green", "removed": "red strike", "same": ""}
_MARKS = {"added": ("{+", "+}"), "removed": ("[-", "-]"), "same": ("", "")}
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def diff(
    document: Annotated[str, typer.Argument(help="The id of a document, or its URL.")],
    before: Annotated[
        int | None, typer.Option("--from", min=1, help="A revision; by default the one before the other.")
    ] = None,
    after: Annotated[int | None, typer.Option("--to", min=1, help="A revision; by default the last.")] = None,
    as_json: Json = False,
) -> None:
    """Show what changed in a document that was updated, by paragraphs and words."""

    async def compare(operations: "LocalOperations") -> "DocumentDiff":
        return await operations.documents.diff(await operations.documents.find(document), before, after)

    print_result(run_local(compare), _show, as_json=as_json)


def _show(found: "DocumentDiff") -> None:
    if found.last == 1:
        console.print(f"Document {found.document_id} has one revision only: nothing has changed since it was fetched.")
        return
    console.print(f"[bold]{plain(found.url)}[/]")
    console.print(
        f"[dim]document {found.document_id}, from revision {found.before} ({found.before_came_at:%Y-%m-%d %H:%M}) "
        f"to {found.after} ({found.after_came_at:%Y-%m-%d %H:%M}) of {found.last}[/]"
    )
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
