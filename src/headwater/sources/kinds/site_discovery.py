"""Find the feeds and sitemaps of a site (spec 3.3, 3.4)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain

from headwater.core.errors import HeadwaterError, NotNow, Unreadable
from headwater.core.urls import host_of, join_url
from headwater.feeds.results import FeedLink
from headwater.sources.run import Http, Page

FEED_PATHS = (
    *("/feed", "/rss", "/feed.xml", "/rss.xml", "/atom.xml", "/index.xml", "/feed.json"),
    *("/feed.atom", "/feeds/posts/default"),
)
SITEMAP_PATHS = ("/sitemap.xml", "/sitemap_index.xml", "/news-sitemap.xml")
LEAST_LISTED = 5  # entries of a page that is added as a list unasked; a page with a few links is none
_MOST_TRIED = 20
_COMMENTS = ("comment", "kommentar", "comentario", "commenti")


async def find_feeds(http: Http, url: str, *, most: int = 10) -> list[FeedLink]:
    """Return the feeds of the site at `url`, the likeliest first. Each one has been read.

    They are `url` itself, or the feeds that its page names, or else the first feed at a common path. Raises the error
    of the request for `url`, and NotNow if a host that may have a feed cannot be asked now.
    """
    page = await http.get(url)
    try:
        return [FeedLink(url, (await page.feed()).title)]
    except Unreadable:
        pass
    search = FeedSearch(http)
    await search.try_named(page, most)
    if not search.found:
        await search.try_common(page)
    if not search.found and search.waiting:
        raise search.waiting
    return search.found


async def find_sitemaps(http: Http, url: str, *, most: int = len(SITEMAP_PATHS)) -> list[str]:
    """Return the sitemaps that the robots.txt of the site at `url` names, or else up to `most` at common paths.

    Sitemaps at common paths have been read.
    """
    found = await named_sitemaps(http, url)
    for guess in () if found else guessed_sitemaps(url):
        if len(found) < most and await _has_sitemap(http, guess):
            found.append(guess)
    return found


async def is_sitemap(page: Page) -> bool:
    """Return whether a page is a sitemap. A truncated sitemap is one too."""
    response = page.response
    try:
        await page.sitemap(response.sent_at, [host_of(response.url)], "/")
    except HeadwaterError:
        return False
    return True


async def named_sitemaps(http: Http, url: str) -> list[str]:
    """Return the sitemaps that the robots.txt of a site names. Without a readable robots.txt there are none."""
    try:
        return await (await http.get(join_url("/robots.txt", url))).named_sitemaps()
    except NotNow:
        raise
    except HeadwaterError:
        return []


def guessed_sitemaps(url: str) -> list[str]:
    """Return the common addresses of sitemaps."""
    return [join_url(path, url) for path in SITEMAP_PATHS]


@dataclass(slots=True)
class FeedSearch:
    """The search for the feeds of a page, one address after the other."""

    http: Http
    found: list[FeedLink] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    unread: list[FeedLink] = field(default_factory=list)  # the page names them, and the search did not need them
    waiting: NotNow | None = None  # the first host that cannot be asked now

    async def try_named(self, page: Page, most: int) -> None:
        """Read the feeds that a page names until enough are found. Feeds of comments come last."""
        links = sorted(await page.feed_links(), key=_is_about_comments)
        await self._try_each(links[:_MOST_TRIED], most)
        self.unread = [link for link in links if link.url not in self.tried]

    async def try_common(self, page: Page, may_continue: Callable[[], bool] = lambda: True) -> None:
        """Read the common addresses of feeds until one is found, as long as `may_continue` returns true."""
        for guess in _guessed_feeds(page.response.url):
            if self.found or not may_continue():
                return
            await self._try_each([FeedLink(guess)], 1)

    async def _try_each(self, links: Iterable[FeedLink], most: int) -> None:
        """Read addresses until enough feeds are found. Skip an address that fails."""
        for link in links:
            if len(self.found) >= most:
                return
            try:
                feed = await (await self.http.get(link.url)).feed()
            except NotNow as error:
                self.waiting = self.waiting or error
                continue
            except HeadwaterError:
                pass
            else:
                self.found.append(FeedLink(link.url, link.title or feed.title))
            self.tried.append(link.url)


def _is_about_comments(link: FeedLink) -> bool:
    text = f"{link.url} {link.title}".lower()
    return any(word in text for word in _COMMENTS)


def _guessed_feeds(url: str) -> Iterable[str]:
    """Return the common addresses of feeds. Addresses below a page that is not the front page come first."""
    below = url.partition("?")[0].rstrip("/")
    own = [f"{below}{path}" for path in FEED_PATHS[:3]] if below.count("/") > 2 else []
    return chain(own, (join_url(path, url) for path in FEED_PATHS))


async def _has_sitemap(http: Http, url: str) -> bool:
    try:
        return await is_sitemap(await http.get(url))
    except NotNow:
        raise
    except HeadwaterError:
        return False
