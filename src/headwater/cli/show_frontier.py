"""What people see of the frontier: rows fit 80 columns, addresses stay whole so that they can be copied."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from headwater.cli.show import console, plain, visible
from headwater.core.reasons import Reason

errors = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
REFUSED_SHOWN = 20
_COUNTED = 1000  # queues are counted no further
_HOST_WIDTH = 34


@contextmanager
def progress(what: str, total: int | None, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a bar in a terminal; what is yielded takes how much of the total is done, and how many that is."""
    if quiet or not console.is_terminal:
        yield lambda done, count: None
        return
    counter = TextColumn("{task.fields[count]:,} " + what)
    with Progress(BarColumn(30), TaskProgressColumn(), counter, TimeElapsedColumn(), console=console) as bars:
        task = bars.add_task(what, total=total, count=0)
        yield lambda done, count: bars.update(task, completed=done, count=count)


def submitted(new: int, known: int, refused: Sequence[str], refused_in_all: int) -> None:
    """Show what became of what was handed in; what was refused goes to standard error."""
    for line in refused:
        errors.print(f"refused {plain(line)}")
    if refused_in_all > len(refused):
        errors.print(f"and {refused_in_all - len(refused):,} more; --json lists them all")
    console.print(f"{new:,} new, {known:,} known, {refused_in_all:,} refused.")


def urls(rows: Sequence[Mapping[str, Any]], following: str | None) -> None:
    """Show URLs, each with where it stands, and how to see the next page."""
    if not rows:
        console.print("Nothing here is so.")
        return
    console.print(f"[bold]{'id':>9}  {'status':<9} {'why':<20} {'when (UTC)':<16} source[/]")
    for row in rows:
        why = ":".join(filter(None, (row["reason"] or row["waiting_reason"] or "-", row["kept_failing"])))
        source = visible(row["source"])
        console.print(f"{row['id']:>9}  {row['status']:<9} {why:<20} {_when(row):<16} {escape(source[:20])}")
        console.print(f"{'':>9}  [dim]{plain(row['url'])}[/]")
    if following:
        console.print(f"\nMore: {plain(following)}")


def _when(row: Mapping[str, Any]) -> str:
    if row["status"] == "fetching":
        return "now"
    if row["status"] == "pending":
        return f"due {_moment(row['due_at'])}" if row["due_at"] else "when released"
    return _moment(row["last_fetched_at"])


def _moment(moment: datetime | None) -> str:
    return f"{moment:%m-%d %H:%M}" if moment else "-"


def stats(counts: Mapping[str, Any]) -> None:
    """Show how many URLs and hosts there are."""
    for status, urls in counts["urls"].items():
        reasons = sorted(counts["reasons"].get(status, {}).items(), key=lambda pair: -pair[1])
        words = ", ".join(f"{reason} {count:,}" for reason, count in reasons)
        head = f"{status:<9} {urls:>12,}  "
        console.print(textwrap.fill(head + words, 80, subsequent_indent=" " * len(head)))
    by_host = counts["hosts"]
    console.print(
        f"hosts     {by_host['with_work']:,} with work, {by_host['in_use']:,} in use, {by_host['blocked']:,} blocked, "
        f"{by_host['closed']:,} closed"
    )


def hosts(rows: Sequence[Mapping[str, Any]], following: str | None = None) -> None:
    """Show hosts, each with its pause, its next turn, its queue and why it is so."""
    if not rows:
        console.print("There is no such host.")
        return
    console.print(f"[bold]{'host':<{_HOST_WIDTH}} {'state':<8} {'pause':>8}  {'next turn (UTC)':<15} {'queue':>7}[/]")
    for row in rows:
        name = visible(row["host"])
        head = f"{name:<{_HOST_WIDTH}}" if len(name) <= _HOST_WIDTH else f"{name}\n{'':<{_HOST_WIDTH}}"
        turn = f"{row['next_turn_at']:%m-%d %H:%M:%S}" if row["next_turn_at"] else "-"
        state = row["state"].replace("_", " ")
        console.print(escape(f"{head} {state:<8} {row['delay_ms'] / 1000:>6g} s  {turn:<15} {_queue(row):>7}"))
        console.print(textwrap.fill(row["why"], 80, initial_indent="  ", subsequent_indent="  "), style="dim")
    if following:
        console.print(f"\nMore: {plain(following)}")


def _queue(row: Mapping[str, Any]) -> str:
    if row["queued"] is None:
        return "-"
    return f"{_COUNTED:,}+" if row["queued"] > _COUNTED else f"{row['queued']:,}"


def retried(queued: int, fetching: int, being_fetched: Sequence[str] = ()) -> None:
    """Show what is fetched again."""
    console.print(f"{queued:,} queued to be fetched again.")
    if fetching:
        console.print(f"{fetching:,} being fetched just now, left as they are.")
    for url in being_fetched:
        console.print(f"  {plain(url)}")


def slash(host: str, *, keeps: bool) -> None:
    """Show what a trailing slash means from now on."""
    console.print(f"On {plain(host)} /a/ and /a are {'two pages' if keeps else 'one page'} from now on.")


def reason_help() -> str:
    """Name the reasons with which URLs end most often, for the help of a command."""
    return f"A code such as {Reason.NOT_FOUND}, {Reason.ROBOTS_BLOCKED} or {Reason.MAX_RETRIES}."
