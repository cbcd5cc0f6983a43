"""The spider method of a site: it follows the links of pages, breadth first, and does not save the pages (spec 3.5).

It stays on the host of the home page, with or without "www.". Another host of the same domain is often something else,
such as a shop, and can be a source itself. Links to other hosts are submitted like any other page.
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

_MAX_ARTICLES = 20_000
_MAX_EXTERNAL = 1_000
_MAX_QUEUED = 10_000  # pages to follow
_SHARE_OF_DEADLINE = 0.8  # after which a run ends by itself


class _QueuedPage(NamedTuple):
    """A page to follow, and the number of links between it and the home page."""

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
        self._latest = run.now  # the time of the last answer
        self._seen: set[str] = set()  # all normalized URLs so far
        self._articles = self._external = 0
        self._problems = Problems()

    async def walk(self) -> AsyncIterator[DiscoveredUrl]:
        """Yield articles and links to other hosts. Raise the error of the home page if it cannot be read."""
        self._seen.add(normalize_url(self._home))
        links = await self._read_links(await self._run.http.get(self._home), at_home=True)
        if not (links.articles or links.navigation or links.external):
            self._problems.add(self._home, Unreadable("The start page has no links, so the spider finds no pages."))
        queue: deque[_QueuedPage] = deque()
        for found in self._sort_links(links, _QueuedPage(normalize_url(self._home), 0), queue):
            yield found
        followed, failures = 1, 0
        while queue and followed < self._pages and failures < MAX_FAILURES and self._latest < self._end_at:
            page = queue.popleft()
            followed += 1
            try:
                links = await self._read_links(await self._run.http.get(page.url))
            except HeadwaterError as error:
                self._problems.add(page.url, error)
                if isinstance(error, NotNow) or error.reason is Reason.RATE_LIMITED:
                    break  # the site asks for no more requests; the results so far are good
                failures += error.retryable
                continue
            failures = 0
            for found in self._sort_links(links, page, queue):
                yield found
        self._run.state["pages"] = followed
        self._problems.save(self._run.state)

    async def _read_links(self, page: Page, *, at_home: bool = False) -> ClassifiedLinks:
        response = page.response
        self._latest = response.sent_at
        self._seen.add(normalize_url(response.url))
        if at_home and page.hops:
            self._hosts.append(host_of(response.url))  # the site's own home page redirects to it
        elif site_name(host_of(response.url)) not in map(site_name, self._hosts):
            raise Unreadable("The page leads to another site.", reason=Reason.REDIRECT, url=response.url)
        if "nofollow" in response.headers.get("x-robots-tag", "").lower():
            return ClassifiedLinks()
        return await page.links(self._hosts, self._patterns)

    def _sort_links(
        self, links: ClassifiedLinks, page: _QueuedPage, queue: "deque[_QueuedPage]"
    ) -> Iterable[DiscoveredUrl]:
        for url in links.articles:
            if self._articles < _MAX_ARTICLES and self._is_new(url):
                self._articles += 1
                yield DiscoveredUrl(url, depth=page.depth, found_on=page.url)
        for url in links.external:
            if self._external < _MAX_EXTERNAL and self._is_new(url):
                self._external += 1
                yield DiscoveredUrl(url, depth=page.depth + 1, found_on=page.url)
        if page.depth < self._depth:
            for url in links.navigation:
                if len(queue) < _MAX_QUEUED and self._is_new(url):
                    queue.append(_QueuedPage(url, page.depth + 1))

    def _is_new(self, url: str) -> bool:
        try:
            normalized = normalize_url(url)
        except InvalidURL:
            return False
        if normalized in self._seen:
            return False
        self._seen.add(normalized)
        return True
