"""The nouns of the table in `sites`: a site, its pieces, its feed."""

import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import date
from typing import Any

from headwater.core.reasons import Reason
from headwater.core.source import Method
from headwater.demo.answers import HTML, Answer, Maker, whole
from headwater.demo.content import Story, write_story
from headwater.demo.feeds import Stamp, gmt
from headwater.demo.pages import Form, article_page, slug

STORED = frozenset({Reason.STORED})
STORED_OR_LINKED = frozenset({Reason.STORED, Reason.LINKED})  # linked is whichever of two pages comes second
NO_IDENTITY: frozenset[Reason] = frozenset()  # reached only by a redirect that leads nowhere
_CRAWL_DELAY = re.compile(r"^crawl-delay:\s*([\d.]+)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Piece:
    """An address of a site and the line the site's feed has about it.

    With `link` it is a line only: the page is at that other address, whose own piece tells how it ends.
    """

    headline: str
    topic: str
    days_ago: int | None  # None: no date anywhere
    _: KW_ONLY
    updated_days_ago: int | None = None
    language: str = "en"
    stamp: Stamp = gmt
    path: str | None = None  # None: made from the headline
    link: str | None = None
    listed: bool = True
    form: Form = article_page
    title: str | None = None  # of the page, where it is not the headline
    content_type: str = HTML
    canonical: str | None = None  # the path of the page that this one is another form of
    answer: Maker | None = whole  # None: nothing is at the address
    ends: frozenset[Reason] = STORED

    def story(self, seed: int) -> Story:
        """Return what it tells on a web with that seed."""
        return write_story(self.headline, topic=self.topic, language=self.language, seed=seed)


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """Where a site's feed is, how it is written and how it answers."""

    path: str
    write: Callable[..., str]
    content_type: str
    answer: Maker = whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A host and all that is on it. `robots` None: there is no robots.txt, so it answers like all that is missing."""

    host: str
    title: str
    look: str = "wire"
    folder: str = "/news"
    utc_offset_hours: int = 0
    pieces: tuple[Piece, ...]
    feed: FeedPlan | None = None
    robots: str | None = None
    robots_answer: Maker = whole
    missing_status: int = 404
    sitemaps: bool = False
    sitemap_of_lists: bool = True
    api: Callable[[date, int], Answer] | None = None  # made for a day and a seed, it answers to all below /api/
    walled: bool = False  # only a browser gets past its wall, so a source that needs one has its pages
    read_by: Method = Method.FEED  # how it becomes known: by a feed, its own or another's, or as a source of its own

    @property
    def home(self) -> str:
        """The address of the front page."""
        return f"http://{self.host}/"

    @property
    def feed_url(self) -> str | None:
        """The address of the feed."""
        return None if self.feed is None else f"http://{self.host}{self.feed.path}"

    @property
    def settings(self) -> dict[str, Any] | None:
        """What a source without a feed that reads it is told; None: there is none."""
        match self.read_by:
            case Method.SITEMAP:
                return {"sitemap_url": f"{self.home}sitemap_index.xml"}
            case Method.SPIDER:
                patterns = [f"^{re.escape(self.home)}{self.folder[1:]}/"]
                return {"site_url": self.home, "ingestion_mode": "spider", "article_patterns": patterns}
        return None

    @property
    def crawl_delay(self) -> float | None:
        """The seconds its robots.txt asks for between two requests."""
        wish = _CRAWL_DELAY.search(self.robots or "")
        return float(wish[1]) if wish else None

    @property
    def listed(self) -> tuple[Piece, ...]:
        """The pieces that feeds have lines about."""
        return tuple(piece for piece in self.pieces if piece.listed)

    def path(self, piece: Piece) -> str:
        """Return where on this host the piece is."""
        return piece.path or f"{self.folder}/{slug(piece.headline)}"

    def url(self, piece: Piece) -> str:
        """Return the address the feed gives for the piece."""
        return piece.link or f"http://{self.host}{self.path(piece)}"
