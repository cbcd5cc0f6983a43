"""`headwater add` and `headwater source`: add, list, change, poll, test, import and export sources."""

import functools
import json
import sys
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli import show, show_sources
from headwater.cli.bars import progress_bars
from headwater.cli.common import Json, T, confirm, run_live, run_local
from headwater.cli.history import source_history
from headwater.cli.output import print_json
from headwater.cli.upkeep import source_janitor
from headwater.core.errors import BadRequest, FolderUnusable

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from headwater.discovery.source_operations import LiveSourceOperations
    from headwater.sources.operations import SourceOperations


source_app = typer.Typer(help="The sources.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A source.")]
SettingOptions = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Override a setting of the kind; may be repeated."),
]


def add(
    url: Annotated[str, typer.Argument(help="The address of a feed, or of a page of a site that has one.")],
    name: Annotated[str | None, typer.Option(help="The name of the source; by default its host.")] = None,
    mode: Annotated[
        str,
        typer.Option(
            help="feed; list reads the page as a list of others; spider follows its links; both: feed and spider."
        ),
    ] = "feed",
    as_json: Json = False,
) -> None:
    """Add a site as a source: find its feed, poll it at once and show what it found.

    It sends at most 12 requests to the site and takes at most a minute. `headwater up` continues what is left.
    """
    on_step = (lambda _: None) if as_json else show_sources.step
    _print(
        _send(lambda sources: sources.add(url, name, mode=mode, on_step=on_step), creates=True),
        show_sources.added,
        as_json=as_json,
    )


@source_app.command("add")
def source_add(
    name: Annotated[str, typer.Argument(help="The name of the source.")],
    kind: Annotated[str, typer.Option(help="An installed kind.")],
    settings: SettingOptions = None,
    as_json: Json = False,
) -> None:
    """Add a source of any kind. It is polled when it is due, or by `headwater source sync`."""
    overrides = _parse_settings(name, settings)
    source = _ask(lambda sources: sources.create(name, kind, overrides), creates=True)
    if as_json:
        print_json({"name": source.name, "kind": source.kind, "settings": source.settings})
    else:
        typer.echo(f"Added source {source.name} of kind {source.kind}.")


@source_app.command("edit")
def source_edit(
    name: Name,
    settings: SettingOptions = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="FIELD", help="Back to the default; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Change settings of a source, and show what differs. If one cannot work, nothing is changed."""
    changes = _parse_settings(name, settings)
    _print(_ask(lambda sources: sources.edit(name, changes, unset or ())), show_sources.edited, as_json=as_json)


@source_app.command("list")
def source_list(
    category: Annotated[str | None, typer.Option(help="Only this category, and those below it.")] = None,
    health: Annotated[str | None, typer.Option(help="failing, late, flawed, silent, new, on_time or disabled.")] = None,
    as_json: Json = False,
) -> None:
    """List the sources with their health and next poll, the worst first."""
    rows = _ask(lambda sources: sources.list_sources(category=category, health=health))
    if as_json:
        print_json({"sources": rows})
    else:
        show_sources.listed(rows, filtered=category is not None or health is not None)


@source_app.command("show")
def source_show(name: Name, as_json: Json = False) -> None:
    """Show everything that is known about a source."""
    _print(_ask(lambda sources: sources.show(name)), show_sources.details, as_json=as_json)


@source_app.command("enable")
def source_enable(name: Name, as_json: Json = False) -> None:
    """Enable the polls of a source."""
    _print(_ask(lambda sources: sources.set_enabled(name, enabled=True)), show_sources.details, as_json=as_json)


@source_app.command("disable")
def source_disable(name: Name, as_json: Json = False) -> None:
    """Disable the polls of a source until it is enabled. Its queued pages are still fetched."""
    _print(_ask(lambda sources: sources.set_enabled(name, enabled=False)), show_sources.details, as_json=as_json)


@source_app.command("remove")
def source_remove(
    name: Name,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete its items, URLs, documents and raw files too. It cannot be undone.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove a source. Its items and documents stay, unless --purge deletes them. Its queued pages are not fetched.

    A page that is being fetched is not ended. If that fetch fails, it is tried again; the same command ends it. A page
    that another source lists goes to that source, also with --purge. The same command continues an interrupted purge.
    """
    if purge:
        _purge(name, yes=yes, as_json=as_json)
        return
    if not yes:
        _ask(lambda sources: sources.check_removable(name))
    confirm(f"Remove source {show.visible(name)}?", yes=yes)
    _print(_ask(lambda sources: sources.remove(name)), show_sources.removed, as_json=as_json)


def _purge(name: str, *, yes: bool, as_json: bool) -> None:
    if not yes:
        found = run_local(lambda operations: operations.upkeep.measure_purge(name))
        extent = f"{found.items:,} items and {found.urls:,} URLs, with their documents and raw files"
        confirm(f"Delete source {show.visible(name)} with {extent}?", yes=yes)
    with progress_bars(quiet=as_json) as show_step:
        on_progress = functools.partial(show_step, "purge")
        report = run_local(lambda operations: operations.upkeep.purge(name, on_progress))
    _print(report, show_sources.purged, as_json=as_json)


@source_app.command("sync")
def source_sync(
    name: Name,
    method: Annotated[
        str | None, typer.Option("--method", help="main, sitemap or spider; by default the first it has.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Poll a source now, hand off its items, and show the counts."""
    from headwater.discovery.source_operations import describe_sync

    with show_sources.pages_found(quiet=as_json) as on_pages:
        # A poll may wait an hour for its budget. The log says so.
        polled = _send(lambda sources: sources.sync(name, method, on_pages), logs=None)
    _print(describe_sync(polled), show_sources.synced, as_json=as_json)


@source_app.command("backfill")
def source_backfill(
    name: Name,
    since: Annotated[str, typer.Option(help="The first day to take, as YYYY-MM-DD.")],
    as_json: Json = False,
) -> None:
    """Read a source's sitemaps back to a day. If this is interrupted, `headwater up` continues."""
    from headwater.discovery.source_operations import describe_poll

    try:
        day = date.fromisoformat(since)
    except ValueError:
        raise BadRequest(f"--since: {since!r} is not a day such as 2026-03-29.") from None
    with show_sources.pages_found(quiet=as_json) as on_pages:
        polled = _send(lambda sources: sources.backfill(name, day, on_pages), logs=None)
    _print(describe_poll(polled), show_sources.polled, as_json=as_json)


@source_app.command("new-kind")
def source_new_kind(
    name: Annotated[str, typer.Argument(help="The name of the kind, such as court_rulings.")],
    folder: Annotated[Path, typer.Option(help="The folder for its files.")] = Path(),
) -> None:
    """Write a new kind of source: a class, a golden pair, and a test that passes."""
    from headwater.sources.new_kind import format_entry_point, write_skeleton

    for path in write_skeleton(name, folder):
        typer.echo(f"wrote {path}")
    typer.echo(f"\nAdd it to the pyproject.toml of your package:\n\n{format_entry_point(name)}\n")
    typer.echo(f"Run its test with: python -m pytest {folder / f'test_{name}.py'}")


@source_app.command("disk")
def source_disk(
    name: Annotated[str | None, typer.Argument(help="A source; by default all.")] = None, as_json: Json = False
) -> None:
    """Show the disk use of each source, the largest first, and of the database."""
    found = run_local(lambda operations: operations.upkeep.measure_disk(name))
    _print(found, show_sources.disk, as_json=as_json)


@source_app.command("budgets")
def source_budgets(as_json: Json = False) -> None:
    """Show the budget of each source at the APIs behind api.data.gov, and what it spent in the last hour."""
    rows = run_local(lambda operations: operations.budgets())
    if as_json:
        print_json({"key_is_set": rows is not None, "hosts": rows or []})
    else:
        show_sources.budgets(rows)


@source_app.command("import")
def source_import(
    file: Annotated[Path, typer.Argument(help="An OPML or YAML file; - reads standard input.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what an import does.")] = False,
    as_json: Json = False,
) -> None:
    """Add the sources of a file. Entries that cannot be used are refused, the others are added.

    Exits 0 if any was added or known, 1 if all were refused, 2 if there was none.
    """
    body = _read_file(file)
    imported = _ask(lambda sources: sources.import_list(body, dry_run=dry_run), creates=True)
    _print(imported, show_sources.imported, as_json=as_json)
    raise typer.Exit(1 if imported.refused and not (imported.added or imported.known) else 0)


@source_app.command("export")
def source_export(
    file: Annotated[Path | None, typer.Argument(help="The file to write; by default standard output.")] = None,
    form: Annotated[str, typer.Option("--format", help="yaml: all sources; opml: the feeds, for any reader.")] = "yaml",
) -> None:
    """Write all sources into a file that can be imported."""
    if form not in ("yaml", "opml"):
        raise BadRequest(f"--format: is yaml or opml, not {form!r}.")
    if form == "yaml":
        _write_file(_ask(lambda sources: sources.export_yaml()), file)
        return
    body, without = _ask(lambda sources: sources.export_opml())
    _write_file(body, file)
    if without:
        show_sources.left_out(without)


@source_app.command("discover")
def source_discover(
    url: Annotated[str, typer.Argument(help="The address of a site, or of any page of it.")], as_json: Json = False
) -> None:
    """Show the feeds and sitemaps of a site. It saves nothing. Exits 1 if there is none."""
    found = _send(lambda sources: sources.discover(url), creates=True)
    _print(found, show_sources.discovered, as_json=as_json)
    raise typer.Exit(0 if found.feeds or found.sitemaps else 1)


@source_app.command("test")
def source_test(
    target: Annotated[str, typer.Argument(metavar="URL|NAME", help="An address, or a source.")], as_json: Json = False
) -> None:
    """Test each stage from an address to an extracted article. It saves nothing. Exits 1 if a stage fails."""
    show_stage = (lambda _: None) if as_json else show_sources.stage
    is_address = "." in target or ":" in target
    result = _send(lambda sources: sources.test(target, show_stage), creates=is_address)
    if as_json:
        print_json(result)
    raise typer.Exit(0 if result.works else 1)


source_app.command("janitor")(source_janitor)
source_app.command("history")(source_history)


def _ask(question: "Callable[[SourceOperations], Coroutine[Any, Any, T]]", *, creates: bool = False) -> T:
    return run_local(lambda operations: question(operations.sources), creates=creates)


def _send(
    question: "Callable[[LiveSourceOperations], Coroutine[Any, Any, T]]",
    logs: str | None = "error",
    *,
    creates: bool = False,
) -> T:
    return run_live(lambda operations: question(operations.sources), logs, creates=creates)


def _print(result: T, show_result: Callable[[T], None], *, as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        show_result(result)


def _parse_settings(name: str, given: list[str] | None) -> Mapping[str, Any]:
    """Parse FIELD=VALUE. A value that is no JSON is text."""
    settings: dict[str, Any] = {}
    for text in given or ():
        field, separator, value = text.partition("=")
        if not separator or not field:
            raise BadRequest(f"Source {name}: --set {text!r} is not of the form FIELD=VALUE, as rate_per_second=0.5.")
        if field in settings:
            raise BadRequest(f"Source {name}: {field}: is given twice.")
        try:
            settings[field] = json.loads(value)
        except (ValueError, RecursionError):
            settings[field] = value
    return settings


def _read_file(file: Path) -> bytes:
    from headwater.sources.import_export import MAX_FILE_BYTES

    enough = MAX_FILE_BYTES + 1  # the operation refuses a file that is too large
    try:
        if str(file) == "-" and sys.stdin is not None:
            return sys.stdin.buffer.read(enough)
        with file.open("rb") as opened:
            return opened.read(enough)
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}.") from None


def _write_file(body: bytes, file: Path | None) -> None:
    if file is None:
        typer.echo(body.decode(), nl=False)
        return
    try:
        file.write_bytes(body)
    except OSError as error:
        raise FolderUnusable(f"{file} cannot be written: {error.strerror}.") from None
