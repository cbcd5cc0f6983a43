"""`headwater source`: what is read, how it is doing, and what an operator changes about it."""

import json
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli import show, show_sources
from headwater.cli.common import Json, T, run, settings_with_logs
from headwater.cli.output import print_json
from headwater.cli.source_files import source_export, source_import
from headwater.cli.source_looking import source_discover, source_test
from headwater.cli.upkeep import source_janitor
from headwater.core.errors import OperatorError
from headwater.core.handoff import named_counts
from headwater.core.poll import PollResult
from headwater.core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headwater.discovery.source_operations import LiveSourceOperations
    from headwater.sources.operations import SourceOperations


source_app = typer.Typer(help="The sources.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A source.")]
Given = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Override an attribute of the kind; may be repeated."),
]


def add(
    url: Annotated[str, typer.Argument(help="The address of a feed, or of a page of a site that has one.")],
    name: Annotated[str | None, typer.Option(help="What to call the source; by default its host.")] = None,
    mode: Annotated[
        str, typer.Option(help="feed; spider walks through the site's pages instead; both does both.")
    ] = "feed",
    as_json: Json = False,
) -> None:
    """Add a site as a source: find its feed, read it at once and show what came."""
    added = run(_reach(lambda sources: sources.add(url, name, mode=mode)))
    if as_json:
        others = [{"url": feed.url, "title": feed.title} for feed in added.others]
        settings = dict(added.polled.source.settings)
        print_json(_polled(added.polled) | {"title": added.polled.title, "settings": settings, "others": others})
    else:
        show_sources.added(added.polled, added.others)


@source_app.command("add")
def source_add(
    name: Annotated[str, typer.Argument(help="What to call the source.")],
    kind: Annotated[str, typer.Option(help="An installed kind.")],
    given: Given = None,
    as_json: Json = False,
) -> None:
    """Add a source of any kind. It is read when it is due, or by `headwater source sync`."""
    overrides = _overrides(name, given)
    source = run(_ask(lambda sources: sources.create(name, kind, overrides)))
    if as_json:
        print_json({"name": source.name, "kind": source.kind, "settings": source.settings})
    else:
        typer.echo(f"Added source {source.name} of kind {source.kind}.")


@source_app.command("edit")
def source_edit(
    name: Name,
    given: Given = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="FIELD", help="Back to the default; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Change the settings of a source. What cannot work is refused, and nothing is changed then."""
    changes = _overrides(name, given)
    _show(run(_ask(lambda sources: sources.edit(name, changes, unset or ()))), as_json=as_json)


@source_app.command("list")
def source_list(
    category: Annotated[str | None, typer.Option(help="Only this category, and those below it.")] = None,
    health: Annotated[
        str | None, typer.Option(help="failing, late, silent, new, on_time or disabled; by default all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the sources, the worst first: how each is doing, why, and when it is read next."""
    rows = run(_ask(lambda sources: sources.listed(category=category, health=health)))
    if as_json:
        print_json({"sources": rows})
    else:
        show_sources.listed(rows, chosen=category is not None or health is not None)


@source_app.command("show")
def source_show(name: Name, as_json: Json = False) -> None:
    """Show all that is known of a source."""
    _show(run(_ask(lambda sources: sources.show(name))), as_json=as_json)


@source_app.command("enable")
def source_enable(name: Name, as_json: Json = False) -> None:
    """Let a source be read again."""
    _show(run(_ask(lambda sources: sources.switch(name, enabled=True))), as_json=as_json)


@source_app.command("disable")
def source_disable(name: Name, as_json: Json = False) -> None:
    """Read a source no more until it is enabled; what it has brought is fetched and kept."""
    _show(run(_ask(lambda sources: sources.switch(name, enabled=False))), as_json=as_json)


@source_app.command("remove")
def source_remove(
    name: Name, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False, as_json: Json = False
) -> None:
    """Remove a source. What it has brought is kept; what waits to be fetched is not.

    What is being fetched just then is, and is tried again where that fails; the same command ends that too.
    """
    if not yes:
        run(_ask(lambda sources: sources.check_name(name)))
        if not sys.stdin.isatty():
            raise OperatorError("Nobody can be asked here: add --yes. Nothing was removed.", reason=Reason.BAD_REQUEST)
        typer.confirm(f"Remove source {show.visible(name)}?", abort=True)
    removed = run(_ask(lambda sources: sources.remove(name)))
    if as_json:
        print_json({"name": removed.name, "kept": removed.kept, "ended_urls": removed.ended})
    else:
        show_sources.removed(removed.name, kept=removed.kept, ended=removed.ended)


@source_app.command("sync")
def source_sync(
    name: Name,
    method: Annotated[
        str | None, typer.Option("--method", help="main, sitemap or spider; by default the first it has.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read a source now, due or not, hand off its items, and show what came."""
    with show_sources.leads_found(quiet=as_json) as on_leads:
        # It may wait for an hour where a budget is spent, and says so in the log.
        polled = run(_reach(lambda sources: sources.sync(name, method, on_leads), logs=None))
    if polled.error:
        raise OperatorError(f"{polled.source.name} was not read: {polled.error}", reason=polled.reason)
    if as_json:
        print_json(_polled(polled) | {"scrape_run_id": polled.run_id} | named_counts(polled.handoffs))
    else:
        show_sources.polled(polled)
        show_sources.handed_off(polled)


@source_app.command("backfill")
def source_backfill(
    name: Name,
    since: Annotated[str, typer.Option(help="The first day to take, as YYYY-MM-DD.")],
    as_json: Json = False,
) -> None:
    """Read a source's sitemaps back to a day. Stopped half way, `headwater up` goes on with it."""
    day = _day(since)
    with show_sources.leads_found(quiet=as_json) as on_leads:
        polled = run(_reach(lambda sources: sources.backfill(name, day, on_leads), logs=None))
    _show_polled(polled, as_json=as_json)


@source_app.command("new-kind")
def source_new_kind(
    name: Annotated[str, typer.Argument(help="What to call the kind, such as court_rulings.")],
    folder: Annotated[Path, typer.Option(help="Where to write it.")] = Path(),
) -> None:
    """Write a new kind of source: a class, a golden pair, and a test that passes."""
    from headwater.sources.new_kind import entry_point, write_skeleton

    for path in write_skeleton(name, folder):
        typer.echo(f"wrote {path}")
    typer.echo(f"\nMake it known in the pyproject.toml of your package:\n\n{entry_point(name)}\n")
    typer.echo(f"Run its test with: python -m pytest {folder / f'test_{name}.py'}")


@source_app.command("budgets")
def source_budgets(as_json: Json = False) -> None:
    """Show what each source may ask and has asked of the APIs behind api.data.gov in the last hour."""
    from headwater.app.sessions import with_reader

    settings = settings_with_logs("error")
    rows = run(with_reader(settings, lambda reader: reader.budgets()))
    if as_json:
        print_json({"key_is_set": rows is not None, "hosts": rows or []})
    else:
        show_sources.budgets(rows)


source_app.command("import")(source_import)
source_app.command("export")(source_export)
source_app.command("discover")(source_discover)
source_app.command("test")(source_test)
source_app.command("janitor")(source_janitor)


async def _ask(question: "Callable[[SourceOperations], Awaitable[T]]") -> T:
    from headwater.app.sessions import with_reader

    return await with_reader(settings_with_logs("error"), lambda reader: question(reader.sources))


async def _reach(question: "Callable[[LiveSourceOperations], Awaitable[T]]", logs: str | None = "error") -> T:
    from headwater.app.sessions import with_operations

    return await with_operations(settings_with_logs(logs), lambda operations: question(operations.sources))


def _show(row: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(row)
    else:
        show_sources.shown(row)


def _show_polled(polled: PollResult, *, as_json: bool) -> None:
    if polled.error:
        raise OperatorError(f"{polled.source.name} was not read: {polled.error}", reason=polled.reason)
    if as_json:
        print_json(_polled(polled))
    else:
        show_sources.polled(polled)


def _polled(polled: PollResult) -> dict[str, Any]:
    return {
        "name": polled.source.name,
        "method": polled.method,
        "items": polled.items,
        "new_items": polled.new_items,
        "leads": polled.leads,
        "new_urls": polled.new_urls,
        "left": polled.left,
        "refused": polled.refused,
    }


def _overrides(name: str, given: list[str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in given or ():
        field, value = _override(name, text)
        if field in found:
            raise OperatorError(f"Source {name}: {field}: is given twice.", reason=Reason.BAD_REQUEST)
        found[field] = value
    return found


def _override(name: str, text: str) -> tuple[str, Any]:
    """Read FIELD=VALUE; a value is JSON where it can be read as such, else it is text."""
    field, separator, value = text.partition("=")
    if not separator or not field:
        raise OperatorError(
            f"Source {name}: --set {text!r} is not of the form FIELD=VALUE, as rate_per_second=0.5.",
            reason=Reason.BAD_REQUEST,
        )
    try:
        return field, json.loads(value)
    except (ValueError, RecursionError):
        return field, value


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise OperatorError(f"--since: {text!r} is not a day such as 2026-03-29.", reason=Reason.BAD_REQUEST) from None
