"""A generated web of many small hosts with the demo's faults, for crawls with faults.

Each host has a trouble of its own, which one in eight of its pages has; how each address must end is in the table too.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from html import escape
from itertools import cycle, islice
from typing import Any

from headwater.core.reasons import Reason
from headwater.demo.answers import always, busy, gzipped, heals, mislabelled, redirect, reset, status, truncated, whole
from headwater.demo.content import Part, Story
from headwater.demo.expected import expected_outcomes
from headwater.demo.feeds import rss
from headwater.demo.pages import Sheet
from headwater.demo.pdf import pdf
from headwater.demo.plan import Ends, FeedPlan, Piece, Site
from headwater.demo.web import DemoWeb

TODAY = date(2026, 3, 3)
AWAY = "http://away.test"
ROBOTS = "User-agent: *\nDisallow: /private/\nCrawl-delay: 0.2\n"
EVERY, FIRST = 8, 3  # the pages of a host with a trouble that have it

Trouble = Callable[[Piece], list[Piece]]  # makes the pieces that replace a page


class Notice(Piece):
    """A piece with a short story, which differs with every seed."""

    __slots__ = ()

    def story(self, seed: int) -> Story:
        paragraphs = (
            f"{self.headline}: so much was settled at meeting {seed} of the quarter, after an hour and a half.",
            "Those who live nearby had asked for it since the spring, and brought a list with the names of two hundred "
            "neighbours, a map of the lanes that flood, and a thermos of coffee for whoever was to read all of that.",
            "The café's own people say that they will try it until the year ends. What it costs is known by then, "
            "and whether the river, which has come up to the second step three times, lets them keep the cellar.",
        )
        return Story(self.headline, self.topic, self.language, "Ruth Adeyemi", (Part(None, paragraphs),))


class Swarm(DemoWeb):
    """`hosts` times `pages` articles in feeds on hosts of their own. The feeds do not list targets of redirects."""

    def __init__(self, *, hosts: int, pages: int, feeds: int, plain: bool, **where: Any) -> None:
        troubles = islice(cycle([untroubled] if plain else TROUBLES), hosts)
        sites = [_site(host, pages, trouble) for host, trouble in enumerate(troubles)]
        sites += [] if plain else [_away(sites)]
        super().__init__(today=TODAY, sites=[*sites, *_feeds(sites, feeds)], **where)
        self.requests = deque()  # keeps all requests
        self.expected = expected_outcomes(self)
        self.size = len(self.expected.outcomes)

    def openings(self) -> dict[str, str]:
        """The start of the text of each document."""
        return {
            site.url(piece): piece.story(self.seed).summary
            for site in self.sites
            for piece in site.pieces
            if piece.link is None and Reason.STORED in piece.ends
        }


def _site(host: int, pages: int, trouble: Trouble) -> Site:
    pieces: list[Piece] = []
    for page in range(pages):
        headline = f"Café number {host} keeps its door open, notice {page}"
        piece = Notice(headline, "rivers", page % 28, path=f"/{host}-{page}", form=_short)
        pieces += trouble(piece) if page % EVERY == FIRST else [piece]
    robots = ROBOTS if trouble is hidden else None
    return Site(host=f"h{host}.test", title=f"Host {host}", pieces=tuple(pieces), robots=robots)


def _away(sites: list[Site]) -> Site:
    """The host to which pages have moved. It has one listed page, so that it is known as early as the others."""
    own = Notice("Café on the other side opens for the season", "rivers", 0, path="/own", form=_short)
    moved = [piece for site in sites for piece in site.pieces if piece.ends is Ends.REDIRECTED]
    pieces = (replace(piece, answer=whole, listed=False, ends=Ends.STORED) for piece in moved)
    return Site(host="away.test", title="Away", pieces=(own, *pieces))


def _feeds(sites: list[Site], feeds: int) -> Iterator[Site]:
    lines = [replace(piece, link=site.url(piece)) for site in sites for piece in site.listed]
    plan = FeedPlan("/feed", rss, "application/rss+xml; charset=utf-8")
    for number in range(feeds):
        yield Site(host=f"feed{number}.test", title="Swarm", feed=plan, pieces=tuple(lines[number::feeds]))


def _short(sheet: Sheet) -> bytes:
    """A page that is made and read quickly. It has enough prose not to be checked as an interstitial for long."""
    headline, *paragraphs = map(escape, (sheet.story.headline, *sheet.story.paragraphs))
    article = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return f"<html><head><title>{headline}</title></head><body><article>{article}</article></body></html>".encode()


def untroubled(piece: Piece) -> list[Piece]:
    return [piece]


def hidden(piece: Piece) -> list[Piece]:
    return [replace(piece, path=f"/private{piece.path}", ends=Ends.BLOCKED)]


def moved_within(piece: Piece) -> list[Piece]:
    new = f"/new{piece.path}"
    return [replace(piece, answer=redirect(301, new)), replace(piece, path=new, listed=False, ends=Ends.SAME_PAGE)]


def moved_away(piece: Piece) -> list[Piece]:
    return [replace(piece, answer=redirect(302, f"{AWAY}{piece.path}"), ends=Ends.REDIRECTED)]


def but(**changes: Any) -> Trouble:
    return lambda piece: [replace(piece, **changes)]


# No fault makes its client give up, because the web may notice late that the client has left.
TROUBLES: tuple[Trouble, ...] = (
    but(answer=None, ends=Ends.NOT_FOUND),
    but(answer=always(status(410)), ends=Ends.GONE),
    but(answer=always(status(403)), ends=Ends.REFUSED),
    but(answer=heals(status(503))),
    but(answer=heals(reset)),
    but(answer=heals(truncated)),
    but(answer=heals(busy(1))),
    but(answer=gzipped),
    but(answer=mislabelled("iso-8859-1", "utf-8")),
    but(answer=mislabelled("utf-8", "windows-1252")),
    but(form=pdf, content_type="application/pdf"),
    but(headline="One notice for all", ends=Ends.STORED_OR_LINKED),
    hidden,
    moved_within,
    moved_away,
)
