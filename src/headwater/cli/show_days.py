"""The text output of days: the items of each source, with its counts and whether its day is complete."""

from collections import Counter
from datetime import date
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from headwater.cli.show import console, plain, print_cut, wrap
from headwater.core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.documents.days import DayItem, DayView, SourceDay
    from headwater.stories.operations import DocumentStory

_MARGIN = " " * 15
STATES = {
    "complete": "[green]complete[/]",
    "reconstructed": "[yellow]reconstructed[/] long after its end: items that were updated again since are missing",
    "so_far": "[yellow]so far[/]: read before its end",
    "running": "[yellow]being read[/] now",
    "failed": "[red]not complete[/]: it could not be read to its end",
    "not_read": "[yellow]not read[/]",
}


def print_day(view: "DayView", stories: "Sequence[DocumentStory]" = (), *, is_filtered: bool = False) -> None:
    """Show a day: whether it is complete, and its items by source. A story is shown once."""
    from headwater.stories.operations import fold_lines

    if not view.items:
        nothing = "No items of the day match. Try fewer filters." if is_filtered else "Nothing new and nothing updated."
        console.print(f"[bold]{view.day}[/]: {nothing}")
    else:
        console.print(f"[bold]{view.day}[/]: {_count(view.items)}")
    for source in view.sources:
        _print_state(source)
    for source in view.behind:
        console.print(f"  [bold red]Behind[/]: {source.day} should be there by now.")
        _print_state(source)
    zones = {source.source: source.timezone for source in view.sources}
    lines = fold_lines(view.items, lambda item: item.document_id, stories)
    for name in dict.fromkeys(item.source for item in view.items):
        zone = zones.get(name, view.timezone)
        items = [item for item in view.items if item.source == name]
        console.print(f"\n[bold]{plain(name)}[/]: {_count(items)}, times of {zone}")
        for item, story, folded in lines:
            if item.source == name:
                _print_item(item, ZoneInfo(zone))
                if story:
                    print_story_hint(story, [one.document_id for one in folded], _MARGIN)


def print_titles(day: date, items: "Sequence[DayItem]") -> None:
    """Show the titles of a day, cut to the width."""
    console.print(f"[bold]{day}[/]: {_count(items)}")
    for source in dict.fromkeys(item.source for item in items):
        console.print(f"\n[bold]{plain(source)}[/]")
        for item in items:
            if item.source == source:
                print_cut(f"  {item.bucket:<6} {plain(item.title or '(no title)')}")


def print_story_hint(story: "DocumentStory", folded: "Sequence[int | None]", margin: str = "  ") -> None:
    """Show how many other documents a story has, and which lines of this list it replaces."""
    number = "1 other document" if story.documents == 2 else f"{story.documents - 1} other documents"
    here = f", here {', '.join(map(str, folded))}" if folded else ""
    console.print(f"{margin}[dim]{number} about this story{here}: headwater story show {story.story_id}[/]")


def _count(items: "Sequence[DayItem]") -> str:
    counts = Counter(item.bucket for item in items)
    return f"{counts['NEW']:,} NEW, {counts['LATEST']:,} LATEST"


def _print_item(item: "DayItem", zone: ZoneInfo) -> None:
    moment = item.updated_at if item.bucket == "LATEST" else item.published_at
    clock = f"{moment.astimezone(zone):%H:%M}" if moment else "  -  "
    sighting = " [dim](first seen)[/]" if item.published_is_sighting and item.bucket == "NEW" else ""
    console.print(f"  {item.bucket:<6} {clock} {plain(item.title or '(no title)')}{sighting}")
    parts = [", ".join(map(str, item.tags.get("organisations") or ())), str(item.tags.get("document_type") or "")]
    if about := "; ".join(filter(None, parts)):
        console.print(f"{_MARGIN}[dim]{plain(about)}[/]")
    document = f"document {item.document_id}" if item.document_id else "no document yet"
    console.print(f"{_MARGIN}[dim]{document}  {plain(item.url)}[/]")


def _print_state(source: "SourceDay") -> None:
    read = f", read {source.read_at:%Y-%m-%d %H:%M} UTC" if source.read_at else ""
    console.print(f"  {plain(source.source)}: {STATES[source.state]}{read}")
    if source.reason:
        why = source.error or Reason.of(source.reason).sentence
        console.print(wrap(f"its last run ({source.run_id}) failed, {source.reason}: {why}", " " * 4))
    elif source.error:
        console.print(wrap(source.error, " " * 4))
