"""Sites: a feed, sitemaps, a page that lists others, or pages that a spider follows. Feeds and lists are here."""

import contextlib
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Literal
from urllib.parse import urlsplit

from headwater.core.backoff import read_requested_delay
from headwater.core.errors import InvalidURL, Unreadable
from headwater.core.reasons import Reason
from headwater.core.redirect_history import RedirectHistory, update_redirect_history
from headwater.core.source import DiscoveredUrl, Intervals, Item, Method
from headwater.core.urls import join_url, normalize_url
from headwater.feeds.flaws import find_flaws, remember_feed
from headwater.feeds.results import FeedEntry
from headwater.sources.kind import Kind
from headwater.sources.kinds.records import check_url
from headwater.sources.kinds.site_discovery import FEED_PATHS, find_feeds
from headwater.sources.kinds.site_sitemaps import Sitemaps
from headwater.sources.kinds.site_spider import Spider
from headwater.sources.run import Page, Run, make_validators, save_validators, set_or_remove

IngestionMode = Literal["feed", "list", "spider", "both"]
_MOST_PATTERNS = 20
_LONGEST_PATTERN = 200
# A repetition of a repetition, such as (a+)+, takes extremely long on an address that almost matches.
_REPEATED_REPETITION = re.compile(r"[+*}]\??\)[+*{]")
_RANGES = (
    ("sitemap_hours", 0.25, 720),
    ("spider_hours", 0.25, 720),
    ("spider_depth", 0, 10),
    ("spider_pages", 1, 10_000),
)


class SiteKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site that is read by its feed, its sitemaps, a list or its pages. One of the three URLs is required."""

    site_url: str | None = None  # its home page, or the page that lists its pages
    feed_url: str | None = None  # None: found from the home page
    sitemap_url: str | None = None  # None: found in robots.txt or at common addresses
    ingestion_mode: IngestionMode = "feed"  # "feed" includes the sitemaps
    sitemap_hours: float | None = 6.0  # None: only after the feed has overflowed, or on request
    spider_hours: float = 24.0
    spider_depth: int = 2  # links between the home page and the pages that the spider follows
    spider_pages: int = 200  # pages that the spider follows in one run
    article_patterns: tuple[str, ...] = ()  # regular expressions; without any, a heuristic finds articles
    category: str | None = None

    @property
    def home(self) -> str:
        """The home page of the site, or the root of the host of its feed or sitemap."""
        return self.site_url or join_url("/", self.feed_url or self.sitemap_url or "")

    def check(self) -> None:
        """Refuse settings that cannot work, with a ValueError that names the field."""
        super().check()
        if not (self.site_url or self.feed_url or self.sitemap_url):
            raise ValueError("feed_url: missing; a site needs this, or site_url, or sitemap_url")
        for name in ("site_url", "feed_url", "sitemap_url"):
            check_url(name, getattr(self, name))
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ValueError(f"{name}: must be from {low:g} to {high:g}")
        _check_patterns(self.article_patterns)
        if self.ingestion_mode == "list" and not self.site_url:
            raise ValueError("site_url: missing; the mode list reads this page")
        if self.schedule and Method.FEED not in self.methods(timedelta(0)):
            raise ValueError("schedule: applies to the feed, and this site is read without one")

    def methods(self, interval: timedelta) -> Intervals:
        """Return the methods of its mode. The sitemaps are always among those of a feed."""
        if self.ingestion_mode == "list":
            return super().methods(interval)
        methods: dict[Method, timedelta | None] = {}
        if self.ingestion_mode != "spider":
            if self.feed_url or self.site_url:
                methods.update(super().methods(interval))
            methods[Method.SITEMAP] = timedelta(hours=self.sitemap_hours) if self.sitemap_hours else None
        if self.ingestion_mode != "feed":
            methods[Method.SPIDER] = timedelta(hours=self.spider_hours)
        return methods

    def discover(self, run: Run) -> AsyncIterator[Item | DiscoveredUrl]:
        """Yield the results of one method."""
        match run.method:
            case Method.FEED if self.ingestion_mode == "list":
                return read_page_list(run, self.home)
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
        # Sitemaps that are not given may list more than this source: they are limited to the folder of its home page.
        path = "/" if self.sitemap_url or not self.site_url else _folder_of(urlsplit(self.site_url).path)
        return Sitemaps(run, self.home, self.sitemap_url, path=path, deadline=timedelta(seconds=self.deadline))


async def read_feed(run: Run, feed_url: str | None, site_url: str | None) -> AsyncIterator[Item]:
    """Yield the entries of the feed. Yield nothing if the feed has not changed, unless the run is full.

    Without `feed_url`, find the feed of the site. Without `site_url`, learn it from the feed.
    """
    url, state = feed_url or await _find_feed(run, site_url or ""), run.state
    page = await run.http.get(url, headers={} if run.is_full else make_validators(state))
    if not page.not_modified:
        body_hash = page.body_hash
        if run.is_full or body_hash != state.get("body_hash"):
            feed = await page.feed()
            state["title"] = feed.title
            set_or_remove(state, "flaws", find_flaws(feed, state))
            state.update(remember_feed(feed, state))
            without_address = sum(not entry.url for entry in feed.entries)
            for name, value in (("ttl", feed.ttl_seconds), ("hub", feed.hub), ("without_address", without_address)):
                set_or_remove(state, name, value)
            if site_url is None and feed.link:
                with contextlib.suppress(InvalidURL):
                    run.learned["site_url"] = normalize_url(feed.link, keep_trailing_slash=True)
            for entry in feed.entries:
                if entry.url:
                    yield _make_item(entry, entry.url)
        save_validators(state, page.response, body_hash)
    run.requested_delay = read_requested_delay(page.response.headers, state.get("ttl"), run.now)
    if page.hops or "moved" in state:
        _update_redirect(run, url, page)


async def read_page_list(run: Run, url: str) -> AsyncIterator[Item]:
    """Yield the pages that a page lists. Yield nothing if the page has not changed, unless the run is full.

    Without a date, an item is as old as our first sight of it. Raises Unreadable if the page lists nothing.
    """
    state = run.state
    page = await run.http.get(url, headers={} if run.is_full else make_validators(state))
    if not page.not_modified:
        body_hash = page.body_hash
        if run.is_full or body_hash != state.get("body_hash"):
            found = await page.entries()
            if not found.entries:
                raise Unreadable("The page lists no entries.", reason=Reason.NO_LIST, url=url)
            state["title"] = found.title
            for entry in found.entries:
                yield Item(entry.url, entry.title, entry.published_at)
        save_validators(state, page.response, body_hash)
    run.requested_delay = read_requested_delay(page.response.headers, None, run.now)


async def _find_feed(run: Run, home: str) -> str:
    found = await find_feeds(run.http, home, most=1)
    if not found:
        raise Unreadable(
            f"No feed was found: {home} is none and names none, and none is at {', '.join(FEED_PATHS)}.",
            reason=Reason.NOT_A_FEED,
            url=home,
        )
    url = normalize_url(found[0].url, keep_trailing_slash=True)
    run.learned["feed_url"] = url
    return url


def _update_redirect(run: Run, url: str, page: Page) -> None:
    """Update the history of the feed's redirect, and learn its target once that is confirmed."""
    past = RedirectHistory.from_json(run.state.get("moved"))
    history = update_redirect_history(past, url=url, hops=page.hops, is_feed=True, now=run.now)
    if history and history.is_confirmed(run.now):
        run.learned["feed_url"] = normalize_url(history.target, keep_trailing_slash=True)
        history = None
    set_or_remove(run.state, "moved", history and history.to_json())


def _make_item(entry: FeedEntry, url: str) -> Item:
    raw = {"guid": entry.guid, "summary": entry.summary, "author": entry.author, "image": entry.image}
    return Item(
        url=url,
        title=entry.title,
        published_at=entry.published_at,
        updated_at=entry.updated_at,
        tags={"topic": sorted(set(entry.tags))} if entry.tags else {},
        raw={name: value for name, value in raw.items() if value},
    )


def _folder_of(path: str) -> str:
    """Return the folder of a home page: /news/ for /news and for /news/index.html."""
    folder, _, last = path.rpartition("/")
    return f"{folder}/" if "." in last or not last else f"{path}/"


def _check_patterns(patterns: tuple[str, ...]) -> None:
    if len(patterns) > _MOST_PATTERNS:
        raise ValueError(f"article_patterns: must be {_MOST_PATTERNS} at most")
    for pattern in patterns:
        if not 0 < len(pattern) <= _LONGEST_PATTERN:
            raise ValueError(f"article_patterns: each must have from 1 to {_LONGEST_PATTERN} characters")
        if _REPEATED_REPETITION.search(pattern):
            raise ValueError(f"article_patterns: {pattern!r} repeats a repetition, which can take extremely long")
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"article_patterns: {pattern!r} is no regular expression ({error})") from None
