"""What people see of sources: how each is doing, why, and what comes next."""

import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from headwater.cli.show import console, plain, visible
from headwater.cli.show_frontier import errors, progress
from headwater.core.poll import PollResult
from headwater.core.reasons import Reason
from headwater.core.source import Method
from headwater.feeds.results import FeedLink

if TYPE_CHECKING:
    from headwater.sources.import_export import Refused

_COLOURS = {
    "failing": "bold red",
    "late": "yellow",
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
def leads_found(*, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show how many pages were found so far."""
    with progress("pages found", None, quiet=quiet) as bar:
        yield lambda count: bar(count, count)


def added(polled: PollResult, others: Sequence[FeedLink]) -> None:
    """Show what a new source brought, and what to do next."""
    title = f" ({plain(polled.title)})" if polled.title else ""
    name = plain(polled.source.name)
    if polled.deferred:
        console.print(f"Added source [bold]{name}[/]. `headwater up` walks through its pages once a day;")
        console.print(f"`headwater source sync {name} --method {polled.method}` does it now.")
        return
    console.print(f"Added source [bold]{name}[/]{title}: {_brought(polled)}")
    _refused(polled)
    if others:
        console.print("There is more to read there; `headwater add` takes each as a source of its own:")
        for feed in others[:_OTHERS_SHOWN]:
            console.print(f"  {plain(feed.url)}  [dim]{plain(feed.title)}[/]")
        if len(others) > _OTHERS_SHOWN:
            console.print(f"  and {len(others) - _OTHERS_SHOWN} more")
    console.print("`headwater up` fetches the pages; `headwater today` shows what is new.")


def polled(done: PollResult) -> None:
    """Show what a reading brought."""
    console.print(f"Read [bold]{plain(done.source.name)}[/]: {_brought(done, tells_new=True)}")
    if done.left:
        console.print(
            f"{done.left:,} are left. `headwater up` goes on with them within a minute; without it, run this again."
        )
    _refused(done)


def handed_off(done: PollResult) -> None:
    """Show what became of the items that a run touched."""
    if done.handoffs is None:
        console.print(f"[yellow]Nothing was handed off.[/] {Reason.HANDOFFS_MISSING.sentence}")
        return
    counts = ((done.handoffs.completed, "handed off"), (done.handoffs.skipped, "skipped"))
    odd = ((done.handoffs.failed, "failed"), (done.handoffs.queued, "still queued"))
    told = [f"{count:,} {what}" for count, what in counts] + [f"{count:,} {what}" for count, what in odd if count]
    console.print(f"Run {done.run_id}: {', '.join(told)}.")


def _brought(polled: PollResult, *, tells_new: bool = False) -> str:
    parts = [f"{polled.leads:,} pages listed"] if polled.method is not Method.FEED else []
    if polled.items or polled.method is Method.FEED:
        new = f", {polled.new_items} of them new" if tells_new else ""
        parts.append(f"{polled.items} items{new}")
    return f"{', '.join(parts)}, {polled.new_urls:,} new pages to fetch."


def _refused(polled: PollResult) -> None:
    for url, why in list(polled.refused.items())[:_REFUSED_SHOWN]:
        console.print(f"  refused {plain(url)}: {plain(why)}")
    if len(polled.refused) > _REFUSED_SHOWN:
        console.print(f"  and {len(polled.refused) - _REFUSED_SHOWN:,} more were refused")


def listed(rows: Sequence[Mapping[str, Any]], *, chosen: bool) -> None:
    """Show the sources, each with its health, its next reading and why it is so."""
    if not rows:
        told = "No source is so." if chosen else "There are no sources yet: `headwater add URL` adds one."
        console.print(told)
        return
    console.print(f"[bold]{'health':<9} {'items':>7} {'docs':>7}  {'next (UTC)':<11}  source[/]")
    for row in rows:
        console.print(
            f"{_health(row['health']):} {row['items']:>7,} {row['documents']:>7,}  "
            f"{_moment(row['next_poll_at']):<11}  {plain(row['name'])}"
        )
        console.print(_wrapped(row["why"], 10), style="dim")


def _health(health: str) -> str:
    return f"[{_COLOURS[health]}]{health.replace('_', ' '):<9}[/]"


def _moment(moment: datetime | None) -> str:
    return f"{moment:%m-%d %H:%M}" if moment else "-"


def _wrapped(text: str, margin: int) -> str:
    space = " " * margin
    return escape(textwrap.fill(visible(text), 80, initial_indent=space, subsequent_indent=space))


def shown(row: Mapping[str, Any]) -> None:
    """Show all that is known of a source."""
    console.print(f"[bold]{plain(row['name'])}[/], of kind {plain(row['kind'])}, since {row['created_at']:%Y-%m-%d}")
    console.print(f"\n{_health(row['health'])}")
    console.print(_wrapped(row["why"], 2))
    _settings("Settings", row["settings"])
    _settings("By default", row["defaults"])
    for one in row["methods"]:
        _pass(one)
    urls = ", ".join(f"{count:,} {status}" for status, count in row["urls"].items())
    console.print(f"\n[bold]Brought[/]  {row['items']:,} items, {row['documents']:,} documents; pages: {urls}")
    for item in row["last_items"]:
        published = f"{item['published_at']:%Y-%m-%d}{' (first seen)' if item['published_is_sighting'] else ''}"
        console.print(f"  {published}  {plain(item['title'] or '(no title)')}")
        console.print(f"              [dim]{plain(item['url'])}[/]")


def _settings(title: str, values: Mapping[str, Any]) -> None:
    if not values:
        return
    console.print(f"\n[bold]{title}[/]")
    for field, value in values.items():
        told = value if isinstance(value, str) else json.dumps(value)
        console.print(f"  {plain(field):<22} {plain(told)}")


def _pass(one: Mapping[str, Any]) -> None:
    console.print(f"\n[bold]Read by {one['method']}[/]  {_health(one['health'])}")
    console.print(_wrapped(one["why"], 2))
    if one["last_polled_at"]:
        times = (one["last_polled_at"], one["last_success_at"], one["last_new_at"])
        last, well, new = map(_moment, times)
        console.print(f"  last read {last}, last read well {well}, last had something new {new} (UTC)")
    if one["next_poll_at"]:
        console.print(_wrapped(f"next {_moment(one['next_poll_at'])} (UTC). {one['next_poll_why'] or ''}", 2))
    if one["backfill_since"]:
        console.print(f"  goes back to {one['backfill_since']:%Y-%m-%d} then")
    _problems(one["problems"])


def _problems(problems: Sequence[Mapping[str, str]]) -> None:
    for one in problems[:_PROBLEMS_SHOWN]:
        console.print(f"  could not read {plain(one['url'])}:")
        console.print(_wrapped(one["problem"], 4))
    if len(problems) > _PROBLEMS_SHOWN:
        console.print(f"  and {len(problems) - _PROBLEMS_SHOWN} more; --json lists them")


def removed(name: str, *, kept: bool, ended: int) -> None:
    """Show what became of a source that was removed."""
    what = "what it has brought is kept" if kept else "it had brought nothing"
    rest = f"; {ended:,} pages that were still to be fetched are not" if ended else ""
    console.print(f"Removed source {plain(name)}: {what}{rest}.")


def imported(added: Sequence[str], known: Sequence[str], refused: "Sequence[Refused]", *, dry_run: bool) -> None:
    """Show what became of a file's sources; what was refused goes to standard error."""
    for one in refused[:_REFUSED_SHOWN]:
        told = dict.fromkeys((one.where, one.given, one.why))  # what the file does not name is given as its place
        errors.print(f"refused {plain(': '.join(told))}")
    if len(refused) > _REFUSED_SHOWN:
        errors.print(f"and {len(refused) - _REFUSED_SHOWN:,} more; --json lists them all")
    would = "would be added" if dry_run else "added"
    console.print(f"{len(added):,} {would}, {len(known):,} known, {len(refused):,} refused.")


def left_out(names: Sequence[str]) -> None:
    """Say which sources are no feeds, and so not in an OPML file."""
    errors.print(f"Left out, since they have no feed: {plain(', '.join(names))}.")


def surroundings(url: str, feeds: Sequence[FeedLink], sitemaps: Sequence[str]) -> None:
    """Show which feeds and sitemaps there are."""
    for feed in feeds:
        console.print(f"feed     {plain(feed.url)}  [dim]{plain(feed.title)}[/]")
    for sitemap in sitemaps:
        console.print(f"sitemap  {plain(sitemap)}")
    if not feeds and not sitemaps:
        console.print(f"Neither a feed nor a sitemap was found at {plain(url)}.")


def stage(name: str, found: Sequence[str], error: str | None, seconds: float) -> None:
    """Show what one stage of a trial has found, and how long it took."""
    mark = "[red]FAIL[/]" if error else "[green]ok  [/]"
    head = f"{mark} {name:<{_STAGE_WIDTH}} [dim]{seconds:>6.2f} s[/]  "
    for line in [*found, *([error] if error else [])]:
        console.print(head + plain(line))
        head = " " * (_STAGE_WIDTH + 16)


def budgets(rows: list[dict[str, Any]] | None) -> None:
    """Show what is left of the key's budgets, host by host; None: there is no key."""
    if rows is None:
        console.print("No api.data.gov key is set; sources that need one cannot be read without.")
        console.print("https://api.data.gov/signup/ gives one: set HEADWATER_API_DATA_GOV_KEY to it.")
    elif not rows:
        console.print("The api.data.gov key has not been used yet; each API host's budget shows here once it has been.")
    for row in rows or ():
        told = "as the host says" if row["limit_seen_at"] else "assumed, the host has not said"
        console.print(f"[bold]{plain(row['host'])}[/]  {row['hourly_limit']:,} requests an hour ({told})")
        grid = Table("source", "share", "spent", "left", "next free (UTC)", box=None, pad_edge=False)
        for part in row["sources"]:
            free = f"{part['next_free']:%H:%M:%S}" if part["next_free"] else "now"
            grid.add_row(plain(part["source"]), *(f"{part[name]:,}" for name in ("share", "spent", "left")), free)
        console.print(grid)
        reserve = [name for part in row["sources"] if part["source"] == "reserve" for name in part["drawn_by"]]
        if reserve:
            drawn = visible(f"The reserve is drawn on by {', '.join(reserve)}.")
            console.print(escape(textwrap.fill(drawn, console.width, break_on_hyphens=False)))
