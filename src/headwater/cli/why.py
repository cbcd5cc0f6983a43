"""The command `headwater why URL`."""

import itertools
import re
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len, chop_cells
from rich.markup import escape

from headwater.cli import show
from headwater.cli.common import Json, run_local
from headwater.cli.output import print_result

if TYPE_CHECKING:
    from headwater.explain.report import Why

MARGIN = 10
WIDTH = 80
_WORD = re.compile(r"\S*`[^`]*`\S*|\S+")  # a command between backticks is one word


def why(url: Annotated[str, typer.Argument(help="The address of a page.")], as_json: Json = False) -> None:
    """Show everything that is known about a URL: its sources, its end and the reason, and what happens next."""
    print_result(run_local(lambda operations: operations.why(url)), _show_lines, as_json=as_json)


def _show_lines(found: "Why") -> None:
    """Print labelled sentences. Sentences with the same label follow it once."""
    show.console.print(f"[bold]{show.plain(found.url)}[/]")
    for label, group in itertools.groupby(found.lines, key=lambda line: line.label):
        margin = f"[bold]{label:<{MARGIN}}[/]"
        for line in group:
            for piece in _wrap(show.visible(line.text), WIDTH - MARGIN):
                show.console.print(margin + escape(piece))
                margin = " " * MARGIN


def _wrap(text: str, width: int) -> list[str]:
    """Break a text into lines by its width on the screen. Addresses and commands stay whole, to be copied."""
    lines = [""]
    for word in _WORD.findall(text):
        for part in [word] if "://" in word else chop_cells(word, width):
            longer = f"{lines[-1]} {part}".lstrip()
            if cell_len(longer) <= width:
                lines[-1] = longer
            else:
                lines.append(part)
    return [line for line in lines if line]
