"""The classes of the table in `sites.py`: a site, its pieces and its feed; and the ends that a piece can have."""

import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import date
from typing import Any

from headwater.core.json_values import JsonObject
from headwater.core.reasons import Reason
from headwater.core.source import Method
from headwater.demo.answers import HTML, Answer, Maker, whole
from headwater.demo.content import DemoStory, write_story
from headwater.demo.feeds import Stamp, gmt
from headwater.demo.pages import Form, article_page, slug

_CRAWL_DELAY = re.compile(r"^crawl-delay:\s*([\d.]+)", re.IGNORECASE | re.MULTILINE)


class Ends:
    """The reasons with which a piece may end or wait."""

    STORED = frozenset({Reason.STORED})
    STORED_OR_LINKED = frozenset({Reason.STORED, Reason.LINKED})  # the second of two equal pages is linked
    NONE: frozenset[Reason] = frozenset()  # only a redirect leads to the address, or no link at all
    REDIRECTED = frozenset({Reason.REDIRECT})
    SAME_PAGE = frozenset({Reason.SAME_PAGE})
    REDIRECT_LIMIT = frozenset({Reason.REDIRECT_LIMIT})
    NOT_FOUND = frozenset({Reason.NOT_FOUND})
    GONE = frozenset({Reason.GONE})
    REFUSED = frozenset({Reason.HTTP_4XX})
    BLOCKED = frozenset({Reason.ROBOTS_BLOCKED})
    TOO_BIG = frozenset({Reason.BODY_TOO_LARGE})
    GIVEN_UP = frozenset({Reason.MAX_RETRIES, Reason.WORKER_LOST})  # the second if the last attempt was killed
    NO_BROWSER = frozenset({Reason.NO_BROWSER})  # the URL waits until there is a browser
    WAITS = frozenset({Reason.ROBOTS_UNREACHABLE})  # the URL waits until the host's robots.txt can be read


@dataclass(frozen=True, slots=True)
class Piece:
    """An address of a site, and the entry about it in the site's feed.

    With `link` it is only an entry: the page is at that other address and has a piece of its own.
    """

    headline: str
    topic: str
    days_ago: int | None  # None: it has no date
    _: KW_ONLY
    updated_days_ago: int | None = None
    language: str = "en"
    stamp: Stamp = gmt
    path: str | None = None  # None: made from the headline
    link: str | None = None
    listed: bool = True
    form: Form = article_page
    title: str | None = None  # the title of the page, if it is not the headline
    content_type: str = HTML
    canonical: str | None = None  # the path of the page of which this one is a variant
    answer: Maker | None = whole  # None: the address is unknown
    ends: frozenset[Reason] = Ends.STORED

    @property
    def label(self) -> str | None:
        """NEW or LATEST, if it was published or updated on the day of the web."""
        if self.days_ago == 0:
            return "NEW"
        return "LATEST" if self.updated_days_ago == 0 else None

    def story(self, seed: int) -> DemoStory:
        """Return its story on a web with that seed."""
        return write_story(self.headline, topic=self.topic, language=self.language, seed=seed)


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """The path, the format and the behaviour of a site's feed."""

    path: str
    write: Callable[..., str]
    content_type: str
    answer: Maker = whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A host and its content. With neither `robots` nor `robots_answer`, robots.txt is a missing page."""

    host: str
    title: str
    look: str = "wire"
    folder: str = "/news"
    utc_offset_hours: int = 0
    pieces: tuple[Piece, ...] = ()
    feed: FeedPlan | None = None
    robots: str | None = None
    robots_answer: Maker | None = None
    missing_status: int = 404
    sitemaps: bool = False
    sitemap_of_lists: bool = True
    api: Callable[[date, int], Answer] | None = None  # makes, for a day and a seed, the answer for all below /api/
    walled: bool = False  # only a browser can read its pages, so a source that needs one has them
    read_by: Method = Method.FEED  # FEED: a feed, its own or another's; otherwise the host is a source of its own

    @property
    def home(self) -> str:
        """The address of the front page."""
        return f"http://{self.host}/"

    @property
    def feed_url(self) -> str | None:
        """The address of the feed."""
        return None if self.feed is None else f"http://{self.host}{self.feed.path}"

    @property
    def settings(self) -> JsonObject | None:
        """The settings of the source that reads the site without a feed, or None."""
        match self.read_by:
            case Method.SITEMAP:
                return {"sitemap_url": f"{self.home}sitemap_index.xml"}
            case Method.SPIDER:
                patterns = [f"^{re.escape(self.home)}{self.folder[1:]}/"]
                return {"site_url": self.home, "ingestion_mode": "spider", "article_patterns": patterns}
        return None

    @property
    def crawl_delay(self) -> float | None:
        """The seconds between two requests for which its robots.txt asks."""
        found = _CRAWL_DELAY.search(self.robots or "")
        return float(found[1]) if found else None

    @property
    def listed(self) -> tuple[Piece, ...]:
        """The pieces of which feeds have entries."""
        return tuple(piece for piece in self.pieces if piece.listed)

    def path(self, piece: Piece) -> str:
        """Return the path of a piece on this host."""
        return piece.path or f"{self.folder}/{slug(piece.headline)}"

    def url(self, piece: Piece) -> str:
        """Return the address that the feed gives for a piece."""
        return piece.link or f"http://{self.host}{self.path(piece)}"


def make_site(name: str, title: str, *pieces: Piece, **details: Any) -> Site:
    """Make a site of the demo's domain. The details are fields of `Site`."""
    return Site(host=f"{name}.demo.test", title=title, pieces=pieces, **details)
