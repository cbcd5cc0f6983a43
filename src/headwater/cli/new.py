"""`headwater new`: what came since, for people and for programs that have no HTTP."""

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli import show_changes
from headwater.cli.common import Json, run, settings_with_logs
from headwater.cli.output import format_json, print_json

if TYPE_CHECKING:
    from headwater.app.operations import LocalOperations
    from headwater.changes.change_operations import ChangePage


def new(
    since: Annotated[
        str | None,
        typer.Option(help="A cursor that was printed before, or a day or time (UTC); by default 24 hours ago."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what comes, until stopped. With --json a line for each.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what is new: documents that came or have changed, and jobs that failed; nothing is missed."""
    from headwater.app.sessions import with_reader

    settings = settings_with_logs("error")
    if follow:
        run(with_reader(settings, lambda reader: _follow(reader, since, as_json=as_json)))
        return
    page = run(with_reader(settings, lambda reader: _page(reader, since, limit)))
    if as_json:
        print_json({"changes": [change.told() for change in page.changes], "next": page.next})
    else:
        show_changes.changes(page.changes)
        show_changes.following(page.next)


async def _page(reader: "LocalOperations", since: str | None, limit: int) -> "ChangePage":
    return await reader.changes.page(since or await reader.changes.lately(), limit)


async def _follow(reader: "LocalOperations", since: str | None, *, as_json: bool) -> None:
    async for change in reader.changes.follow(since or await reader.changes.lately()):
        if as_json:
            typer.echo(format_json(change.told(), indent=None))
        else:
            show_changes.changes([change])
