"""The command `headwater demo`."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.bars import progress_bars
from headwater.cli.common import Json, run, settings_with_logs
from headwater.cli.output import print_json
from headwater.cli.show import console, plain, wrap
from headwater.cli.show_days import print_titles
from headwater.core.errors import OperatorError
from headwater.core.settings import FILE_VARIABLE, SETTINGS_FILE

if TYPE_CHECKING:
    from headwater.canonical.operations import CanonicalTotals
    from headwater.demo.outcome import DemoOutcome, OutcomeGroup
    from headwater.demo.progress import Progress
    from headwater.demo.run import Demo

_MAX_FAULTS = 10  # of one check
_REPEAT_SECONDS = 10.0


def demo(
    as_json: Json = False,
    data: Annotated[str | None, typer.Option(metavar="FOLDER", help="Keep the data here for the next time.")] = None,
    stay: Annotated[bool, typer.Option("--serve", help="Keep serving the web and the API afterwards.")] = False,
) -> None:
    """Run the whole flow offline, on a small web on this machine. Exits 0 only if all checks pass."""
    if data == "":
        raise OperatorError("--data must name a folder.")
    settings_with_logs("error")
    try:
        as_expected = run(_demo(Path(data).absolute() if data else None, as_json=as_json, stay=stay))
    except SystemExit as ending:
        if data:
            ending.add_note("Run again with the same --data to continue from here.")
        raise
    raise typer.Exit(0 if as_expected else 1)


async def _demo(data: Path | None, *, as_json: bool, stay: bool) -> bool:
    from headwater.demo.run import open_demo

    async with open_demo(data, stays=stay) as opened:
        with show_progress(quiet=as_json) as progress:
            outcome = await opened.run(progress)
        report = outcome.as_json() if as_json else None
        if report is None:
            show_outcome(outcome)
        elif not stay:
            print_json(report)
        if stay:
            await _stay(opened, report)
    return outcome.as_expected


async def _stay(opened: "Demo", report: dict[str, Any] | None) -> None:
    """Serve until a signal. Shows the addresses first, as text or as part of the JSON report."""
    from headwater.app.roles import RoleName, serve
    from headwater.web import SignInLinks, make_app

    links = SignInLinks()

    def ready(api: str) -> None:
        if report is not None:
            addresses = {"api": api, "web": opened.web.address, "data": str(opened.settings.data_dir)}
            print_json(report | addresses)
        else:
            show_addresses(links.make(api), api, opened.web.address, opened.web.hosts, opened.settings.data_dir)

    await serve(
        opened.settings,
        [RoleName.API, RoleName.POLLER, RoleName.FETCHER, RoleName.DELIVERER, RoleName.MAINTENANCE],
        partial(make_app, links=links),
        on_ready=ready,
    )


@contextmanager
def show_progress(*, quiet: bool) -> "Iterator[Progress]":
    """Show the progress: live bars in a terminal; in a log a line for each stage, and more for a long one."""
    if not quiet and not console.is_terminal:
        yield from _stage_lines()
        return
    with progress_bars(quiet=quiet, width=16) as show_step:
        yield lambda stage, done, total, waits: show_step(stage, done, total, _format_wait(waits))


def _format_wait(waits_for: str) -> str:
    return f"waiting for {plain(waits_for)}" if waits_for else ""


def _stage_lines(clock: Callable[[], float] = time.monotonic) -> "Iterator[Progress]":
    ended: set[str] = set()
    begun: dict[str, float] = {}
    shown_at = clock()

    def show(stage: str, done: int, total: int, waits_for: str) -> None:
        nonlocal shown_at
        now = clock()
        line = f"{stage}: {done} of {total}"
        if done < total or waits_for:
            begun.setdefault(stage, now)
            if now - max(shown_at, begun[stage]) < _REPEAT_SECONDS:
                return
            line += f" after {now - begun[stage]:.0f} s" + (waits_for and f", {_format_wait(waits_for)}")
        elif stage in ended or total == 1:  # the next stage shows that a single step is done
            return
        else:
            ended.add(stage)
        shown_at = now
        console.print(line)

    yield show


def show_outcome(outcome: "DemoOutcome") -> None:
    """Show the result of the demo."""
    console.print()
    print_titles(outcome.day, outcome.items)
    console.print("\n[bold]Documents by host[/]")
    for host, count in outcome.documents.items():
        console.print(f"{count:>6}  {plain(host)}")
    _outcomes("Other outcomes", [group for group in outcome.outcomes if not (group.waits or group.has_document)])
    _outcomes("Waiting URLs", [group for group in outcome.outcomes if group.waits])
    _articles(outcome.articles)
    console.print("\n[bold]Time[/]  " + ", ".join(f"{stage} {spent:.2f} s" for stage, spent in outcome.seconds.items()))
    console.print("\n[bold]Checks[/]")
    for check in outcome.checks:
        margin = " " * 7
        text = wrap(f"{check.name} ({check.found})", margin)
        console.print(f"  {'[green]ok  [/]' if check.holds else '[red]FAIL[/]'} {text[len(margin) :]}")
        for wrong in check.wrong[:_MAX_FAULTS]:
            console.print(wrap(wrong, margin))
        if len(check.wrong) > _MAX_FAULTS:
            console.print(f"       and {len(check.wrong) - _MAX_FAULTS} more")
    console.print("\nAll checks passed." if outcome.as_expected else "\nSome checks failed.")


def _articles(totals: "CanonicalTotals") -> None:
    if totals.new:
        failed = "".join(f", {count} {code}" for code, count in sorted(totals.failed.items()))
        kept = totals.stored + totals.skipped
        text = f"{totals.new} links of feeds: {kept} kept{failed}, {totals.deferred} deferred"
        console.print("\n[bold]Canonical articles[/]")
        console.print(wrap(text, "  "))


def show_addresses(link: str, api: str, web: str, hosts: Sequence[str], data: Path) -> None:
    """Show where the demo is served, and commands to explore it."""
    console.print(f"\nHeadwater listens on {api} (OpenAPI at /docs).")
    console.print(f"This link signs in once, within ten minutes: {link}")
    console.print(f"The small web listens on {web}, which lists its hosts:")
    console.print(wrap(", ".join(hosts), "  "))
    console.print("Ctrl-C stops both. Look around, for example with:")
    console.print(f"  curl -s '{api}/search?q=flood'")
    console.print(f"  curl -s -H 'Host: gazette.demo.test' {web}/feed.xml")
    console.print(f"  export {FILE_VARIABLE}={plain(shlex.quote(str(data / SETTINGS_FILE)))}")
    program = plain(_this_program())
    for words in ("today", "source budgets"):
        console.print(f"  {program} {words}")
    console.print("The backfill of bills is disabled. This command resumes it:")
    console.print(f"  {program} source enable bills")


def _this_program() -> str:
    """Return the word that starts this program again."""
    started = sys.argv[0]
    if not os.access(started, os.X_OK) or shutil.which("headwater") == started:
        return "headwater"
    return shlex.quote(started)


def _outcomes(title: str, outcomes: "list[OutcomeGroup]") -> None:
    if outcomes:
        console.print(f"\n[bold]{title}[/]")
    for group in outcomes:
        margin = " " * 8
        console.print(f"{group.count:>6}  {wrap(group.sentence, margin)[len(margin) :]}")
        console.print(f"{margin}[dim]{plain(group.example)}[/]")
