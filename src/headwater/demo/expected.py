"""What a right and polite visitor ends up with, read from the same table the demo web is made of."""

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
from headwater.demo.plan import NO_BROWSER, Piece, Site
from headwater.demo.web import DemoWeb

_LOST = {Reason.WORKER_LOST}


@dataclass(frozen=True, slots=True)
class ExpectedFeed:
    """Of one feed: its address, its entries, and how many of them are NEW and LATEST on the web's day.

    Every entry counts, whatever becomes of its page, but for the undated ones: they are NEW on the day of first sight.
    """

    url: str
    items: int
    new: int
    latest: int


@dataclass(frozen=True, slots=True)
class Expected:
    """How each normalized address may end, what each host's feed gives, and how many texts and documents result.

    Two reasons for an address mean that the course of events decides which: of two pages with the same text the first
    is `stored` and the second `linked`.
    """

    outcomes: Mapping[str, frozenset[Reason]]
    titles: Mapping[str, str]  # of the pages that become documents
    canonicals: Mapping[str, str]  # of the pages that are another form of one, and which that is
    feeds: Mapping[str, ExpectedFeed]
    sites: Mapping[str, Mapping[str, Any]]  # hosts that are read without a feed, each with what its source is told
    walled: Mapping[str, tuple[str, ...]]  # the pages of hosts that let only a browser in
    today: date  # the web's
    today_links: Mapping[str, str]  # what each page of the other sources is to it, NEW or LATEST
    day: date  # that GOV.UK is read for
    day_links: Mapping[str, str]  # what each page is to that day, NEW or LATEST
    documents: int
    texts: int


def expected_outcomes(web: DemoWeb, *, has_browser: bool = True, goes_on: bool = True) -> Expected:
    """Tell what following all feeds of the web must lead to.

    Without a browser, some pages wait for one. A run that goes on where another was may find what that one lost.
    """
    pieces = {
        site.url(piece): piece if has_browser or not site.walled else replace(piece, ends=NO_BROWSER)
        for site in web.sites
        for piece in site.pieces
        if piece.link is None and piece.ends
    }
    yesterday = web.today - timedelta(days=1)
    told = [piece for piece in pieces.values() if Reason.STORED in piece.ends]
    return Expected(
        outcomes={url: piece.ends if goes_on else piece.ends - _LOST for url, piece in pieces.items()},
        titles={url: piece.title or piece.headline for url, piece in pieces.items() if Reason.STORED in piece.ends},
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
        day_links=_govuk_day(web, yesterday),
        documents=len(told),
        texts=len({(piece.headline, piece.topic, piece.language) for piece in told}),
    )


def expected_feeds(web: DemoWeb) -> dict[str, ExpectedFeed]:
    """Tell what each host's feed must give."""
    return {site.host: feed for site in web.sites if (feed := _feed(site)) is not None}


def _links_of_today(web: DemoWeb) -> dict[str, str]:
    """Tell what sitemaps and federal sources must give for the web's day; what only pages lead to has no date."""
    federal = FEDERAL if has_federal(web) else ()
    return {
        site.url(piece): "NEW" if _is_new(piece) else "LATEST"
        for site in web.sites
        if site.read_by is Method.SITEMAP or site in federal
        for piece in site.listed
        if _is_new(piece) or _is_latest(piece)
    }


def _govuk_day(web: DemoWeb, day: date) -> dict[str, str]:
    if GOVUK not in web.sites:
        return {}
    return {urljoin(GOVUK.home, link): label for link, label in expected_day(day, today=web.today).items()}


def _feed(site: Site) -> ExpectedFeed | None:
    if site.feed_url is None:
        return None
    new = sum(map(_is_new, site.listed))
    return ExpectedFeed(site.feed_url, items=len(site.listed), new=new, latest=sum(map(_is_latest, site.listed)))


def _is_new(piece: Piece) -> bool:
    return piece.days_ago == 0


def _is_latest(piece: Piece) -> bool:
    return piece.updated_days_ago == 0 and not _is_new(piece)
