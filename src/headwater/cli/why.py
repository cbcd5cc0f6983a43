"""`headwater why URL`."""

import itertools
import re
from typing import Annotated

import typer
from rich.cells import cell_len, chop_cells
from rich.markup import escape

from headwater.cli import show
from headwater.cli.common import Json, run, settings_with_logs
from headwater.cli.output import print_json

MARGIN = 10  # where the words begin
WIDTH = 80
_WORD = re.compile(r"\S*`[^`]*`\S*|\S+")  # a command between backticks is one word


def why(url: Annotated[str, typer.Argument(help="The address of a page.")], as_json: Json = False) -> None:
    """Tell all that is known of a URL: who saw it, what became of it and why, and what happens next."""
    from headwater.app.sessions import with_reader
    from headwater.explain.messages import tell, to_json

    settings = settings_with_logs("error")
    known = run(with_reader(settings, lambda reader: reader.why(url)))
    if as_json:
        print_json(to_json(known))
    else:
        show_lines(known.url, [(line.label, line.text) for line in tell(known)])


def show_lines(url: str, lines: list[tuple[str, str]]) -> None:
    """Print labelled sentences; the label stands before the first of those that share it."""
    show.console.print(f"[bold]{show.plain(url)}[/]")
    for label, group in itertools.groupby(lines, key=lambda line: line[0]):
        margin = f"[bold]{label:<{MARGIN}}[/]"
        for _, text in group:
            for piece in _wrap(show.visible(text), WIDTH - MARGIN):
                show.console.print(margin + escape(piece))
                margin = " " * MARGIN


def _wrap(text: str, width: int) -> list[str]:
    """Break a text into lines by what it takes on the screen; addresses and commands stay whole, to be copied."""
    lines = [""]
    for word in _WORD.findall(text):
        for part in [word] if "://" in word else chop_cells(word, width):
            longer = f"{lines[-1]} {part}".lstrip()
            if cell_len(longer) <= width:
                lines[-1] = longer
            else:
                lines.append(part)
    return [line for line in lines if line]
