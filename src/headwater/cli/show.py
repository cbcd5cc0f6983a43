"""The text output of commands: lines and tables that fit a terminal of 80 columns and a log file.

All text from outside goes through `plain`, so that the title of a page cannot color, move or overwrite anything.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from headwater.app.doctor_finding import Finding

console = Console(highlight=False, soft_wrap=True, emoji=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
NO_FETCHER = "No process that fetches pages runs on this database. Start one with `headwater up`."
_FINDING_MARGIN = 29
_WORD = re.compile(r"\S*`[^`]*`\S*|\S+")  # a command between backticks is one word
_ADDRESS = re.compile(r"://|^\W*[\w-]+(\.[\w-]+)+\W*$", re.ASCII)  # a URL, or the name of a host
_LONE_ESCAPE = re.compile(r"\\(?=\[(?![a-z#/@][^\[]*?\]))")


def visible(text: str) -> str:
    """Return the visible part of a text as one line, without control characters and direction marks."""
    return " ".join("".join(mark for mark in text if mark.isprintable() or mark.isspace()).split())


def plain(text: str) -> str:
    """Return a text from outside as markup that only shows it."""
    seen = visible(text)
    body = seen.rstrip("\\")
    # Rich escapes only tags, but reads a backslash before any bracket as an escape. Backslashes at the end would escape
    # a tag that follows.
    return _LONE_ESCAPE.sub(r"\\\\", escape(body)) + "\\" * 2 * (len(seen) - len(body))


def print_table(rows: Iterable[object], **columns: str) -> None:
    """Print records as a table. A column is named by its attribute and has a title. `-` is for an empty value."""
    print_grid([columns.values(), *([str(getattr(row, name) or "-") for name in columns] for row in rows)])


def print_grid(rows: Iterable[Iterable[str]]) -> None:
    """Print rows of cells below each other. The first row is the head. No cell is cut or broken."""
    cells = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        console.print(escape("  ".join(padded).rstrip()), style=None if number else "bold")


def findings(found: "dict[str, Finding]") -> None:
    """Show each check of the doctor with its fix, and last the checks that failed."""
    colours = {
        "ok": "green",
        "warning": "yellow",
        "failed": "bold red",
        "not checked": "yellow",
        "not configured": "dim",
    }
    for name, finding in found.items():
        head = f"{name:<13}[{colours[finding.state]}]{finding.state:<16}[/]"
        for line in (finding.found, *finding.lines, *([f"-> {finding.fix}"] if finding.fix else [])):
            width = max(console.width - _FINDING_MARGIN, 20)
            for number, piece in enumerate(break_lines(visible(line), width - 2)):
                console.print(head + "  " * bool(number) + escape(piece))
                head = " " * _FINDING_MARGIN
    counts = Counter(str(finding.state) for finding in found.values())
    names = {"warning": "warning" if counts["warning"] == 1 else "warnings"}
    console.print("\n" + ", ".join(f"{counts[state]} {names.get(state, state)}" for state in colours if counts[state]))
    failed = [name for name, finding in found.items() if finding.state == "failed"]
    if failed:
        console.print(wrap(f"Failed: {', '.join(failed)}.", ""))


def wrap(text: str, margin: str, width: int = 80) -> str:
    """Return a text as markup in lines of at most `width` columns, each after a margin. Addresses stay whole."""
    lines = break_lines(visible(text), min(console.width, width) - len(margin))
    return escape("\n".join(margin + line for line in lines))


def break_lines(text: str, width: int) -> list[str]:
    """Break a text into lines by its width on the screen. Addresses and commands stay whole, to be copied."""
    lines = [""]
    for word in _WORD.findall(text):
        for part in [word] if _ADDRESS.search(word) else chop_cells(word, width):
            longer = f"{lines[-1]} {part}".lstrip()
            if cell_len(longer) <= width:
                lines[-1] = longer
            else:
                lines.append(part)
    return [line for line in lines if line]


def print_cut(markup: str) -> None:
    """Print one line. A line that is too wide ends with an ellipsis."""
    console.print(markup, soft_wrap=False, no_wrap=True, overflow="ellipsis")
