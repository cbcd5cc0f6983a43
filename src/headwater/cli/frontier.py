"""`headwater frontier`: submit, list and retry URLs; list and change hosts."""

import shlex
import sys
import textwrap
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.progress import TaskProgressColumn, TimeElapsedColumn

from headwater.cli.bars import progress_bars
from headwater.cli.common import Json, T, Yes, confirm, parse_duration, run_local
from headwater.cli.lines import Arguments, Lines, Numbered
from headwater.cli.output import format_json, print_json, print_result
from headwater.cli.show import NO_FETCHER, console, errors, plain, visible, wrap
from headwater.core.errors import BadRequest
from headwater.core.frontier import FrontierStatus, UrlFilter
from headwater.core.reasons import Reason
from headwater.core.record import LARGEST_ID

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from headwater.db.frontier import UrlLine
    from headwater.frontier.operations import FrontierOperations, FrontierStats, HostLine, SubmittedUrl, UrlPage

frontier_app = typer.Typer(help="The queue of URLs, and the hosts they are asked of.", no_args_is_help=True)

StatusOption = Annotated[str | None, typer.Option("--status", help="pending, fetching, fetched or dead.")]
_REASON_HELP = f"A code such as {Reason.NOT_FOUND}, {Reason.ROBOTS_BLOCKED} or {Reason.MAX_RETRIES}."
ReasonOption = Annotated[str | None, typer.Option("--reason", help=_REASON_HELP)]
HostOption = Annotated[str | None, typer.Option("--host", help="A host, with its port if it has one.")]
SourceOption = Annotated[str | None, typer.Option("--source", help="The source that first had it.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000)]
HostArgument = Annotated[str, typer.Argument(help="A host, or a group as group:NAME.")]

_REFUSED_SHOWN = 20
_COUNTED = 1000  # the operation counts queues no further
_HOST_WIDTH = 34


class Slash(StrEnum):
    """Whether a host keeps trailing slashes."""

    KEEP = "keep"
    STRIP = "strip"


@frontier_app.command()
def submit(
    urls: Annotated[list[str] | None, typer.Argument(metavar="URL", help="URLs; - reads standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="A file with one URL on each line, or with # comments.")] = None,
    source: Annotated[str | None, typer.Option(help="The source they are counted for; by default manual.")] = None,
    priority: Annotated[int | None, typer.Option(min=1, max=10, help="10 goes first; by default the source's.")] = None,
    as_json: Json = False,
) -> None:
    """Submit URLs from arguments, a file or a pipe.

    An unusable URL is refused with the reason, and the other URLs are accepted.

    Exits 0 if any URL is in the frontier now, 1 if all were refused, 2 if there were none.
    """
    given = _choose_input(urls, file)
    accepted = _ask(lambda frontier: _submit_all(frontier, given, source, priority, as_json=as_json), creates=True)
    raise typer.Exit(0 if accepted else 1)


def _choose_input(urls: list[str] | None, file: Path | None) -> Arguments | Lines:
    is_piped = urls == ["-"] or (not urls and sys.stdin is not None and not sys.stdin.isatty())
    if urls and file:
        raise BadRequest("Give addresses or --file, not both.")
    if file:
        return Lines(None if str(file) == "-" else file)
    if is_piped:
        return Lines(None)
    if urls:
        return Arguments(urls)
    raise BadRequest("Give addresses, or --file FILE, or pipe them in.")


@dataclass(slots=True)
class _Report:
    """Counts results, and writes refusals while they come, so that a million refusals need no memory."""

    where: str
    as_json: bool
    new: int = 0
    known: int = 0
    refused: int = 0

    @property
    def total(self) -> int:
        return self.new + self.known + self.refused

    def add(self, number: int, result: "SubmittedUrl") -> None:
        if result.url is not None:
            self.new += result.is_new
            self.known += not result.is_new
            return
        if self.as_json:
            line = {self.where: number, "given": result.given, "why": result.refusal}
            typer.echo((",\n" if self.refused else '{"refused": [\n') + format_json(line), nl=False)
        elif self.refused < _REFUSED_SHOWN:
            reason = ": ".join(filter(None, (f"{self.where} {number}", result.given, result.refusal)))
            errors.print(f"refused {plain(reason)}")
        self.refused += 1

    def end(self, *, has_fetcher: bool) -> None:
        if self.as_json:
            head = "\n" if self.refused else '{"refused": [\n'
            counts = f'"new": {self.new}, "known": {self.known}, "has_fetcher": {format_json(has_fetcher)}'
            typer.echo(f"{head}], {counts}}}")
        else:
            if self.refused > _REFUSED_SHOWN:
                errors.print(f"and {self.refused - _REFUSED_SHOWN:,} more; --json lists them all")
            console.print(f"{self.new:,} new, {self.known:,} known, {self.refused:,} refused.")
            if not has_fetcher and self.refused < self.total:
                errors.print(NO_FETCHER)


async def _submit_all(
    frontier: "FrontierOperations",
    given: Arguments | Lines,
    source: str | None,
    priority: int | None,
    *,
    as_json: bool,
) -> bool:
    """Submit URLs batch by batch and report the results. Return whether any URL was accepted."""
    from headwater.frontier.operations import BATCH

    report = _Report(given.where, as_json)
    batch: list[Numbered] = []

    async def submit_batch() -> None:
        results = await frontier.submit([url for _, url in batch], source, priority)
        for (number, _), result in zip(batch, results, strict=True):
            report.add(number, result)
        batch.clear()
        show_step("submit", given.done, given.total, f"{report.total:,} submitted")

    with progress_bars(TaskProgressColumn(), TimeElapsedColumn(), quiet=as_json) as show_step:
        async for numbered in given.read():
            batch.append(numbered)
            if len(batch) == BATCH:
                await submit_batch()
        await submit_batch()
    if not report.total:
        raise BadRequest("There is no address in what was given.")
    report.end(has_fetcher=await frontier.has_fetcher())
    return report.new + report.known > 0


@frontier_app.command("list")
def list_urls(
    status: StatusOption = None,
    reason: ReasonOption = None,
    host: HostOption = None,
    source: SourceOption = None,
    limit: Limit = 50,
    after: Annotated[int, typer.Option(min=0, max=LARGEST_ID, help="Continue after this id.")] = 0,
    as_json: Json = False,
) -> None:
    """List URLs, oldest first: how each ended, or why it still waits and until when."""
    page = _ask(lambda ops: ops.list_urls(UrlFilter(status, reason, host, source), limit=limit, after=after))
    filters = {"status": status, "reason": reason, "host": host, "source": source}
    next_page = _format_command("list", limit=limit, **filters, after=page.next) if page.next else None
    print_result(page, lambda page: _print_urls(page, next_page), as_json=as_json)


@frontier_app.command()
def stats(as_json: Json = False) -> None:
    """Count URLs by status and reason, and hosts by state."""
    print_result(_ask(lambda frontier: frontier.get_stats()), _print_stats, as_json=as_json)


@frontier_app.command()
def hosts(
    state: Annotated[str | None, typer.Option(help="closed, in_use, blocked, waiting or idle.")] = None,
    limit: Limit = 50,
    after: Annotated[str, typer.Option(help="Continue after this host.")] = "",
    as_json: Json = False,
) -> None:
    """List hosts by name: state and why, delay between two requests, next turn, queue."""
    page = _ask(lambda frontier: frontier.list_hosts(state=state, limit=limit, after=after))
    next_page = _format_command("hosts", limit=limit, state=state, after=page.next) if page.next else None
    print_result(page, lambda page: _print_hosts(page.hosts, next_page), as_json=as_json)


@frontier_app.command()
def retry(
    urls: Annotated[list[str] | None, typer.Argument(metavar="URL", help="URLs, all of them known.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All URLs that match the filters; at least one.")] = False,
    status: Annotated[str | None, typer.Option("--status", help="fetched or dead.")] = None,
    reason: ReasonOption = None,
    host: HostOption = None,
    source: SourceOption = None,
    priority: Annotated[int, typer.Option(min=1, max=10, help="10 goes first.")] = 5,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Fetch URLs again, whatever their end: the given URLs, or with --all those that match the filters."""
    filters = UrlFilter(status, reason, host, source)
    if bool(urls) == everything or (urls and filters != UrlFilter()):
        raise BadRequest("Give addresses, or --all with at least one of --status, --reason, --host, --source.")
    being_fetched: list[str] = []
    if urls:
        retried = _ask(lambda frontier: frontier.retry(urls, priority))
        queued, fetching, being_fetched = len(retried.queued), len(retried.fetching), retried.fetching
    else:
        queued, fetching = _ask(lambda ops: _retry_all(ops, filters, priority, yes=yes, quiet=as_json))
    if as_json:
        print_json({"queued": queued, "fetching": fetching})
    else:
        console.print(f"{queued:,} queued to be fetched again.")
        if fetching:
            console.print(f"{fetching:,} being fetched just now, left as they are.")
        for url in being_fetched:
            console.print(f"  {plain(url)}")


async def _retry_all(
    frontier: "FrontierOperations", filters: UrlFilter, priority: int, *, yes: bool, quiet: bool
) -> tuple[int, int]:
    total = await frontier.count_urls(filters)
    named = {"status": filters.status, "reason": filters.reason, "host": filters.host, "source": filters.source}
    chosen = ", ".join(f"{name} {value}" for name, value in named.items() if value)
    confirm(f"Fetch again {'all' if total is None else f'{total:,}'} URLs with {chosen}?", yes=yes)
    queued = fetching = 0
    with progress_bars(TaskProgressColumn(), TimeElapsedColumn(), quiet=quiet) as show_step:
        async for retried in frontier.retry_all(filters, priority):
            queued += retried.queued
            fetching += retried.fetching
            show_step("retry", queued + fetching, total, f"{queued:,} queued")
    return queued, fetching


@frontier_app.command()
def block(
    host: HostArgument,
    lasting: Annotated[str | None, typer.Option("--for", help="30m, 2h, 7d; by default until it is released.")] = None,
) -> None:
    """Send no request to a host, or to hosts that share its turn. Its queued URLs wait."""
    how_long = parse_duration(lasting, "--for") if lasting is not None else None
    _print_hosts([_ask(lambda frontier: frontier.close_host(host, how_long))])


@frontier_app.command()
def release(
    host: Annotated[str | None, typer.Argument(help="A host, or a group as group:NAME.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All closed, blocked and slowed hosts.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Release a closed, blocked or slowed host, or all of them. The delay after its last request stays."""
    if (host is None) != everything:
        raise BadRequest("Give a host, or --all.")
    if host is not None:
        print_result(_ask(lambda ops: ops.open_host(host)), lambda line: _print_hosts([line]), as_json=as_json)
        return
    confirm("Release all closed, blocked and slowed hosts?", yes=yes)
    count = _ask(lambda frontier: frontier.open_all_hosts())
    print_result(count, lambda count: console.print(f"{count.released:,} hosts released."), as_json=as_json)


@frontier_app.command()
def group(
    name: Annotated[str, typer.Argument(help="The name of the group.")],
    members: Annotated[list[str], typer.Argument(metavar="HOST")],
) -> None:
    """Give hosts one turn: while one is asked the others wait, and all have the delay of the slowest."""
    _print_hosts(_ask(lambda frontier: frontier.group_hosts(name, members)))


@frontier_app.command()
def ungroup(members: Annotated[list[str], typer.Argument(metavar="HOST")]) -> None:
    """Give hosts the turn back that the settings say."""
    _print_hosts(_ask(lambda frontier: frontier.ungroup_hosts(members)))


@frontier_app.command()
def slash(host: HostArgument, what: Annotated[Slash, typer.Argument(help="keep: /a/ and /a are two pages.")]) -> None:
    """Keep or strip trailing slashes in the URLs of a host. Known URLs stay as they are."""
    found = _ask(lambda frontier: frontier.keep_slash(host, what is Slash.KEEP))
    pages = "two pages" if found.keeps_slash else "one page"
    console.print(f"On {plain(found.host)} /a/ and /a are {pages} from now on.")


def _print_urls(page: "UrlPage", next_page: str | None) -> None:
    if not page.urls:
        console.print("No URLs match.")
        return
    console.print(f"[bold]{'id':>9}  {'status':<9} {'why':<20} {'when (UTC)':<16} source[/]")
    for url in page.urls:
        why = ":".join(filter(None, (url.reason or url.waiting_reason or "-", url.kept_failing)))
        source = visible(url.source)
        console.print(f"{url.id:>9}  {url.status:<9} {why:<20} {_when(url):<16} {escape(source)}")
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


def _print_stats(counts: "FrontierStats") -> None:
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


def _print_hosts(lines: "Sequence[HostLine]", next_page: str | None = None) -> None:
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
        console.print(wrap(host.why, "  "), style="dim")
    if next_page:
        console.print(f"\nMore: {plain(next_page)}")


def _queue(queued: int | None) -> str:
    if queued is None:
        return "-"
    return f"{_COUNTED:,}+" if queued > _COUNTED else f"{queued:,}"


def _ask(question: "Callable[[FrontierOperations], Awaitable[T]]", *, creates: bool = False) -> T:
    return run_local(lambda operations: question(operations.frontier), creates=creates)


def _format_command(name: str, **options: Any) -> str:
    words = [word for key, value in options.items() if value is not None for word in (f"--{key}", str(value))]
    return shlex.join(["headwater", "frontier", name, *words])
