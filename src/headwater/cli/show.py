"""What people see: tables and bars that read well in a terminal of 80 columns and in a log file.

Whatever comes from outside goes through `plain`: a page's title can neither colour, move nor overwrite anything.
"""

import os
import re
import shlex
import shutil
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from headwater.core.settings import FILE_VARIABLE, SETTINGS_FILE

if TYPE_CHECKING:
    from headwater.app.doctor import Finding
    from headwater.app.schema import MigrationStatus
    from headwater.canonical.operations import CanonicalTotals
    from headwater.demo.outcome import DemoOutcome, OutcomeGroup
    from headwater.demo.progress import Progress
    from headwater.documents.operations import Hit

console = Console(highlight=False, soft_wrap=True, emoji=False)
_MARGIN = 29  # where the doctor's words begin
_SHOWN_WRONG = 10  # of what is wrong with one check of the demo
_TOLD_AGAIN_SECONDS = 10.0
_LONE_ESCAPE = re.compile(r"\\(?=\[(?![a-z#/@][^\[]*?\]))")
_FOUND_WORDS = re.compile("(⟦[^⟦⟧]*⟧)")


def visible(text: str) -> str:
    """Return what a reader sees of a text, as one line: without control characters and marks of direction."""
    return " ".join("".join(mark for mark in text if mark.isprintable() or mark.isspace()).split())


def plain(text: str) -> str:
    """Return a text from outside so that it can stand in markup and means nothing there."""
    seen = visible(text)
    body = seen.rstrip("\\")
    # What is no tag is not escaped, but a backslash before its bracket is taken for an escape all the same; and so are
    # those at the end, if a tag follows.
    return _LONE_ESCAPE.sub(r"\\\\", escape(body)) + "\\" * 2 * (len(seen) - len(body))


Column = tuple[str, str | Callable[[Any], object]]


def print_table(rows: Iterable[object], *columns: Column) -> None:
    """Print records as a table. A column is its title, and an attribute or a function of the record."""
    grid = Table(*(title for title, _ in columns), box=None, pad_edge=False)
    for row in rows:
        cells = [getattr(row, cell) if isinstance(cell, str) else cell(row) for _, cell in columns]
        grid.add_row(*(plain(format_cell(value)) for value in cells))
    console.print(grid)


def format_cell(value: object) -> str:
    """Write a value as a table shows it: `-` for none, thousands with commas, times to the minute."""
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def ready(address: str) -> None:
    """Say where the API listens."""
    console.print(f"Headwater listens on {address} (OpenAPI at {address}/docs). Ctrl-C stops it.")


def day(wanted: date, rows: list[dict[str, Any]], *, brief: bool = False) -> None:
    """Show a day's index; briefly: without addresses, and titles cut to the width."""
    if not rows:
        console.print(f"{wanted}: nothing new and nothing updated.")
        return
    counts = Counter(row["bucket"] for row in rows)
    console.print(f"[bold]{wanted}[/]: {counts['NEW']} NEW, {counts['LATEST']} LATEST")
    for source in dict.fromkeys(row["source"] for row in rows):
        console.print(f"\n[bold]{plain(source)}[/]")
        for row in rows:
            if row["source"] == source:
                title = f"  {row['bucket']:<6} {plain(row['title'] or '(no title)')}"
                if brief:
                    _cut(title)
                else:
                    console.print(title)
                    console.print(f"         [dim]{plain(row['url'])}[/]")


def hits(query: str, found: "Sequence[Hit]") -> None:
    """Show the documents that match a search."""
    if not found:
        console.print(f"Nothing found for '{plain(query)}'.")
    for hit in found:
        published = f"{hit.published_at:%Y-%m-%d}" if hit.published_at else "undated"
        console.print(f"[bold]{plain(hit.title or '(no title)')}[/]  {published}  {plain(hit.source)}")
        console.print(_snippet(hit.snippet))
        console.print(f"  [dim]{plain(hit.url)}[/]\n")


def _snippet(marked: str) -> Text:
    """Show the words that were found; a page may have brackets of its own, closed or not."""
    shown = Text("  ")
    for part in _FOUND_WORDS.split(visible(marked)):
        found = _FOUND_WORDS.fullmatch(part)
        shown.append(part[1:-1] if found else part, "bold yellow" if found else None)
    return shown


def findings(found: "dict[str, Finding]") -> None:
    """Show what the doctor found, each check with what to do about it, and last what failed."""
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
            width = max(console.width - _MARGIN, 20)
            for piece in textwrap.wrap(visible(line), width, subsequent_indent="  ", break_on_hyphens=False):
                console.print(head + escape(piece))
                head = " " * _MARGIN
    counts = Counter(str(finding.state) for finding in found.values())
    names = {"warning": "warning" if counts["warning"] == 1 else "warnings"}
    console.print("\n" + ", ".join(f"{counts[state]} {names.get(state, state)}" for state in colours if counts[state]))
    failed = [name for name, finding in found.items() if finding.state == "failed"]
    if failed:
        console.print(textwrap.fill(f"Failed: {', '.join(failed)}.", console.width, subsequent_indent=" " * 8))


def migrations(verb: str, names: list[str]) -> None:
    """Show what was done to the schema."""
    for name in names:
        console.print(f"{verb} {name}")
    if not names:
        console.print(f"nothing to be {verb}")


def schema(rows: "Sequence[MigrationStatus]") -> None:
    """Show which migrations are applied."""
    for row in rows:
        console.print(f"{row.number:03} {row.name:<12} {'applied' if row.applied else 'not applied'}")


@contextmanager
def demo_progress(*, quiet: bool) -> "Iterator[Progress]":
    """Show a demo's progress: live bars in a terminal; in a log a line a stage, and more where a stage lasts."""
    if quiet:
        yield lambda stage, done, total, waits_for: None
    elif console.is_terminal:
        yield from _bars()
    else:
        yield from _stage_lines()


def _bars() -> "Iterator[Progress]":
    columns = (
        TextColumn("{task.description:<6}"),
        BarColumn(16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[waits]}"),
    )
    tasks: dict[str, TaskID] = {}
    with Bars(*columns, console=console) as bars:

        def show(stage: str, done: int, total: int, waits_for: str) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total, waits="")
            waits = f"waiting for {plain(waits_for)}" if waits_for else ""
            bars.update(tasks[stage], completed=done, total=total, waits=waits)

        yield show


def _stage_lines(clock: Callable[[], float] = time.monotonic) -> "Iterator[Progress]":
    ended: set[str] = set()
    begun: dict[str, float] = {}
    told = clock()

    def show(stage: str, done: int, total: int, waits_for: str) -> None:
        nonlocal told
        now = clock()
        line = f"{stage}: {done} of {total}"
        if done < total or waits_for:
            begun.setdefault(stage, now)
            if now - max(told, begun[stage]) < _TOLD_AGAIN_SECONDS:
                return
            line += f" after {now - begun[stage]:.0f} s" + (f", waiting for {plain(waits_for)}" if waits_for else "")
        elif stage in ended or total == 1:  # a single step that is done is shown by the next stage
            return
        else:
            ended.add(stage)
        told = now
        console.print(line)

    yield show


def demo(outcome: "DemoOutcome") -> None:
    """Show the result of the demo."""
    console.print()
    day(outcome.day, outcome.items, brief=True)
    console.print("\n[bold]Documents by host[/]")
    for host, count in outcome.documents.items():
        console.print(f"{count:>6}  {plain(host)}")
    _outcomes("Other outcomes", [group for group in outcome.outcomes if not (group.waits or group.has_document)])
    _outcomes("Waiting URLs", [group for group in outcome.outcomes if group.waits])
    _articles(outcome.articles)
    console.print("\n[bold]Time[/]  " + ", ".join(f"{stage} {spent:.2f} s" for stage, spent in outcome.seconds.items()))
    console.print("\n[bold]Checks[/]")
    for check in outcome.checks:
        margin = " " * 7
        told = _filled(f"{check.name} ({check.found})", margin)
        console.print(f"  {'[green]ok  [/]' if check.holds else '[red]FAIL[/]'} {told[len(margin) :]}")
        for wrong in check.wrong[:_SHOWN_WRONG]:
            console.print(_filled(wrong, margin))
        if len(check.wrong) > _SHOWN_WRONG:
            console.print(f"       and {len(check.wrong) - _SHOWN_WRONG} more")
    console.print("\nAll checks passed." if outcome.as_expected else "\nSome checks failed.")


def _articles(totals: "CanonicalTotals") -> None:
    if totals.new:
        failed = "".join(f", {count} {code}" for code, count in sorted(totals.failed.items()))
        kept = totals.stored + totals.skipped
        told = f"{totals.new} links of feeds: {kept} kept{failed}, {totals.deferred} put off"
        console.print("\n[bold]Canonical articles[/]")
        console.print(_filled(told, "  "))


def demo_serves(api: str, web: str, hosts: Sequence[str], data: Path) -> None:
    """Say where the demo can be looked at, and how."""
    console.print(f"\nHeadwater listens on {api} (OpenAPI at /docs).")
    console.print(f"The small web listens on {web}, which lists its hosts:")
    console.print(_filled(", ".join(hosts), "  "))
    console.print("Ctrl-C stops both. Look around, for example with:")
    console.print(f"  curl -s '{api}/search?q=flood'")
    console.print(f"  curl -s -H 'Host: gazette.demo.test' {web}/feed.xml")
    console.print(f"  export {FILE_VARIABLE}={plain(shlex.quote(str(data / SETTINGS_FILE)))}")
    program = plain(_this_program())
    for words in ("today", "source budgets"):
        console.print(f"  {program} {words}")
    console.print("The backfill of bills is put aside. This takes it up again:")
    console.print(f"  {program} source enable bills")


def _this_program() -> str:
    """Return the word that starts this program once more."""
    started = sys.argv[0]
    if not os.access(started, os.X_OK) or shutil.which("headwater") == started:
        return "headwater"
    return shlex.quote(started)


def _outcomes(title: str, outcomes: "list[OutcomeGroup]") -> None:
    if outcomes:
        console.print(f"\n[bold]{title}[/]")
    for group in outcomes:
        margin = " " * 8
        console.print(f"{group.count:>6}  {_filled(group.sentence, margin)[len(margin) :]}")
        room = max(console.width - len(group.example), 0)
        _cut(f"{margin[:room]}[dim]{plain(group.example)}[/]")  # a long address is rather whole than in line


def _filled(text: str, margin: str) -> str:
    """Return a text as lines that are not too wide, each after a margin, to stand in markup."""
    width = min(console.width, 80)
    return escape(textwrap.fill(visible(text), width, initial_indent=margin, subsequent_indent=margin))


def _cut(markup: str) -> None:
    """Print one line, with an ellipsis where it is too wide."""
    console.print(markup, soft_wrap=False, no_wrap=True, overflow="ellipsis")
