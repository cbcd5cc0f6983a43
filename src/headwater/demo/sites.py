"""The hosts of the demo web, as one table: a new host is a few lines here.

Headlines are written by hand, so addresses are the same whatever the seed and the day; two pieces with one headline,
topic and language have the same text, wherever they stand.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from headwater.demo.answers import Maker, conditional, redirect, whole
from headwater.demo.feeds import Stamp, atom, est, gmt, iso_offset, iso_z, plus_one, rss
from headwater.demo.pages import slug
from headwater.model.reasons import Reason

STORED = frozenset({Reason.STORED})
STORED_OR_LINKED = frozenset({Reason.STORED, Reason.LINKED})  # linked is whichever of two pages comes second
REDIRECTED = frozenset({Reason.REDIRECT})
NOT_FOUND = frozenset({Reason.NOT_FOUND})
ROBOTS_BLOCKED = frozenset({Reason.ROBOTS_BLOCKED})
NO_IDENTITY: frozenset[Reason] = frozenset()  # reached only by a redirect that is followed in place


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
    answer: Maker | None = whole  # None: nothing is at the address
    ends: frozenset[Reason] = STORED


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """Where a site's feed is, how it is written and how it answers."""

    path: str
    write: Callable[..., str]
    content_type: str
    answer: Maker = whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A host and all that is on it. `robots` None: there is no robots.txt."""

    host: str
    title: str
    look: str
    folder: str
    utc_offset_hours: int
    pieces: tuple[Piece, ...]
    feed: FeedPlan | None = None
    robots: str | None = None

    @property
    def home(self) -> str:
        """The address of the front page."""
        return f"http://{self.host}/"

    @property
    def feed_url(self) -> str | None:
        """The address of the feed."""
        return None if self.feed is None else f"http://{self.host}{self.feed.path}"

    @property
    def listed(self) -> tuple[Piece, ...]:
        """The pieces the feed has lines about."""
        return tuple(piece for piece in self.pieces if piece.listed)

    def path(self, piece: Piece) -> str:
        """Return where on this host the piece is."""
        return piece.path or f"{self.folder}/{slug(piece.headline)}"

    def url(self, piece: Piece) -> str:
        """Return the address the feed gives for the piece."""
        return piece.link or f"http://{self.host}{self.path(piece)}"


_RSS = "application/rss+xml; charset=utf-8"
_ATOM = "application/atom+xml; charset=utf-8"

_STORM = "Storm front leaves Hollin Hill without power for a night"
_ROADS = "Council finds two million for road repairs"
_ROADS_PATH = "/news/road-repairs"
_WEIR = "Weir gates at Millrace reopen after a year of repairs"
_WEIR_PATH = "/stories/weir-gates"
_MAPS = "Lost parish maps turn up in a library cellar"
_MAPS_PATH = "/copies/parish-maps"
_MINUTES = "Minutes of a closed meeting"
_MINUTES_PATH = "/private/minutes"
_TO_THE_MIRROR = redirect(302, f"http://mirror.demo.test{_MAPS_PATH}")
_TRACKING = "?utm_source=wire&utm_medium=rss&utm_campaign=desk"

GAZETTE = Site(
    host="gazette.demo.test",
    title="The Wendham Gazette",
    look="gazette",
    folder="/news",
    utc_offset_hours=0,
    feed=FeedPlan("/feed.xml", rss, _RSS),
    robots="User-agent: *\nAllow: /\n",
    pieces=(
        Piece("Flood barrier on the Wend passes its first full test", "rivers", 0),
        Piece("Late-night bus returns to the hill estates", "transport", 0, stamp=est),
        Piece("Central library opens on Sundays from spring", "libraries", 1, stamp=plus_one),
        Piece(_ROADS, "budgets", 1, path=_ROADS_PATH),
        Piece(_STORM, "weather", 2, stamp=est, ends=STORED_OR_LINKED),
        Piece("Councillors agree to publish every decision within days", "councils", 3, stamp=plus_one),
        Piece("La bibliothèque du quai rouvre ses portes aux lecteurs", "libraries", 5, language="fr", stamp=plus_one),
        Piece("Ferry and tram tickets become one from next month", "transport", 9),
    ),
)

COUNCIL = Site(
    host="council.demo.test",
    title="Wendham Town Council",
    look="council",
    folder="/releases",
    utc_offset_hours=1,
    feed=FeedPlan("/news.atom", atom, _ATOM, answer=conditional),
    pieces=(
        Piece("Draft budget goes out for comment", "budgets", 0, stamp=iso_z),
        Piece("By-election called for the vacant seat in Fennbridge", "councils", 0, stamp=iso_offset),
        Piece("Footbridge at Oxley Quay closes for new bearings", "transport", 4, updated_days_ago=0, stamp=iso_z),
        Piece("Winter gritting routes are published", "weather", 6, stamp=iso_offset),
        Piece("Partnerstadt baut den Uferweg am Fluss aus", "rivers", 8, language="de", stamp=iso_offset),
        Piece("Riverside embankment to be raised before autumn", "rivers", 12, updated_days_ago=7, stamp=iso_z),
    ),
)

WIRE = Site(
    host="wire.demo.test",
    title="Valley Wire",
    look="wire",
    folder="/stories",
    utc_offset_hours=-5,
    feed=FeedPlan("/rss", rss, _RSS),
    pieces=(
        Piece("Rail freight to the mill doubles in a year", "transport", 0, stamp=est),
        Piece("Reservoir stands below its usual mark after dry spring", "weather", 0, stamp=plus_one),
        Piece("Readers borrow more books than before the floods", "libraries", None),
        Piece("Hochwassermauer an der Alten Werft ist fertig", "rivers", 2, language="de"),
        Piece(_STORM, "weather", 2, ends=STORED_OR_LINKED),
        Piece(_ROADS, "budgets", 1, link=f"http://gazette.demo.test{_ROADS_PATH}{_TRACKING}"),
        Piece(_WEIR, "rivers", 3, path="/r/1182", answer=redirect(301, _WEIR_PATH)),
        Piece(_WEIR, "rivers", 3, path=_WEIR_PATH, listed=False, ends=NO_IDENTITY),
        Piece(_MAPS, "libraries", 4, path="/out/4471", answer=_TO_THE_MIRROR, ends=REDIRECTED),
        Piece("Story withdrawn by the desk", "councils", 5, answer=None, ends=NOT_FOUND),
        Piece(_MINUTES, "councils", 6, link=f"http://mirror.demo.test{_MINUTES_PATH}"),
    ),
)

MIRROR = Site(
    host="mirror.demo.test",
    title="The Wendham Mirror",
    look="wire",
    folder="/copies",
    utc_offset_hours=0,
    robots="User-agent: *\nDisallow: /private/\n",
    pieces=(
        Piece(_MAPS, "libraries", 4, path=_MAPS_PATH),
        Piece(_MINUTES, "councils", 6, path=_MINUTES_PATH, ends=ROBOTS_BLOCKED),
    ),
)

SITES = (GAZETTE, COUNCIL, WIRE, MIRROR)
