"""What a sitemap lists: pages, or further sitemaps."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SitemapEntry:
    """A page; `title` and `published_at` are what sitemaps for news, and feeds, say of it."""

    url: str
    lastmod: datetime | None = None
    title: str = ""
    published_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SitemapRef:
    """Another sitemap."""

    url: str
    lastmod: datetime | None = None
