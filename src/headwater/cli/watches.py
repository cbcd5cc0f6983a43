"""`headwater watch`: set when a page is fetched again, and list watched pages."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from headwater.cli.common import Json, run_local
from headwater.cli.output import print_result
from headwater.cli.show import NO_FETCHER, console, errors, plain, visible
from headwater.core.errors import BadRequest
from headwater.core.record import LARGEST_ID
from headwater.core.refetch import NEVER

if TYPE_CHECKING:
    from headwater.app.operations import LocalOperations
    from headwater.frontier.watch_operations import WatchPage
    from headwater.frontier.watches import Watch

_ADAPTIVE = "adaptive"


def watch(
    url: Annotated[str | None, typer.Argument(help="The address of a page. Without it: list watched pages.")] = None,
    every: Annotated[str | None, typer.Option(metavar="TIME", help="Fetch it again every 30m, 6h or 7d.")] = None,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Learn from how often it changes, from 1h to 30d. This is the default.")
    ] = False,
    bounds: Annotated[str | None, typer.Option(metavar='"2h to 7d"', help="Other bounds of --adaptive.")] = None,
    never: Annotated[bool, typer.Option("--never", help="Never fetch it again, whatever its source sets.")] = False,
    as_source: Annotated[bool, typer.Option("--as-source", help="Back to the policy of its source.")] = False,
    source: Annotated[str | None, typer.Option(help="The source of an unknown URL; by default manual.")] = None,
    with_sources: Annotated[
        bool, typer.Option("--with-sources", help="List also pages that only their source watches.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The most pages to list.")] = 50,
    after: Annotated[int, typer.Option(min=0, max=LARGEST_ID, help="Continue the list after this id.")] = 0,
    as_json: Json = False,
) -> None:
    """Fetch a page again and again, to see its changes. Without a URL, list the watched pages.

    A change makes a revision and an entry of the change feed.
    """
    chosen = [f"every {every}"] * (every is not None) + [NEVER] * never + [""] * as_source
    chosen += [f"{_ADAPTIVE} {bounds}" if bounds is not None else _ADAPTIVE] * (adaptive or bounds is not None)
    if url is None:
        if chosen or source is not None:
            raise BadRequest("Give the address of the page to watch.")
        page = run_local(lambda ops: ops.watches.list_watches(with_sources=with_sources, after=after, limit=limit))
        more = [
            "headwater",
            "watch",
            *["--with-sources"] * with_sources,
            "--limit",
            str(limit),
            "--after",
            str(page.next),
        ]
        print_result(page, lambda page: _print_watches(page, shlex.join(more)), as_json=as_json)
        return
    if len(chosen) > 1:
        raise BadRequest("Give one of --every, --adaptive, --never and --as-source.")
    policy = chosen[0] if chosen else _ADAPTIVE

    async def work(operations: "LocalOperations") -> tuple["Watch", bool]:
        watches = operations.watches
        found = await (watches.watch(url, policy, source) if policy else watches.unwatch(url))
        return found, await operations.frontier.has_fetcher()

    found, has_fetcher = run_local(work, creates=bool(policy))  # an unknown page is submitted
    print_result(found, _print_watch, as_json=as_json)
    if not has_fetcher:
        errors.print(NO_FETCHER)


def _print_watch(watch: "Watch") -> None:
    console.print(f"[bold]{plain(watch.url)}[/]")
    console.print(f"  {plain(watch.policy)}{'' if watch.is_own else f', the policy of source {plain(watch.source)}'}")
    next_fetch = f"next fetch {watch.next_at:%Y-%m-%d %H:%M} (UTC). " if watch.next_at else ""
    console.print(f"  {next_fetch}{plain(watch.why)}")


def _print_watches(page: "WatchPage", next_page: str) -> None:
    if not page.watches:
        console.print("No page has a re-fetch policy of its own: `headwater watch URL --every 6h` gives it one.")
        return
    console.print(f"[bold]{'policy':<22} {'next (UTC)':<12} {'status':<9} source[/]")
    for watch in page.watches:
        moment = f"{watch.next_at:%m-%d %H:%M}" if watch.next_at else "-"
        console.print(escape(f"{watch.policy:<22} {moment:<12} {watch.status:<9} {visible(watch.source)}"))
        console.print(f"  [dim]{plain(watch.url)}[/]")
    if page.next:
        console.print(f"\nMore: {plain(next_page)}")
