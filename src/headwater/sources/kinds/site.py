"""Sites: what they publish is learned from their feed, their sitemaps, or by walking through their pages."""

import re
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Literal
from urllib.parse import urlsplit

from headwater.core.errors import InvalidURL
from headwater.core.source import DiscoveredUrl, Item, Method
from headwater.core.urls import join_url, normalize_url
from headwater.sources.kind import Kind
from headwater.sources.kinds.site_feed import read_feed
from headwater.sources.kinds.site_sitemaps import Sitemaps
from headwater.sources.kinds.site_spider import Spider
from headwater.sources.run import Run

IngestionMode = Literal["feed", "spider", "both"]
SITEMAP_HOURS = 6
_MOST_PATTERNS = 20
_LONGEST_PATTERN = 200
# A repetition of a repetition, such as (a+)+, takes for ever on an address that almost matches.
_REPEATED_REPETITION = re.compile(r"[+*}]\??\)[+*{]")
_RANGES = (
    ("sitemap_hours", 0.25, 720),
    ("spider_hours", 0.25, 720),
    ("spider_depth", 0, 10),
    ("spider_pages", 1, 10_000),
)


class SiteKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site, read by its feed, its sitemaps, its pages, or several of them; one of the three addresses is needed."""

    site_url: str | None = None  # its home page
    feed_url: str | None = None  # None: looked for, starting at its home page
    sitemap_url: str | None = None  # None: looked for, in robots.txt and at the common addresses
    ingestion_mode: IngestionMode = "feed"  # "feed" is its sitemaps too
    sitemap_hours: float | None = None  # None: 6 where `sitemap_url` is given, else only when the feed was too short
    spider_hours: float = 24.0
    spider_depth: int = 2  # how many links away from the home page pages are looked through
    spider_pages: int = 200  # at most looked through in one go
    article_patterns: tuple[str, ...] = ()  # regular expressions; none: what looks like an article
    category: str | None = None

    @property
    def home(self) -> str:
        """Where the site begins: its home page, or the root of the host of whatever is known of it."""
        return self.site_url or join_url("/", self.feed_url or self.sitemap_url or "")

    def check(self) -> None:
        """Refuse settings that cannot work, with a ValueError that names the field."""
        super().check()
        if not (self.site_url or self.feed_url or self.sitemap_url):
            raise ValueError("feed_url: missing; a site needs this, or site_url, or sitemap_url")
        for name in ("site_url", "feed_url", "sitemap_url"):
            _check_url(name, getattr(self, name))
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ValueError(f"{name}: must be from {low:g} to {high:g}")
        _check_patterns(self.article_patterns)
        if self.schedule and Method.FEED not in self.methods(timedelta(0)):
            raise ValueError("schedule: is when the feed is read, and this site is read without one")

    def methods(self, interval: timedelta) -> Mapping[Method, timedelta | None]:
        """Return the passes that its mode asks for; its sitemaps are read by themselves only where they are set."""
        methods: dict[Method, timedelta | None] = {}
        if self.ingestion_mode != "spider":
            if self.feed_url or self.site_url:
                methods.update(super().methods(interval))
            hours = self.sitemap_hours or (SITEMAP_HOURS if self.sitemap_url else None)
            methods[Method.SITEMAP] = timedelta(hours=hours) if hours else None
        if self.ingestion_mode != "feed":
            methods[Method.SPIDER] = timedelta(hours=self.spider_hours)
        return methods

    def discover(self, run: Run) -> AsyncIterator[Item | DiscoveredUrl]:
        """Yield what the pass finds."""
        match run.method:
            case Method.FEED:
                return read_feed(run, self.feed_url, self.site_url)
            case Method.SITEMAP:
                return self._sitemaps(run).read()
            case Method.SPIDER:
                return Spider(
                    run,
                    self.home,
                    self.article_patterns,
                    depth=self.spider_depth,
                    pages=self.spider_pages,
                    deadline=timedelta(seconds=self.deadline),
                ).walk()

    def _sitemaps(self, run: Run) -> Sitemaps:
        # A pass that nobody set is to bring what the feed was too short for, so nothing beside it.
        is_set = self.sitemap_url or self.sitemap_hours
        path = "/" if is_set or not self.site_url else urlsplit(self.site_url).path.rstrip("/") + "/"
        return Sitemaps(run, self.home, self.sitemap_url, path=path, deadline=timedelta(seconds=self.deadline))


def _check_url(name: str, url: str | None) -> None:
    if url is not None:
        try:
            normalize_url(url)
        except InvalidURL as error:
            raise ValueError(f"{name}: {error}") from None


def _check_patterns(patterns: tuple[str, ...]) -> None:
    if len(patterns) > _MOST_PATTERNS:
        raise ValueError(f"article_patterns: must be {_MOST_PATTERNS} at most")
    for pattern in patterns:
        if not 0 < len(pattern) <= _LONGEST_PATTERN:
            raise ValueError(f"article_patterns: each must have from 1 to {_LONGEST_PATTERN} characters")
        if _REPEATED_REPETITION.search(pattern):
            raise ValueError(f"article_patterns: {pattern!r} repeats a repetition, which can take for ever")
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"article_patterns: {pattern!r} is no regular expression ({error})") from None
