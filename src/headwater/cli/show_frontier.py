"""The frontier in a terminal: rows fit 80 columns, and URLs stay whole so that they can be copied."""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from headwater.cli.show import console, plain, visible
from headwater.core.frontier import FrontierStatus

if TYPE_CHECKING:
    from headwater.db.frontier import UrlLine
    from headwater.frontier.operations import FrontierStats, HostLine, UrlPage

errors = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
REFUSED_SHOWN = 20
_COUNTED = 1000  # the operation counts queues no further
_HOST_WIDTH = 34


@contextmanager
def progress(what: str, total: int | None, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a bar in a terminal. The yielded function takes how much of the total is done, and a count."""
    if quiet or not console.is_terminal:
        yield lambda done, count: None
        return
    counter = TextColumn("{task.fields[count]:,} " + what)
    with Progress(BarColumn(30), TaskProgressColumn(), counter, TimeElapsedColumn(), console=console) as bars:
        task = bars.add_task(what, total=total, count=0)
        yield lambda done, count: bars.update(task, completed=done, count=count)


def refused(line: str) -> None:
    """Show a refused URL on standard error."""
    errors.print(f"refused {plain(line)}")


def submitted(new: int, known: int, refused: int) -> None:
    """Show the number of submitted URLs."""
    if refused > REFUSED_SHOWN:
        errors.print(f"and {refused - REFUSED_SHOWN:,} more; --json lists them all")
    console.print(f"{new:,} new, {known:,} known, {refused:,} refused.")


def urls(page: "UrlPage", next_page: str | None) -> None:
    """Show URLs with their status, and the command for the next page."""
    if not page.urls:
        console.print("No URLs match.")
        return
    console.print(f"[bold]{'id':>9}  {'status':<9} {'why':<20} {'when (UTC)':<16} source[/]")
    for url in page.urls:
        why = ":".join(filter(None, (url.reason or url.waiting_reason or "-", url.kept_failing)))
        source = visible(url.source)
        console.print(f"{url.id:>9}  {url.status:<9} {why:<20} {_when(url):<16} {escape(source[:20])}")
        console.print(f"{'':>9}  [dim]{plain(url.url)}[/]")
    if next_page:
        console.print(f"\nMore: {plain(next_page)}")


def _when(url: "UrlLine") -> str:
    match url.status:
        case FrontierStatus.FETCHING:
            return "now"
        case FrontierStatus.PENDING:
            return f"due {url.due_at:%m-%d %H:%M}" if url.due_at else "when released"
        case _:
            return f"{url.last_fetched_at:%m-%d %H:%M}" if url.last_fetched_at else "-"


def stats(counts: "FrontierStats") -> None:
    """Show the number of URLs and hosts."""
    for status, urls in counts.urls.items():
        reasons = sorted(counts.reasons.get(status, {}).items(), key=lambda pair: -pair[1])
        words = ", ".join(f"{reason} {count:,}" for reason, count in reasons)
        head = f"{status:<9} {urls:>12,}  "
        console.print(textwrap.fill(head + words, 80, subsequent_indent=" " * len(head)))
    by_host = counts.hosts
    console.print(
        f"hosts     {by_host.with_work:,} with work, {by_host.in_use:,} in use, {by_host.blocked:,} blocked, "
        f"{by_host.closed:,} closed"
    )


def hosts(lines: "Sequence[HostLine]", next_page: str | None = None) -> None:
    """Show hosts with delay, next turn, queue and the reason of their state."""
    if not lines:
        console.print("No hosts match.")
        return
    console.print(f"[bold]{'host':<{_HOST_WIDTH}} {'state':<8} {'delay':>8}  {'next turn (UTC)':<15} {'queue':>7}[/]")
    for host in lines:
        name = visible(host.host)
        head = f"{name:<{_HOST_WIDTH}}" if len(name) <= _HOST_WIDTH else f"{name}\n{'':<{_HOST_WIDTH}}"
        turn = f"{host.next_turn_at:%m-%d %H:%M:%S}" if host.next_turn_at else "-"
        state = host.state.replace("_", " ")
        console.print(escape(f"{head} {state:<8} {host.delay_ms / 1000:>6g} s  {turn:<15} {_queue(host.queued):>7}"))
        console.print(textwrap.fill(host.why, 80, initial_indent="  ", subsequent_indent="  "), style="dim")
    if next_page:
        console.print(f"\nMore: {plain(next_page)}")


def _queue(queued: int | None) -> str:
    if queued is None:
        return "-"
    return f"{_COUNTED:,}+" if queued > _COUNTED else f"{queued:,}"


def retried(queued: int, fetching: int, being_fetched: Sequence[str] = ()) -> None:
    """Show the result of a retry."""
    console.print(f"{queued:,} queued to be fetched again.")
    if fetching:
        console.print(f"{fetching:,} being fetched just now, left as they are.")
    for url in being_fetched:
        console.print(f"  {plain(url)}")


def slash(host: "HostLine") -> None:
    """Show the meaning of a host's trailing slashes."""
    console.print(
        f"On {plain(host.host)} /a/ and /a are {'two pages' if host.keeps_slash else 'one page'} from now on."
    )
