"""`headwater frontier`: what goes in, what there is, what is fetched again, and what an operator says of hosts."""

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli import show_frontier as show
from headwater.cli.common import Json, T, parse_duration, run, settings_with_logs
from headwater.cli.lines import Arguments, Lines
from headwater.cli.output import print_json
from headwater.cli.submitting import hand_in
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.record import LARGEST_ID

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headwater.frontier.operations import FrontierOperations

frontier_app = typer.Typer(help="The queue of URLs, and the hosts they are asked of.", no_args_is_help=True)

StatusOption = Annotated[str | None, typer.Option("--status", help="pending, fetching, fetched or dead.")]
ReasonOption = Annotated[str | None, typer.Option("--reason", help=show.reason_help())]
HostOption = Annotated[str | None, typer.Option("--host", help="A host, with its port if it has one.")]
SourceOption = Annotated[str | None, typer.Option("--source", help="The source that first had it.")]
HostArgument = Annotated[str, typer.Argument(help="A host, or a group as group:NAME.")]


class Slash(StrEnum):
    """What becomes of a trailing slash."""

    KEEP = "keep"
    STRIP = "strip"


@frontier_app.command()
def submit(
    urls: Annotated[
        list[str] | None, typer.Argument(metavar="URL", help="Addresses; - reads them from standard input.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="A file with an address a line; blank lines and # comments are passed over.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="The source they are counted for; by default manual.")] = None,
    as_json: Json = False,
) -> None:
    """Put addresses into the frontier: arguments, a file, or what is piped in.

    What cannot be used is refused, with why, and the rest goes in.

    Exits 0 if any is in the frontier now, 1 if all were refused, 2 if there were none.
    """
    given = _given(urls, file)
    accepted = run(_ask(lambda frontier: hand_in(frontier, given, source, as_json=as_json)))
    raise typer.Exit(0 if accepted else 1)


def _given(urls: list[str] | None, file: Path | None) -> Arguments | Lines:
    piped = urls == ["-"] or (not urls and sys.stdin is not None and not sys.stdin.isatty())
    if urls and file:
        raise OperatorError("Give addresses or --file, not both.", reason=Reason.BAD_REQUEST)
    if file:
        return Lines(None if str(file) == "-" else file)
    if piped:
        return Lines(None)
    if urls:
        return Arguments(urls)
    raise OperatorError("Give addresses, or --file FILE, or pipe them in.", reason=Reason.BAD_REQUEST)


@frontier_app.command("list")
def list_urls(
    status: StatusOption = None,
    reason: ReasonOption = None,
    host: HostOption = None,
    source: SourceOption = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 50,
    after: Annotated[int, typer.Option(min=0, max=LARGEST_ID, help="Go on after this id.")] = 0,
    as_json: Json = False,
) -> None:
    """List URLs, oldest first: how each ended, or why it still waits and until when."""
    filters = {"status": status, "reason": reason, "host": host, "source": source}
    rows = run(_ask(lambda frontier: frontier.urls(limit=limit, after=after, **filters)))
    following = rows[-1]["id"] if len(rows) == limit else None
    if as_json:
        print_json({"urls": rows, "next": following})
    else:
        show.urls(rows, _command("list", limit=limit, **filters, after=following) if following else None)


@frontier_app.command()
def stats(as_json: Json = False) -> None:
    """Count URLs by status and reason, and hosts by what keeps them."""
    counts = run(_ask(lambda frontier: frontier.stats()))
    if as_json:
        print_json(counts)
    else:
        show.stats(counts)


@frontier_app.command()
def hosts(
    state: Annotated[str | None, typer.Option(help="closed, in_use, blocked, waiting or idle.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 50,
    after: Annotated[str, typer.Option(help="Go on after this host.")] = "",
    as_json: Json = False,
) -> None:
    """List hosts by name: state and why, pause between two requests, next turn, queue."""
    rows = run(_ask(lambda frontier: frontier.hosts(state=state, limit=limit, after=after)))
    following = rows[-1]["host"] if len(rows) == limit else None
    if as_json:
        print_json({"hosts": rows, "next": following})
    else:
        show.hosts(rows, _command("hosts", limit=limit, state=state, after=following) if following else None)


@frontier_app.command()
def retry(
    urls: Annotated[list[str] | None, typer.Argument(metavar="URL", help="Addresses, all of them known.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that the filters choose; at least one.")] = False,
    status: Annotated[str | None, typer.Option("--status", help="fetched or dead.")] = None,
    reason: ReasonOption = None,
    host: HostOption = None,
    source: SourceOption = None,
    priority: Annotated[int, typer.Option(min=1, max=10, help="10 goes first.")] = 5,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Fetch URLs again, whatever their end: those named, or with --all those that filters choose."""
    filters = {"status": status, "reason": reason, "host": host, "source": source}
    if bool(urls) == everything or (urls and any(filters.values())):
        raise OperatorError(
            "Give addresses, or --all with at least one of --status, --reason, --host, --source.",
            reason=Reason.BAD_REQUEST,
        )
    if urls:
        answer = run(_ask(lambda frontier: frontier.retry(urls, priority)))
        _show_retried(len(answer[0]), len(answer[1]), answer[1], as_json=as_json)
        return
    asks = not yes
    if asks and not sys.stdin.isatty():
        raise OperatorError("Nobody can be asked here: add --yes. Nothing was queued.", reason=Reason.BAD_REQUEST)
    queued, fetching = run(_ask(lambda frontier: _retry_all(frontier, filters, priority, asks=asks, quiet=as_json)))
    _show_retried(queued, fetching, as_json=as_json)


async def _retry_all(
    frontier: "FrontierOperations", filters: dict[str, str | None], priority: int, *, asks: bool, quiet: bool
) -> tuple[int, int]:
    total = await frontier.count(**filters)
    if asks:
        chosen = ", ".join(f"{name} {value}" for name, value in filters.items() if value)
        typer.confirm(f"Fetch again {'all' if total is None else f'{total:,}'} URLs with {chosen}?", abort=True)
    queued = fetching = 0
    with show.progress("queued", total, quiet=quiet) as progress:
        async for retried in frontier.retry_all(filters, priority):
            queued += retried.queued
            fetching += retried.fetching
            progress(queued + fetching, queued)
    return queued, fetching


def _show_retried(queued: int, fetching: int, being_fetched: list[str] | None = None, *, as_json: bool) -> None:
    if as_json:
        print_json({"queued": queued, "fetching": fetching})
    else:
        show.retried(queued, fetching, being_fetched or ())


@frontier_app.command()
def block(
    host: HostArgument,
    lasting: Annotated[str | None, typer.Option("--for", help="30m, 2h, 7d; by default until it is released.")] = None,
) -> None:
    """Ask nothing of a host, and of whoever shares its turn. What is queued for it waits."""
    how_long = parse_duration(lasting, "--for") if lasting is not None else None
    _show_changed(lambda frontier: frontier.close_host(host, how_long))


@frontier_app.command()
def release(host: HostArgument) -> None:
    """Take back what closed, blocked or slowed a host."""
    _show_changed(lambda frontier: frontier.open_host(host))


@frontier_app.command()
def group(
    name: Annotated[str, typer.Argument(help="What to call the group.")],
    members: Annotated[list[str], typer.Argument(metavar="HOST")],
) -> None:
    """Let hosts share one turn: as one is asked the others wait, and all are as slow as the slowest."""
    _show_changed(lambda frontier: frontier.group_hosts(name, members))


@frontier_app.command()
def ungroup(members: Annotated[list[str], typer.Argument(metavar="HOST")]) -> None:
    """Let hosts have the turn again that the settings give them."""
    _show_changed(lambda frontier: frontier.ungroup_hosts(members))


@frontier_app.command()
def slash(host: HostArgument, what: Annotated[Slash, typer.Argument(help="keep: /a/ and /a are two pages.")]) -> None:
    """Keep or strip trailing slashes in the addresses of a host. What is known of it keeps its name."""
    name = run(_ask(lambda frontier: frontier.keep_slash(host, what is Slash.KEEP)))
    show.slash(name, keeps=what is Slash.KEEP)


def _show_changed(change: "Callable[[FrontierOperations], Awaitable[str | list[str]]]") -> None:
    """Change hosts and show how they are now."""

    async def work(frontier: "FrontierOperations") -> list[dict[str, Any]]:
        changed = await change(frontier)
        return [await frontier.host(name) for name in ([changed] if isinstance(changed, str) else changed)]

    show.hosts(run(_ask(work)))


async def _ask(question: "Callable[[FrontierOperations], Awaitable[T]]") -> T:
    from headwater.app.sessions import with_reader

    return await with_reader(settings_with_logs("error"), lambda reader: question(reader.frontier))


def _command(name: str, **options: Any) -> str:
    """Write out a command, as it can be typed."""
    words = [word for key, value in options.items() if value is not None for word in (f"--{key}", str(value))]
    return shlex.join(["headwater", "frontier", name, *words])
