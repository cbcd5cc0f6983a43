"""`headwater canonical run`: fetch the new links of all categories and store their articles."""

import sys
from typing import TYPE_CHECKING

import typer

from headwater.cli.bars import watching
from headwater.cli.common import Json, run, settings_with_logs
from headwater.cli.output import print_result
from headwater.cli.show import console, plain
from headwater.core.reasons import Reason

if TYPE_CHECKING:
    from headwater.canonical.operations import CanonicalTotals

canonical_app = typer.Typer(help="Canonical articles of the links of all categories.", no_args_is_help=True)


@canonical_app.callback()
def canonical() -> None:
    """Canonical articles of the links of all categories."""


@canonical_app.command("run")
def run_once(as_json: Json = False) -> None:
    """Fetch each new category link once and store the article, also in Redis."""
    from headwater.app.sessions import run_canonical
    from headwater.canonical.operations import CanonicalTotals

    # A terminal shows a progress bar; without one, the log has each URL.
    settings = settings_with_logs("error" if sys.stderr.isatty() else None)
    totals = CanonicalTotals()
    with watching(lambda: ("articles", totals.done, totals.new or None), quiet=as_json, stays=False):
        run(run_canonical(settings, totals))
    print_result(totals, _print_totals, as_json=as_json)


def _print_totals(totals: "CanonicalTotals") -> None:
    if totals.new:
        failed = ", ".join(f"{count:,} {code}" for code, count in sorted(totals.failed.items()))
        console.print(
            f"{totals.new:,} new: {totals.stored:,} stored, {totals.skipped:,} skipped, "
            f"{sum(totals.failed.values()):,} failed{f' ({failed})' if failed else ''}, {totals.deferred:,} deferred."
        )
    for link in totals.failed_urls:
        console.print(f"  failed: {plain(link.url)} {link.code}[dim] {Reason.of(link.reason).sentence}[/]")
    _print_more(sum(totals.failed.values()) - len(totals.failed_urls), "failed")
    for late in totals.deferred_urls:
        why = f" {Reason.of(late.reason).sentence}" if late.reason else ""
        until = f" The next attempt is at {late.until:%Y-%m-%d %H:%M} UTC." if late.until else ""
        console.print(f"  deferred: {plain(late.url)}[dim]{why}{until}[/]")
    _print_more(totals.deferred - len(totals.deferred_urls), "deferred")
    if totals.redis not in ("up to date", "not configured"):
        console.print(f"[yellow]{plain(totals.redis)}[/] PostgreSQL has everything; the next run writes it to Redis.")
    for trouble in totals.troubles:
        console.print(f"  [yellow]{plain(trouble)}[/]")


def _print_more(count: int, what: str) -> None:
    if count:
        console.print(f"  and {count:,} more {what}")
