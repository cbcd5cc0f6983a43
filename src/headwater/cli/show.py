"""What people see: tables and bars that read well in a terminal of 80 columns and in a log file."""

import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from headwater.model.poll import Polled
from headwater.model.reasons import Reason

if TYPE_CHECKING:
    from headwater.demo.run import DemoOutcome
    from headwater.service.doctor import Finding

console = Console(highlight=False, soft_wrap=True)
_MARGIN = 29  # where the doctor's words begin


def ready(address: str) -> None:
    """Say where the API listens."""
    console.print(f"Headwater listens on {address} (OpenAPI at {address}/docs). Ctrl-C stops it.")


def added(polled: Polled) -> None:
    """Show what a new source brought."""
    title = f" ({escape(polled.title)})" if polled.title else ""
    name = escape(polled.source.name)
    console.print(f"Added source [bold]{name}[/]{title}: {polled.items} items, {polled.new_urls} new pages to fetch.")
    for url, why in polled.refused.items():
        console.print(f"  refused {escape(url)}: {escape(why)}")
    console.print("`headwater up` fetches the pages; `headwater today` shows what is new.")


def day(wanted: date, rows: list[dict[str, Any]]) -> None:
    """Show a day's index."""
    if not rows:
        console.print(f"{wanted}: nothing new and nothing updated.")
        return
    counts = Counter(row["bucket"] for row in rows)
    console.print(f"[bold]{wanted}[/]: {counts['NEW']} NEW, {counts['LATEST']} LATEST")
    for source in dict.fromkeys(row["source"] for row in rows):
        console.print(f"\n[bold]{escape(source)}[/]")
        for row in rows:
            if row["source"] == source:
                console.print(f"  {row['bucket']:<6} {escape(row['title'] or '(no title)')}")
                console.print(f"         [dim]{escape(row['url'])}[/]")


def hits(query: str, rows: list[dict[str, Any]]) -> None:
    """Show what a search found."""
    if not rows:
        console.print(f"Nothing found for {escape(query)!r}.")
    for row in rows:
        published = f"{row['published_at']:%Y-%m-%d}" if row["published_at"] else "undated"
        console.print(f"[bold]{escape(row['title'] or '(no title)')}[/]  {published}  {escape(row['source'])}")
        snippet = escape(" ".join(row["snippet"].split())).replace("⟦", "[bold yellow]").replace("⟧", "[/]")
        console.print(f"  {snippet}")
        console.print(f"  [dim]{escape(row['url'])}[/]\n")


def sources(rows: list[dict[str, Any]]) -> None:
    """Show the sources."""
    if not rows:
        console.print("There are no sources yet: `headwater add URL` adds a feed.")
        return
    grid = Table("source", "kind", "items", "docs", "last poll", "how it went", box=None, pad_edge=False)
    for row in rows:
        polled = f"{row['last_polled_at']:%m-%d %H:%M}" if row["last_polled_at"] else "never"
        grid.add_row(
            escape(row["name"]),
            escape(row["kind"]),
            str(row["items"]),
            str(row["documents"]),
            polled,
            escape(row["last_error"] or row["last_reason"] or "-"),
        )
    console.print(grid)


def findings(found: "dict[str, Finding]") -> None:
    """Show what the doctor found, each check with what to do about it, and how many are in which state."""
    colours = {"ok": "green", "warning": "yellow", "failed": "bold red", "not configured": "dim"}
    for name, finding in found.items():
        head = f"{name:<13}[{colours[finding.state]}]{finding.state:<16}[/]"
        for line in (finding.found, *([f"-> {finding.mend}"] if finding.mend else []), *finding.log):
            for piece in textwrap.wrap(line, max(console.width - _MARGIN, 20), break_on_hyphens=False):
                console.print(head + escape(piece))
                head = " " * _MARGIN
    counts = Counter(str(finding.state) for finding in found.values())
    console.print("\n" + ", ".join(f"{counts[state]} {state}" for state in colours if counts[state]))


def settings(rows: list[dict[str, Any]]) -> None:
    """Show the settings."""
    grid = Table("setting", "value", "from", box=None, pad_edge=False)
    for row in rows:
        grid.add_row(row["name"], escape(row["value"]) or "-", escape(row["origin"]))
    console.print(grid)


def migrations(verb: str, names: list[str]) -> None:
    """Show what was done to the schema."""
    for name in names:
        console.print(f"{verb} {name}")
    if not names:
        console.print(f"nothing to be {verb}")


def schema(rows: list[dict[str, Any]]) -> None:
    """Show which migrations are in force."""
    for row in rows:
        console.print(f"{row['number']:03} {row['name']:<12} {'applied' if row['applied'] else 'not applied'}")


def demo_progress(*, quiet: bool) -> Callable[[str, int, int], None]:
    """Return what shows a demo's progress: live bars in a terminal, a line a stage in a log."""
    if quiet:
        return lambda stage, done, total: None
    bars = Progress(
        TextColumn("{task.description:<6}"), BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    tasks: dict[str, TaskID] = {}

    def show(stage: str, done: int, total: int) -> None:
        if not sys.stdout.isatty():
            if done == total and stage not in tasks:
                tasks[stage] = TaskID(0)
                console.print(f"{stage}: {done} of {total}")
            return
        if stage not in tasks:
            tasks[stage] = bars.add_task(stage, total=total)
            bars.start()
        bars.update(tasks[stage], completed=done, total=total)
        if stage == "pages" and done == total:
            bars.stop()

    return show


def demo(outcome: "DemoOutcome") -> None:
    """Show what the demo brought."""
    console.print()
    day(outcome.day, outcome.items)
    console.print("\n[bold]Documents[/]")
    for source, count in outcome.documents.items():
        console.print(f"  {escape(source):<24} {count:>4}")
    console.print("\n[bold]What became of the URLs[/]")
    for reason, count in sorted(outcome.fates.items(), key=lambda pair: -pair[1]):
        console.print(f"  {count:>4}  {reason:<16} {escape(_sentence(reason))}")
    console.print("\n[bold]Time[/]  " + ", ".join(f"{stage} {spent:.2f} s" for stage, spent in outcome.seconds.items()))
    console.print("\n[bold]Checks[/]")
    for check in outcome.checks:
        mark = "[green]ok[/]  " if check.holds else "[red]FAIL[/]"
        console.print(f"  {mark} {escape(check.name)} ({escape(check.found)})")
    console.print(f"\n{'Everything' if outcome.as_expected else 'Not everything'} came out as it must.")


def _sentence(code: str) -> str:
    return "Still waiting." if code == "pending" else Reason.of(code).sentence
