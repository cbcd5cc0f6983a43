"""`headwater diff DOCUMENT`: what changed in it."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli.common import Json, run, settings_with_logs
from headwater.cli.output import print_json
from headwater.cli.show import console, plain, visible

if TYPE_CHECKING:
    from headwater.app.operations import Reader
    from headwater.documents.revisions import Revisions

_STYLES = {"added": "green", "removed": "red strike", "same": ""}
_MARKS = {"added": ("{+", "+}"), "removed": ("[-", "-]"), "same": ("", "")}
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def diff(
    document: Annotated[str, typer.Argument(help="The number of a document, or its URL.")],
    before: Annotated[
        int | None, typer.Option("--from", min=1, help="A revision; by default the one before the other.")
    ] = None,
    after: Annotated[int | None, typer.Option("--to", min=1, help="A revision; by default the last.")] = None,
    as_json: Json = False,
) -> None:
    """Show what changed in a document that was updated, by paragraphs and words."""
    from headwater.app.sessions import with_reader

    async def ask(reader: "Reader") -> "Revisions":
        return await reader.diffs.diff(await reader.diffs.find(document), before, after)

    settings = settings_with_logs("error")
    found = run(with_reader(settings, ask))
    if as_json:
        print_json(_as_json(found))
    else:
        _show(found)


def _as_json(found: "Revisions") -> dict[str, Any]:
    told: dict[str, Any] = asdict(found)
    diff: dict[str, Any] = told.pop("diff")
    for change in diff["changes"]:
        change["pieces"] = [{"kind": kind, "text": text} for kind, text in change["pieces"]]
    return told | {"summary": found.diff.sentences(), "told_all": found.diff.told_all} | diff


def _show(found: "Revisions") -> None:
    if found.last == 1:
        console.print(f"Document {found.document_id} has one revision only: nothing has changed since it was fetched.")
        return
    console.print(f"[bold]{plain(found.url)}[/]")
    console.print(
        f"[dim]document {found.document_id}, from revision {found.before} ({found.before_came_at:%Y-%m-%d %H:%M}) "
        f"to {found.after} ({found.after_came_at:%Y-%m-%d %H:%M}) of {found.last}[/]"
    )
    for sentence in found.diff.sentences():
        console.print(plain(sentence))
    for change in found.diff.changes:
        line = Text(f"\n{_SIGNS[change.kind]} ")
        if change.behind:
            line.append(f"{visible(change.behind)} … ", "dim")
        for previous, (kind, text) in zip((None, *change.pieces), change.pieces, strict=False):
            # Colours alone would be lost in a file, or to who cannot see them.
            first, last = _MARKS[kind] if change.kind == "changed" else ("", "")
            is_instead = kind == "added" and previous is not None and previous.kind == "removed"
            line.append(" " * (text[0].isspace() and not is_instead))
            line.append(f"{first}{visible(text)}{last}", _STYLES[kind])
        console.print(line)
    if not found.diff.told_all:
        console.print("\nThere are more; these are the first.")
