"""The spider pass of a site: its pages are looked through for addresses, breadth first, and not kept (spec 3.5).

It stays on the host of the home page, with or without "www.": another host of the same domain is often another thing (a
shop, somebody's blog), has a robots.txt and a pace of its own, and is a source of its own if it is wanted. What is
found there is handed on like any page of others.
"""

from collections import deque
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from typing import NamedTuple

from headwater.core.errors import HeadwaterError, InvalidURL, NotNow, Unreadable
from headwater.core.reasons import Reason
from headwater.core.source import DiscoveredUrl
from headwater.core.urls import host_of, normalize_url
from headwater.feeds.links import ClassifiedLinks, site_name
from headwater.sources.run import MAX_FAILURES, Page, Problems, Run

_MOST_LEADS = 20_000
_MOST_EXTERNAL = 1_000
_MOST_WAITING = 10_000  # pages to be looked through
_SHARE_OF_DEADLINE = 0.8  # after which a pass ends by itself


class _Stop(NamedTuple):
    """A page to look through, and how many links it is away from the home page."""

    url: str
    depth: int


class Spider:
    """One walk through a site."""

    def __init__(
        self, run: Run, home: str, patterns: Iterable[str], *, depth: int, pages: int, deadline: timedelta
    ) -> None:
        self._run = run
        self._home = home
        self._hosts = [host_of(home)]
        self._patterns = list(patterns)
        self._depth = depth
        self._pages = pages
        self._end_at = run.now + deadline * _SHARE_OF_DEADLINE
        self._latest = run.now  # as far as is known from answers
        self._seen: set[str] = set()  # every address, in its one spelling, whatever it was taken for
        self._leads = self._external = 0
        self._problems = Problems()

    async def walk(self) -> AsyncIterator[DiscoveredUrl]:
        """Yield what looks like an article, and what leads away; raise where the home page cannot be had."""
        self._seen.add(normalize_url(self._home))
        links = await self._look(await self._run.http.get(self._home), at_home=True)
        stops: deque[_Stop] = deque()
        for lead in self._sort(links, 0, stops):
            yield lead
        looked_through, failures = 1, 0
        while stops and looked_through < self._pages and failures < MAX_FAILURES and self._latest < self._end_at:
            stop = stops.popleft()
            looked_through += 1
            try:
                links = await self._look(await self._run.http.get(stop.url))
            except HeadwaterError as error:
                self._problems.add(stop.url, error)
                if isinstance(error, NotNow) or error.reason is Reason.RATE_LIMITED:
                    break  # what was found is worth keeping, and the site wants to be left alone
                failures += error.retryable
                continue
            failures = 0
            for lead in self._sort(links, stop.depth, stops):
                yield lead
        self._run.state["pages"] = looked_through
        self._problems.save(self._run.state)

    async def _look(self, page: Page, *, at_home: bool = False) -> ClassifiedLinks:
        response = page.response
        self._latest = response.sent_at
        self._seen.add(normalize_url(response.url))
        if at_home and page.hops:
            self._hosts.append(host_of(response.url))  # where a site's own home page leads is the site
        elif site_name(host_of(response.url)) not in map(site_name, self._hosts):
            raise Unreadable("The page leads to another site.", reason=Reason.REDIRECT, url=response.url)
        if "nofollow" in response.headers.get("x-robots-tag", "").lower():
            return ClassifiedLinks()
        return await page.links(self._hosts, self._patterns)

    def _sort(self, links: ClassifiedLinks, depth: int, stops: "deque[_Stop]") -> Iterable[DiscoveredUrl]:
        """Yield the leads of a page; pages that are near enough to be looked through join those that wait."""
        for url in links.articles:
            if self._leads < _MOST_LEADS and self._is_new(url):
                self._leads += 1
                yield DiscoveredUrl(url, depth=depth)
        for url in links.external:
            if self._external < _MOST_EXTERNAL and self._is_new(url):
                self._external += 1
                yield DiscoveredUrl(url, depth=depth + 1)
        if depth < self._depth:
            for url in links.navigation:
                if len(stops) < _MOST_WAITING and self._is_new(url):
                    stops.append(_Stop(url, depth + 1))

    def _is_new(self, url: str) -> bool:
        """Tell whether an address is met for the first time in this walk."""
        try:
            spelling = normalize_url(url)
        except InvalidURL:
            return False
        if spelling in self._seen:
            return False
        self._seen.add(spelling)
        return True
