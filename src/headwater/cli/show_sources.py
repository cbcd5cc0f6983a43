"""The text output of `headwater add` and `headwater source`."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from headwater.cli.bars import progress_bars
from headwater.cli.show import console, errors, plain, print_cut, print_grid, visible, wrap
from headwater.core.reasons import Reason
from headwater.core.source import Method

if TYPE_CHECKING:
    from headwater.core.poll import OlderPages
    from headwater.db.budgets import HostBudget
    from headwater.discovery.source_operations import AddedSource, DiscoveredSources, PolledSource, SyncedSource
    from headwater.discovery.trial import TrialStage
    from headwater.documents.upkeep import DiskUse, PurgeReport
    from headwater.sources.health import ReadProblem, SourceDetails, SourceHealth, SourceMethod, SourceSummary
    from headwater.sources.operations import EditedSource, ImportedSources, RemovedSource

_COLOURS = {
    "failing": "bold red",
    "late": "yellow",
    "flawed": "yellow",
    "silent": "yellow",
    "new": "cyan",
    "on_time": "green",
    "disabled": "dim",
}
_REFUSED_SHOWN = 20
_OTHERS_SHOWN = 10
_PROBLEMS_SHOWN = 5
_STAGE_WIDTH = 13


@contextmanager
def pages_found(*, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show the number of pages found so far."""
    with progress_bars(quiet=quiet) as show_step:
        yield lambda count: show_step("pages found", count, None)


def step(sentence: str) -> None:
    """Show in a terminal what a command does now."""
    if console.is_terminal:
        console.print(f"[dim]{plain(sentence)} ...[/]")


def added(source: "AddedSource") -> None:
    """Show a new source, what its first poll found, and what to do next."""
    name, title = plain(source.name), f" ({plain(source.title)})" if source.title else ""
    cost = f"It took {source.requests} request{'s' * (source.requests != 1)} and {source.seconds:g} seconds."
    if source.links is not None:
        _show_added_spider(source, cost)
        return
    if source.deferred:
        missing = "its list was read" if source.is_certain else "its feed was found"
        console.print(f"Added source [bold]{name}[/]. The visit ended before {missing}.")
        _show_settings("Settings", source.settings)
        console.print(f"\n{cost} `headwater up` continues at once; `headwater source show {name}` shows the result.")
        return
    console.print(f"Added source [bold]{name}[/]{title}: {_format_counts(source)}")
    _show_problems_of_poll(source)
    _show_older(source.older)
    for item in source.newest:
        line = f"  {item.published_at:%Y-%m-%d}  "
        if item.title:
            print_cut(line + plain(item.title))
        else:
            console.print(line + plain(item.url))
    if source.is_unfinished:
        console.print("The visit ended before all of the list was read. `headwater up` reads the rest at once.")
    if source.others:
        console.print("The site has more feeds; `headwater add` adds each as a source of its own:")
        lines = [f"  {plain(feed.url)}  [dim]{plain(feed.title)}[/]" for feed in source.others]
        _show_first([line.removesuffix("  [dim][/]") for line in lines], _OTHERS_SHOWN)
    console.print(f"{cost} `headwater up` fetches the pages; `headwater today` shows what is new.")


def _show_added_spider(source: "AddedSource", cost: str) -> None:
    name = plain(source.name)
    console.print(f"Added source [bold]{name}[/]. Its start page has {source.links:,} links. {cost}")
    if source.links:
        console.print("`headwater up` follows the links of its pages once a day;")
        console.print(f"`headwater source sync {name} --method {source.method}` does it now.")
        return
    console.print("[yellow]A spider finds nothing there.[/] If scripts make the links of the page, use a browser:")
    console.print(f"  headwater source edit {name} --set needs_browser=true")
    console.print("If another page has the links, name that page:")
    console.print(f"  headwater source edit {name} --set site_url=URL")


def polled(source: "PolledSource") -> None:
    """Show what a poll found."""
    console.print(f"Read [bold]{plain(source.name)}[/]: {_format_counts(source, with_new=True)}")
    _show_older(source.older)
    if source.left:
        console.print(
            f"{source.left:,} are left. `headwater up` continues within a minute; without it, run this again."
        )
    _show_problems_of_poll(source)


def _show_older(older: "OlderPages | None", indent: str = "") -> None:
    if older:
        console.print(wrap(older.describe(), indent))
        console.print(f"{indent}  {plain(older.command)}")


def synced(source: "SyncedSource") -> None:
    """Show what a run found, and what became of its items."""
    polled(source)
    if source.handoff_completed_count is None:
        console.print(f"[yellow]No item was handed off.[/] {Reason.HANDOFFS_MISSING.sentence}")
        return
    counts = [f"{source.handoff_completed_count:,} handed off", f"{source.handoff_skipped_count:,} skipped"]
    rare = ((source.handoff_failed_count, "failed"), (source.handoff_queued_count, "still queued"))
    counts += [f"{count:,} {what}" for count, what in rare if count]
    console.print(f"Run {source.scrape_run_id}: {', '.join(counts)}.")


def _format_counts(source: "PolledSource", *, with_new: bool = False) -> str:
    parts = [f"{source.urls:,} pages listed"] if source.method is not Method.FEED else []
    if source.items or source.method is Method.FEED:
        new = f", {source.new_items} of them new" if with_new else ""
        parts.append(f"{source.items} items{new}")
    return f"{', '.join(parts)}, {source.new_urls:,} new pages to fetch."


def _show_problems_of_poll(source: "PolledSource") -> None:
    for flaw in source.flaws:
        console.print(f"[yellow]{flaw.sentence}[/]")
    lines = [f"  refused {plain(url)}: {plain(why)}" for url, why in source.refused.items()]
    _show_first(lines, _REFUSED_SHOWN, " were refused")


def _show_first(lines: list[str], most: int, ending: str = "") -> None:
    console.print(*lines[:most], sep="\n", end="\n" if lines else "")
    if len(lines) > most:
        console.print(f"  and {len(lines) - most:,} more{ending}")


def listed(rows: "Sequence[SourceSummary]", *, filtered: bool) -> None:
    """Show sources with their health and their next poll."""
    if not rows:
        none = "No sources match." if filtered else "There are no sources yet: `headwater add URL` adds one."
        console.print(none)
        return
    console.print(f"[bold]{'health':<9} {'items':>7} {'docs':>7}  {'next (UTC)':<11}  source[/]")
    for row in rows:
        console.print(
            f"{_format_health(row.health):} {row.items:>7,} {row.documents:>7,}  "
            f"{_format_time(row.next_poll_at):<11}  {plain(row.name)}"
        )
        console.print(wrap(row.why, "          "), style="dim")


def _format_health(health: "SourceHealth") -> str:
    return f"[{_COLOURS[health]}]{health.replace('_', ' '):<9}[/]"


def _format_time(moment: datetime | None) -> str:
    return f"{moment:%m-%d %H:%M}" if moment else "-"


def details(source: "SourceDetails") -> None:
    """Show everything that is known about a source."""
    console.print(f"[bold]{plain(source.name)}[/], of kind {plain(source.kind)}, since {source.created_at:%Y-%m-%d}")
    console.print(f"\n{_format_health(source.health)}")
    console.print(wrap(source.why, "  "))
    _show_settings("Settings", source.settings)
    _show_settings("By default", source.defaults)
    for method in source.methods:
        _show_method(method)
    urls = ", ".join(f"{count:,} {status}" for status, count in source.urls.items())
    console.print(f"\n[bold]Found[/]  {source.items:,} items, {source.documents:,} documents; pages: {urls}")
    for item in source.last_items:
        published = f"{item.published_at:%Y-%m-%d}{' (first seen)' if item.published_is_sighting else ''}"
        console.print(f"  {published}  {plain(item.title or '(no title)')}")
        console.print(f"              [dim]{plain(item.url)}[/]")


def edited(source: "EditedSource") -> None:
    """Show the settings that an edit changed."""
    if not source.changed:
        console.print(f"Source {plain(source.name)} has these settings already.")
    for setting in source.changed:
        before, after = map(_format_setting, (setting.before, setting.after))
        console.print(f"{plain(setting.field)}: {plain(before)} -> {plain(after)}")


def _format_setting(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _show_settings(title: str, settings: Mapping[str, Any]) -> None:
    if settings:
        console.print(f"\n[bold]{title}[/]")
    for field, value in settings.items():
        console.print(f"  {plain(field):<22} {plain(_format_setting(value))}")


def _show_method(method: "SourceMethod") -> None:
    console.print(f"\n[bold]Read by {method.method}[/]  {_format_health(method.health)}")
    console.print(wrap(method.why, "  "))
    if method.last_polled_at:
        last, success, new = map(_format_time, (method.last_polled_at, method.last_success_at, method.last_new_at))
        console.print(f"  last poll {last}, last success {success}, last new item {new} (UTC)")
    if method.next_poll_at:
        next_poll = f"next {_format_time(method.next_poll_at)} (UTC). {method.next_poll_why or ''}"
        console.print(wrap(next_poll, "  "))
    if method.backfill_since:
        console.print(f"  the next poll goes back to {method.backfill_since:%Y-%m-%d}")
    _show_older(method.older, "  ")
    _show_problems(method.problems)


def _show_problems(problems: "Sequence[ReadProblem]") -> None:
    lines = [
        f"  {'in' if one.flaw else 'could not read'} {plain(one.url)}:\n{wrap(one.problem, '    ')}" for one in problems
    ]
    _show_first(lines, _PROBLEMS_SHOWN, "; --json lists them")


def removed(source: "RemovedSource") -> None:
    """Show what a removal did."""
    what = "its items and documents are kept" if source.kept else "it had no items"
    ended = f"; {source.ended_urls:,} queued pages will not be fetched" if source.ended_urls else ""
    console.print(f"Removed source {plain(source.name)}: {what}{ended}.")


def purged(report: "PurgeReport") -> None:
    """Show what a purge deleted, and what is left."""
    console.print(
        f"Deleted {report.items:,} items, {report.urls:,} URLs and {report.documents:,} documents "
        f"of {plain(report.name)}."
    )
    if report.handed_over:
        console.print(f"{report.handed_over:,} documents went to other sources, which list their pages too.")
    if not report.has_ended:
        console.print(
            "Workers fetch some of its pages now, or some of its files stay for now. Run the command again later."
        )


def disk(use: "DiskUse") -> None:
    """Show the disk use of each source, and of the database."""
    lines = [["source", "documents", "raw files", "texts"]]
    lines += [
        [size.name, f"{size.documents:,}", decimal(size.raw_bytes), decimal(size.text_bytes)] for size in use.sources
    ]
    print_grid(lines)
    console.print(f"The database uses {decimal(use.database_bytes)} in all.")


def imported(result: "ImportedSources") -> None:
    """Show what an import did. Refused entries go to standard error."""
    for one in result.refused[:_REFUSED_SHOWN]:
        parts = dict.fromkeys((one.where, one.given, one.why))  # an entry without a name is given by its place
        errors.print(f"refused {plain(': '.join(parts))}")
    if len(result.refused) > _REFUSED_SHOWN:
        errors.print(f"and {len(result.refused) - _REFUSED_SHOWN:,} more; --json lists them all")
    would = "would be added" if result.dry_run else "added"
    console.print(f"{len(result.added):,} {would}, {len(result.known):,} known, {len(result.refused):,} refused.")


def left_out(names: Sequence[str]) -> None:
    """Show which sources an OPML file cannot hold."""
    errors.print(f"Left out, because they have no feed: {plain(', '.join(names))}.")


def discovered(found: "DiscoveredSources") -> None:
    """Show the feeds and sitemaps of a site."""
    for feed in found.feeds:
        console.print(f"feed     {plain(feed.url)}  [dim]{plain(feed.title)}[/]")
    for sitemap in found.sitemaps:
        console.print(f"sitemap  {plain(sitemap)}")
    if not found.feeds and not found.sitemaps:
        console.print(f"Neither a feed nor a sitemap was found at {plain(found.url)}.")


def stage(stage: "TrialStage") -> None:
    """Show one stage of a trial."""
    mark = "[red]FAIL[/]" if stage.error else "[green]ok  [/]"
    head = f"{mark} {stage.name:<{_STAGE_WIDTH}} [dim]{stage.seconds:>6.2f} s[/]  "
    for line in [*stage.found, *([stage.error] if stage.error else [])]:
        console.print(head + plain(line))
        head = " " * (_STAGE_WIDTH + 16)


def budgets(rows: "list[HostBudget] | None") -> None:
    """Show the budgets of the api.data.gov key by host. None: no key is set."""
    if rows is None:
        console.print("No api.data.gov key is set. Sources that need one cannot be polled.")
        console.print("https://api.data.gov/signup/ gives one: set HEADWATER_API_DATA_GOV_KEY to it.")
    elif not rows:
        console.print("The api.data.gov key has not been used yet; each API host's budget shows here once it has been.")
    for row in rows or ():
        origin = "as the host says" if row.limit_seen_at else "assumed, the host has not said"
        console.print(f"[bold]{plain(row.host)}[/]  {row.hourly_limit:,} requests an hour ({origin})")
        lines = [["source", "share", "spent", "left", "next free (UTC)"]]
        for part in row.sources:
            free = f"{part.next_free:%H:%M:%S}" if part.next_free else "now"
            lines.append([part.source, f"{part.share:,}", f"{part.spent:,}", f"{part.left:,}", free])
        print_grid(lines)
        reserve = [name for part in row.sources if part.source == "reserve" for name in part.drawn_by]
        if reserve:
            drawn = visible(f"These sources use the reserve: {', '.join(reserve)}.")
            console.print(wrap(drawn, ""))
