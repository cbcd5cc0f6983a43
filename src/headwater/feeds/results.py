"""The results of the feed and sitemap readers. This module imports no parser, so that it loads quickly."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class FeedEntry(NamedTuple):
    """One entry of a feed. Links are absolute. Dates are in UTC, or None if they cannot be read."""

    url: str | None  # None: the entry names no page
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
    """A feed of any format: RSS, RDF, Atom or JSON Feed."""

    title: str
    link: str | None = None
    """The page that the feed belongs to."""
    language: str | None = None
    """The plain code of its language, such as `de`."""
    region: str | None = None
    """The region that it names with its language, such as `DE`."""
    published_at: datetime | None = None
    updated_at: datetime | None = None
    entries: tuple[FeedEntry, ...] = ()
    ttl_seconds: int | None = None
    """How long the publisher asks pollers to wait."""
    hub: str | None = None
    """The WebSub hub."""
    is_malformed: bool = False
    """It was repaired, so entries may be missing."""
    is_truncated: bool = False
    """It is malformed because its end is missing."""


@dataclass(frozen=True, slots=True)
class SitemapEntry:
    """A page that a sitemap lists. Only news sitemaps and feeds give `title` and `published_at`."""

    url: str
    lastmod: datetime | None = None
    title: str = ""
    published_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SitemapRef:
    """Another sitemap that a sitemap index lists."""

    url: str
    lastmod: datetime | None = None


@dataclass(frozen=True, slots=True)
class FeedLink:
    """A feed that a page names as its own."""

    url: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link to another page. `nofollow` is true if the page or every link to that address says so."""

    url: str
    nofollow: bool = False


@dataclass(frozen=True, slots=True)
class OpmlFeed:
    """A feed in an OPML file. `url` is as written. `category` is the path of its folders ("a/b"), or empty."""

    url: str
    title: str = ""
    site_url: str | None = None
    category: str = ""
