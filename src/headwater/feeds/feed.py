"""A feed as it was read: RSS, RDF, Atom and JSON Feed look the same from here on."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class FeedEntry(NamedTuple):
    """One entry. Links are absolute, dates are UTC or None: a date that cannot be read is not guessed."""

    url: str | None  # None: it names no page
    title: str = ""
    published_at: datetime | None = None
    updated_at: datetime | None = None
    summary: str = ""
    guid: str | None = None
    author: str | None = None
    tags: tuple[str, ...] = ()
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Feed:
    """A whole feed; `ttl_seconds` and `hub` are what the publisher asks of pollers."""

    title: str
    entries: tuple[FeedEntry, ...]
    link: str | None = None
    language: str | None = None
    published_at: datetime | None = None
    updated_at: datetime | None = None
    ttl_seconds: int | None = None
    hub: str | None = None
