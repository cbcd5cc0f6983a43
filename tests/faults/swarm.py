"""A generated web of many small hosts with the demo's faults, for crawls with faults.

Each host has a trouble of its own, which one in eight of its pages has; how each address must end is in the table too.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from html import escape
from itertools import cycle, islice
from typing import Any

from aiohttp import web

from headwater.core.reasons import Reason
from headwater.demo.answers import (
    always,
    busy,
    drip,
    gzipped,
    heals,
    mislabelled,
    redirect,
    reset,
    respond,
    status,
    truncated,
    whole,
)
from headwater.demo.content import DemoStory, Part
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
    """A piece with a short story, which differs with every seed. No paragraph of it recurs on a site."""

    __slots__ = ()

    def story(self, seed: int) -> DemoStory:
        paragraphs = (
            f"{self.headline}: so much was settled at meeting {seed} of the quarter, after an hour and a half.",
            f"Those who live nearby had asked for it since the spring ({self.headline}), and brought a list with the "
            "names of two hundred neighbours, a map of the lanes that flood, and a thermos of coffee for its readers.",
            f"The café's own people say of this ({self.headline}) that they will try it. The costs "
            "are known by then, and whether the river, which has come up to the steps, lets them keep the cellar.",
        )
        return DemoStory(self.headline, self.topic, self.language, "Ruth Adeyemi", (Part(None, paragraphs),))


class Swarm(DemoWeb):
    """`hosts` times `pages` articles in feeds on hosts of their own. The feeds do not list targets of redirects."""

    def __init__(self, *, hosts: int, pages: int, feeds: int, troubles: Sequence["Trouble"], **where: Any) -> None:
        chosen = islice(cycle(troubles), hosts)
        sites = [_site(host, pages, trouble) for host, trouble in enumerate(chosen)]
        sites += [_away(sites)] if moved_away in troubles else []
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


def lost_in_a_maze(piece: Piece) -> list[Piece]:
    """Each page of a circle redirects to the next one."""
    paths = [piece.path, *(f"/maze{number}{piece.path}" for number in range(6))]
    hops = [replace(piece, path=path, listed=False, ends=Ends.NONE) for path in paths]
    hops[0] = replace(piece, ends=Ends.REDIRECT_LIMIT)
    return [replace(hop, answer=redirect(302, str(to))) for hop, to in zip(hops, paths[1:] + paths[1:2], strict=True)]


def raw(*parts: bytes, repeated: bytes = b"", pause: float = 0) -> Callable[[web.BaseRequest], Any]:
    """Answer with bytes that no HTTP library writes, with a pause after each part. The last part may have no end."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        for part in parts:
            request.transport.write(part)
            await asyncio.sleep(pause)
        while repeated and not request.transport.is_closing():
            request.transport.write(repeated * 1000)
            await asyncio.sleep(0.001)
        request.transport.close()
        raise ConnectionAbortedError

    return answer


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
# With these the client gives up, or gets nonsense.
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
HOSTILE: tuple[Trouble, ...] = (
    but(answer=heals(drip)),
    but(answer=heals(raw(_OK, repeated=b"X-Endless: more and more\r\n"), after=2)),
    but(answer=heals(raw(b"HTTP/1.1 200 OK\r\nX-Endless: ", repeated=b"more and more "))),
    but(answer=heals(raw(_OK, b"Content-Length: 10\r\nContent-Length: 20\r\n\r\n", b"x" * 20))),
    but(answer=heals(raw(_OK, b"Content-Length: -1\r\n\r\nx"))),
    but(answer=heals(raw(_OK, b"Content-Length: 500000\r\n\r\n", b"x" * 100))),
    # The surplus comes after the page, as on a kept connection. In the packet of the head, it makes no sense.
    but(
        answer=always(raw(_OK + b"Content-Length: 10\r\n\r\n<html><p>a", b"<html>" * 2000, pause=0.2)),
        ends=frozenset({Reason.BAD_HTML}),
    ),
    but(answer=heals(raw(_OK, b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nx"))),
    but(answer=heals(raw(repeated=b"HTTP/1.1 103 Early Hints\r\n\r\n"))),
    but(answer=always(respond(b"\x0b\x02\x80abc\x03", Content_Encoding="br")), ends=frozenset({Reason.BAD_ENCODING})),
    but(answer=always(respond(b"\x28\xb5\x2f\xfd", Content_Encoding="zstd")), ends=frozenset({Reason.BAD_ENCODING})),
    but(answer=heals(busy(1), after=4)),
    lost_in_a_maze,
)
