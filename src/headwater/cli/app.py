"""The commands. Each one parses its arguments, calls an operation, and prints the record."""

import os
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import headwater
from headwater.cli import show
from headwater.cli.canonical import canonical_app
from headwater.cli.changes import new, webhook_app
from headwater.cli.common import Json, Yes, configuration, confirm, run, settings_with_logs
from headwater.cli.days import completeness, daily, ingest, missing, runs, today
from headwater.cli.demo import demo
from headwater.cli.documents import diff, document_app, normalize, show_document, why
from headwater.cli.frontier import frontier_app
from headwater.cli.handoffs import handoff_app
from headwater.cli.history import history
from headwater.cli.logs import set_up_logs
from headwater.cli.output import print_json, print_result
from headwater.cli.saved_searches import alarm_app, channel_app, feed_address_app, saved_search_app
from headwater.cli.search import search_app
from headwater.cli.show import console
from headwater.cli.sources import add, source_app
from headwater.cli.stories import story_app
from headwater.cli.tokens import token_app
from headwater.cli.upkeep import backup, restore, upgrade, verify
from headwater.cli.watches import watch
from headwater.core.errors import BadRequest
from headwater.core.record import record
from headwater.core.settings import Settings, markdown, masked


@record
class ConfigLine:
    """A setting, its value, and where the value comes from."""

    name: str
    value: str
    origin: str
    help: str


# The panels of the help.
READ, SOURCES, RUN, LOOK_AFTER = "Read", "Sources", "Run", "Look after"

app = typer.Typer(
    name="headwater",
    help="Turns public sources into a clean, dated, deduplicated, searchable corpus.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
migrate_app = typer.Typer(help="The database schema.", no_args_is_help=True)
for group, name, panel in (
    (search_app, "search", READ),
    (story_app, "story", READ),
    (source_app, "source", SOURCES),
    (frontier_app, "frontier", RUN),
    (canonical_app, "canonical", RUN),
    (handoff_app, "handoff", RUN),
    (saved_search_app, "saved-search", RUN),
    (channel_app, "channel", RUN),
    (webhook_app, "webhook", RUN),
    (feed_address_app, "feed-address", LOOK_AFTER),
    (alarm_app, "alarm", LOOK_AFTER),
    (document_app, "document", LOOK_AFTER),
    (token_app, "token", LOOK_AFTER),
    (migrate_app, "migrate", LOOK_AFTER),
):
    app.add_typer(group, name=name, rich_help_panel=panel)
_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    READ: {
        "today": today,
        "daily": daily,
        "completeness": completeness,
        "missing": missing,
        "new": new,
        "show": show_document,
        "diff": diff,
        "why": why,
        "runs": runs,
    },
    SOURCES: {"add": add, "ingest": ingest},
    RUN: {"watch": watch, "history": history, "demo": demo},
    LOOK_AFTER: {
        "normalize": normalize,
        "verify": verify,
        "backup": backup,
        "restore": restore,
        "upgrade": upgrade,
    },
}
for panel, functions in _COMMANDS.items():
    for name, function in functions.items():
        app.command(name, rich_help_panel=panel)(function)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Turn public sources into a clean, dated, deduplicated, searchable corpus."""
    if version:
        typer.echo(f"headwater {headwater.__version__}")
        raise typer.Exit


@app.command(rich_help_panel=RUN)
def up() -> None:
    """Run everything: API, scheduler, poller, fetchers, deliverer, maintenance."""
    from headwater.app.fetch_processes import count_processes
    from headwater.app.roles import RoleName, serve
    from headwater.web import SignInLinks, make_app

    links = SignInLinks()

    def ready(address: str) -> None:
        console.print(f"Headwater listens on {address} (OpenAPI at {address}/docs). Ctrl-C stops it.")
        console.print(f"This link signs in once, within ten minutes: {links.make(address)}")

    settings = settings_with_logs()
    run(
        serve(
            settings,
            list(RoleName),
            partial(make_app, links=links),
            update_schema=True,
            on_ready=ready,
            fetch_processes=count_processes(settings.fetch_processes),
        )
    )


@app.command(rich_help_panel=RUN)
def worker(
    until_input_ends: Annotated[
        bool, typer.Option("--until-input-ends", help="Stop when standard input ends.")
    ] = False,
) -> None:
    """Run only fetchers, for a Headwater that runs elsewhere on the same database."""
    from headwater.app.roles import RoleName, serve

    run(serve(settings_with_logs(), [RoleName.FETCHER], is_child=until_input_ends))


@app.command(rich_help_panel=LOOK_AFTER)
def doctor(as_json: Json = False) -> None:
    """Check settings, machine and database, and show how to fix what is wrong. Exits 1 if something failed."""
    from headwater.app.doctor import run_checks, use_daemon_threads
    from headwater.app.doctor_finding import Finding, State

    async def check() -> dict[str, Finding]:
        use_daemon_threads()
        return await run_checks(os.environ, Path.cwd())

    set_up_logs("error", "text")
    findings = run(check())
    healthy = all(finding.state is not State.FAILED for finding in findings.values())
    if as_json:
        checks = [{"name": name, **asdict(finding)} for name, finding in findings.items()]
        print_json({"version": headwater.__version__, "healthy": healthy, "checks": checks})
    else:
        show.findings(findings)
    raise typer.Exit(0 if healthy else 1)


@app.command(rich_help_panel=LOOK_AFTER)
def config(
    as_json: Json = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/settings.md.")] = False,
) -> None:
    """Show every setting, its value and where it came from; secrets are masked."""
    if as_markdown:
        typer.echo(markdown(), nl=False)
        return
    loaded = configuration()
    rows = [
        ConfigLine(
            name=setting.name,
            value=masked(setting, getattr(loaded.settings, setting.name)),
            origin=loaded.origins[setting.name],
            help=setting.metadata["help"],
        )
        for setting in fields(Settings)
    ]
    print_result(
        rows, lambda rows: show.print_table(rows, name="setting", value="value", origin="from"), as_json=as_json
    )


@migrate_app.command("up")
def migrate_up() -> None:
    """Apply the missing migrations, and rebuild the search index if it is broken or missing."""
    from headwater.app import schema

    _print_migrations("applied", run(schema.up(settings_with_logs("error"))))


@migrate_app.command("down")
def migrate_down(
    to: Annotated[int | None, typer.Option(min=0, help="The newest migration to keep; 0 rolls all back.")] = None,
    only: Annotated[str | None, typer.Option(help="Roll back only this optional one: handoffs.")] = None,
    yes: Yes = False,
) -> None:
    """Roll migrations back: their tables are dropped, with all rows.

    Stop all other Headwater programs before --to. With --only they can continue.
    """
    from headwater.app import schema

    if (to is None) == (not only):
        raise BadRequest("Give --to NUMBER, or --only NAME.")
    if only:
        schema.require_optional(only)
    what = only if only else f"above number {to}"
    confirm(f"Drop the tables of the migrations {what}, with all rows?", yes=yes)
    settings = settings_with_logs("error")
    _print_migrations("rolled back", run(schema.down_only(settings, only) if only else schema.down(settings, to or 0)))


def _print_migrations(verb: str, names: list[str]) -> None:
    console.print("\n".join(f"{verb} {name}" for name in names) or f"nothing to be {verb}")


@migrate_app.command("status")
def migrate_status(as_json: Json = False) -> None:
    """Show which migrations are in force."""
    from headwater.app import schema

    rows = run(schema.status(settings_with_logs("error")))
    lines = (f"{row.number:03} {row.name:<12} {'applied' if row.applied else 'not applied'}" for row in rows)
    print_result(rows, lambda _: console.print("\n".join(lines)), as_json=as_json)


command = typer.main.get_command(app)
