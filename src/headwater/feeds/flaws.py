"""The flaws of feeds that can be read: they may hide entries or dates (issue 20)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

from headwater.feeds.results import Feed


class FeedFlaw(StrEnum):
    """A flaw of a feed, and the sentence that describes it."""

    sentence: str

    def __new__(cls, code: str, sentence: str) -> Self:  # noqa: D102
        member = str.__new__(cls, code)
        member._value_ = code
        member.sentence = sentence
        return member

    TRUNCATED = "truncated", "The feed is cut off before its end, so entries may be missing."
    MALFORMED = "malformed", "The feed is malformed and was repaired, so entries may be missing."
    EMPTY = "empty", "The feed has no entries."
    EMPTIED = "emptied", "The feed has no entries any more; it had some at earlier polls."
    UNDATED = "undated", "The entries of the feed have no dates any more; earlier entries had some."


def find_flaws(feed: Feed, state: Mapping[str, Any]) -> list[FeedFlaw]:
    """Return the flaws of a feed. `state` is what `remember_feed` returned after earlier polls."""
    flaws = [FeedFlaw.TRUNCATED] if feed.is_truncated else [FeedFlaw.MALFORMED] if feed.is_malformed else []
    if not feed.entries:
        flaws.append(FeedFlaw.EMPTIED if state.get("had_entries") else FeedFlaw.EMPTY)
    elif state.get("had_dates") and not _count_dated(feed):
        flaws.append(FeedFlaw.UNDATED)
    return flaws


def remember_feed(feed: Feed, state: Mapping[str, Any]) -> dict[str, bool]:
    """Return what later polls compare a feed with: whether any had entries, and dates in most of its entries."""
    has_dates = _count_dated(feed) > len(feed.entries) / 2
    return {
        "had_entries": bool(feed.entries or state.get("had_entries")),
        "had_dates": bool(has_dates or state.get("had_dates")),
    }


def read_flaws(stored: Any) -> list[FeedFlaw]:
    """Return the flaws in a stored state. A kind may keep something else under that name."""
    return [flaw for flaw in FeedFlaw if isinstance(stored, list) and flaw in stored]


def _count_dated(feed: Feed) -> int:
    return sum(bool(entry.published_at or entry.updated_at) for entry in feed.entries)
