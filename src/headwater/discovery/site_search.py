"""The search of `headwater add`: how the site at an address can be read (spec 3.1).

All requests of the search belong to one visit. The first poll of the source uses the answers of the same visit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from headwater.core.errors import NotNow, Unreadable
from headwater.core.reasons import Reason
from headwater.core.source import Method
from headwater.core.urls import host_of, normalize_url
from headwater.feeds.results import FeedLink
from headwater.sources.kinds.site_discovery import LEAST_LISTED, SITEMAP_PATHS, FeedSearch, find_sitemaps, is_sitemap
from headwater.sources.run import Page
from headwater.sources.visit import SiteVisit, VisitHttp

MOST_REQUESTS = 12
MOST_SECONDS = 55.0  # of requests; the rest of the minute is for the database
_FOR_SITEMAPS = 5  # requests that the search for feeds leaves over: three addresses, and two to read the pages

OnStep = Callable[[str], None]  # called with a sentence before each step


@dataclass(frozen=True, slots=True)
class FoundSite:
    """How a site can be read: the setting with the address to read, and the method of the first poll."""

    setting: str  # feed_url, sitemap_url, or site_url
    address: str
    method: Method = Method.FEED
    title: str = ""
    others: list[FeedLink] = field(default_factory=list)
    defaults: Mapping[str, Any] = field(default_factory=dict)  # other settings, which the user may override
    is_certain: bool = True  # False: the visit was over before the search was

    def make_settings(self, overrides: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings of the source."""
        return {**self.defaults, **overrides, self.setting: self.address}


def start_visit() -> SiteVisit:
    """Start a visit with the limits of `headwater add`."""
    return SiteVisit(MOST_REQUESTS, MOST_SECONDS)


async def search_site(http: VisitHttp, address: str, on_step: OnStep) -> FoundSite:
    """Find the feed or the sitemap at an address, or the feed, sitemap or list of entries that its page leads to.

    If the visit ends before the search, the result holds what is known so far, and the polls continue the search.
    Raises Unreadable if the site has none of them, and the error of the request if the address cannot be read.
    """
    on_step(f"Reading {address}")
    page = await http.get(address)
    try:
        return FoundSite("feed_url", address, title=(await page.feed()).title)
    except Unreadable as error:
        if error.reason is not Reason.NOT_A_FEED:
            raise
        why_not = str(error)
    if await is_sitemap(page):
        return FoundSite("sitemap_url", address, Method.SITEMAP)
    try:
        return await _search_from_page(http, address, page, why_not, on_step)
    except NotNow:
        return FoundSite("site_url", address, is_certain=False)


async def _search_from_page(http: VisitHttp, address: str, page: Page, why_not: str, on_step: OnStep) -> FoundSite:
    search = FeedSearch(http)
    on_step("It is a page. Reading the feed that it names")
    await search.try_named(page, 1)
    if not search.found and search.unread and search.waiting:
        return _describe_feed(address, search.unread, is_certain=False)
    if not search.found:
        on_step("It names no feed that works. Trying the usual addresses of feeds")
        await search.try_common(page, lambda: http.visit.requests_left > _FOR_SITEMAPS)
    if search.found:
        return _describe_feed(address, [*search.found, *search.unread])
    on_step("There is no feed. Looking for a sitemap")
    sitemaps = await find_sitemaps(http, address, most=1)
    if sitemaps:
        best, *others = sitemaps
        return FoundSite("sitemap_url", best, Method.SITEMAP, others=[FeedLink(url, "sitemap") for url in others])
    if search.waiting:
        raise search.waiting
    on_step("There is no sitemap. Reading the page as a list")
    if len((await page.entries()).entries) >= LEAST_LISTED:
        return make_list(address)
    tried = ", ".join(urlsplit(url).path for url in search.tried)
    raise Unreadable(
        f"{why_not} It names none that works; none is at {tried}, and there is no sitemap in "
        f"robots.txt or at {', '.join(SITEMAP_PATHS)}. The page lists no articles either. If another page "
        "of the site does, add that page with --mode list. To follow the links of all pages, use --mode spider.",
        reason=Reason.NOT_A_FEED,
        url=address,
    )


def make_list(address: str) -> FoundSite:
    """Return the page at an address as a list of entries."""
    return FoundSite("site_url", address, defaults={"ingestion_mode": "list"})


def _describe_feed(address: str, feeds: list[FeedLink], *, is_certain: bool = True) -> FoundSite:
    best, *others = feeds
    defaults = {"site_url": address}
    return FoundSite("feed_url", best.url, title=best.title, others=others, defaults=defaults, is_certain=is_certain)


async def count_links(http: VisitHttp, address: str, patterns: Sequence[str], on_step: OnStep) -> int:
    """Return how many links a spider would take from its start page. Raises the error of the request."""
    on_step(f"Reading {address}")
    page = await http.get(address)
    if "nofollow" in page.response.headers.get("x-robots-tag", "").lower():
        return 0
    links = await page.links([host_of(address), host_of(page.response.url)], patterns)
    own = {normalize_url(address), normalize_url(page.response.url)}
    return len({*links.articles, *links.navigation, *links.external} - own)
