"""`headwater canonical run`: the links of all categories become articles, each once."""

import sys
from dataclasses import asdict

import typer

from headwater.canonical.operations import CanonicalTotals
from headwater.cli.bars import watching
from headwater.cli.common import Json, run, settings_with_logs
from headwater.cli.output import print_json
from headwater.cli.show import console, plain
from headwater.core.reasons import Reason

canonical_app = typer.Typer(help="Canonical articles of the links of all categories.", no_args_is_help=True)


@canonical_app.callback()
def canonical() -> None:
    """Canonical articles of the links of all categories."""


@canonical_app.command("run")
def run_once(as_json: Json = False) -> None:
    """Fetch what is new in any category, store its articles, and stop; with nothing new it does nothing."""
    from headwater.app.sessions import run_canonical

    # In a terminal the bar tells how far it is; elsewhere the log tells of each URL.
    settings = settings_with_logs("error" if sys.stderr.isatty() else None)
    totals = CanonicalTotals()
    with watching(lambda: ("articles", totals.done, totals.new or None), quiet=as_json, stays=False):
        run(run_canonical(settings, totals))
    if as_json:
        print_json(asdict(totals))
    else:
        _show(totals)


def _show(totals: CanonicalTotals) -> None:
    """Show the totals; nothing where nothing was new and nothing is wrong."""
    if totals.new:
        failed = ", ".join(f"{count:,} {code}" for code, count in sorted(totals.failed.items()))
        console.print(
            f"{totals.new:,} new: {totals.stored:,} stored, {totals.skipped:,} skipped, "
            f"{sum(totals.failed.values()):,} failed{f' ({failed})' if failed else ''}, {totals.deferred:,} deferred."
        )
    for one in totals.failed_urls:
        console.print(f"  failed: {plain(one.url)} {one.code}[dim] {Reason.of(one.reason).sentence}[/]")
    _say_more(sum(totals.failed.values()) - len(totals.failed_urls), "failed")
    for late in totals.deferred_urls:
        why = f" {Reason.of(late.reason).sentence}" if late.reason else ""
        until = f" Tried again from {late.until:%Y-%m-%d %H:%M} UTC on." if late.until else ""
        console.print(f"  deferred: {plain(late.url)}[dim]{why}{until}[/]")
    _say_more(totals.deferred - len(totals.deferred_urls), "deferred")
    if totals.redis not in ("up to date", "not configured"):
        console.print(f"[yellow]{plain(totals.redis)}[/] PostgreSQL has it all; the next run writes it there.")
    for trouble in totals.troubles:
        console.print(f"  [yellow]{plain(trouble)}[/]")


def _say_more(untold: int, what: str) -> None:
    if untold:
        console.print(f"  and {untold:,} more {what}")
