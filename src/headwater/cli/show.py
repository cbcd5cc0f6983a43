"""The text output of commands: lines and tables that fit a terminal of 80 columns and a log file.

All text from outside goes through `plain`, so that the title of a page cannot color, move or overwrite anything.
"""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from headwater.app.doctor_finding import Finding
    from headwater.documents.days import DayItem

console = Console(highlight=False, soft_wrap=True, emoji=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
_FINDING_MARGIN = 29
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
    grid = Table(*columns.values(), box=None, pad_edge=False)
    for row in rows:
        grid.add_row(*(plain(str(getattr(row, name) or "-")) for name in columns))
    console.print(grid)


def day(wanted: date, items: "Sequence[DayItem]", *, brief: bool = False) -> None:
    """Show a day's index. The brief form has no addresses and cuts titles to the width."""
    if not items:
        console.print(f"{wanted}: nothing new and nothing updated.")
        return
    counts = Counter(item.bucket for item in items)
    console.print(f"[bold]{wanted}[/]: {counts['NEW']} NEW, {counts['LATEST']} LATEST")
    for source in dict.fromkeys(item.source for item in items):
        console.print(f"\n[bold]{plain(source)}[/]")
        for item in items:
            if item.source == source:
                title = f"  {item.bucket:<6} {plain(item.title or '(no title)')}"
                if brief:
                    print_cut(title)
                else:
                    console.print(title)
                    console.print(f"         [dim]{plain(item.url)}[/]")


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
            for piece in textwrap.wrap(visible(line), width, subsequent_indent="  ", break_on_hyphens=False):
                console.print(head + escape(piece))
                head = " " * _FINDING_MARGIN
    counts = Counter(str(finding.state) for finding in found.values())
    names = {"warning": "warning" if counts["warning"] == 1 else "warnings"}
    console.print("\n" + ", ".join(f"{counts[state]} {names.get(state, state)}" for state in colours if counts[state]))
    failed = [name for name, finding in found.items() if finding.state == "failed"]
    if failed:
        console.print(textwrap.fill(f"Failed: {', '.join(failed)}.", console.width, subsequent_indent=" " * 8))


def wrap(text: str, margin: str, width: int = 80) -> str:
    """Return a text as markup in lines of at most `width` columns, each after a margin."""
    width = min(console.width, width)
    return escape(textwrap.fill(visible(text), width, initial_indent=margin, subsequent_indent=margin))


def print_cut(markup: str) -> None:
    """Print one line. A line that is too wide ends with an ellipsis."""
    console.print(markup, soft_wrap=False, no_wrap=True, overflow="ellipsis")
