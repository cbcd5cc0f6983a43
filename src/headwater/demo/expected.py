"""The result that a correct and polite run must have, from the same table as the demo web."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any
from urllib.parse import urljoin

from headwater.core.reasons import Reason
from headwater.core.source import Method
from headwater.demo.federal_run import has_federal
from headwater.demo.federal_sites import FEDERAL
from headwater.demo.govuk_site import GOVUK, expected_day
from headwater.demo.plan import Ends
from headwater.demo.progress import counted
from headwater.demo.web import DemoWeb


@dataclass(frozen=True, slots=True)
class ExpectedFeed:
    """A feed with the number of its entries, and of those that are NEW and LATEST on the web's day.

    Undated entries count only as `items`: they are NEW on the day on which they are first seen.
    """

    url: str
    items: int
    new: int
    latest: int

    def __str__(self) -> str:
        return f"{counted(self.items, 'item')}, {self.new} NEW, {self.latest} LATEST"


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected result. An address with several reasons may end with any of them.

    For example, of two pages with the same text the first is `stored` and the second `linked`.
    """

    outcomes: Mapping[str, frozenset[Reason]]  # by normalized address
    titles: Mapping[str, str]  # the titles of documents
    canonicals: Mapping[str, str]  # the canonical address of each variant of a page
    feeds: Mapping[str, ExpectedFeed]  # by host
    sites: Mapping[str, Mapping[str, Any]]  # the hosts that are read without a feed: the settings of their sources
    walled: Mapping[str, tuple[str, ...]]  # the pages of hosts that admit only a browser
    today: date
    today_links: Mapping[str, str]  # NEW or LATEST for the pages of sources without a feed
    day: date  # the day for which GOV.UK is read
    day_links: Mapping[str, str]  # NEW or LATEST for its pages
    documents: int
    texts: int


def expected_outcomes(web: DemoWeb, *, has_browser: bool = True, is_continued: bool = True) -> Expected:
    """Return the result of following all feeds and sources of the web.

    Without a browser, some pages wait for one. A run that continues an earlier one can find URLs that a killed worker
    lost.
    """
    pieces = {
        site.url(piece): piece if has_browser or not site.walled else replace(piece, ends=Ends.NO_BROWSER)
        for site in web.sites
        for piece in site.pieces
        if piece.link is None and piece.ends
    }
    yesterday = web.today - timedelta(days=1)
    day_links = expected_day(yesterday, today=web.today) if GOVUK in web.sites else {}
    stored = {url: piece for url, piece in pieces.items() if Reason.STORED in piece.ends}
    lost = set() if is_continued else {Reason.WORKER_LOST}
    return Expected(
        outcomes={url: piece.ends - lost for url, piece in pieces.items()},
        titles={url: piece.title or piece.headline for url, piece in stored.items()},
        canonicals={
            site.url(piece): urljoin(site.home, piece.canonical)
            for site in web.sites
            for piece in site.pieces
            if piece.canonical
        },
        feeds=expected_feeds(web),
        sites={site.host: site.settings for site in web.sites if site.settings is not None},
        walled={site.host: tuple(map(site.url, site.pieces)) for site in web.sites if site.walled},
        today=web.today,
        today_links=_links_of_today(web),
        day=yesterday,
        day_links={urljoin(GOVUK.home, link): label for link, label in day_links.items()},
        documents=len(stored),
        texts=len({(piece.headline, piece.topic, piece.language) for piece in stored.values()}),
    )


def expected_feeds(web: DemoWeb) -> dict[str, ExpectedFeed]:
    """Return the expected result of each host's feed."""
    return {
        site.host: ExpectedFeed(site.feed_url, len(site.listed), labels.count("NEW"), labels.count("LATEST"))
        for site in web.sites
        if site.feed_url is not None
        for labels in [[piece.label for piece in site.listed]]
    }


def _links_of_today(web: DemoWeb) -> dict[str, str]:
    """Return the labels of pages from sitemaps and federal sources. A page that only other pages link to has none."""
    federal = FEDERAL if has_federal(web) else ()
    return {
        site.url(piece): piece.label
        for site in web.sites
        if site.read_by is Method.SITEMAP or site in federal
        for piece in site.listed
        if piece.label
    }
