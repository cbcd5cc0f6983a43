"""From a line of the table to a host that answers: the same site, day and seed give the same bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from zlib import crc32

from headwater.demo.answers import Answer, Body, whole
from headwater.demo.content import Story, write_story
from headwater.demo.feeds import Line
from headwater.demo.pages import Frame, Teaser, article_page, error_page, list_page
from headwater.demo.sites import Piece, Site

_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_FIRST_MINUTE, _LAST_MINUTE = 12 * 60 + 5, 17 * 60 + 55


@dataclass(frozen=True, slots=True)
class Host:
    """All addresses of a host, and the answer for every other one."""

    answers: Mapping[str, Answer]
    otherwise: Answer


def build_host(site: Site, *, today: date, seed: int) -> Host:
    """Write every page of a site."""
    return _Builder(site, today, seed).build()


class _Builder:
    def __init__(self, site: Site, today: date, seed: int) -> None:
        self.site = site
        self.today = today
        self.seed = seed
        self.zone = timezone(timedelta(hours=site.utc_offset_hours))
        self.modified = datetime.combine(today, time(), UTC)  # before every visit on that day
        self.own = tuple(piece for piece in site.pieces if piece.link is None)
        self.teasers = tuple(Teaser(site.url(piece), self.story(piece)) for piece in self.own if piece.answer is whole)
        topics = dict.fromkeys(teaser.story.topic for teaser in self.teasers)
        self.frame = Frame(site.host, site.title, site.look, site.feed_url, tuple(topics), self.teasers)

    def build(self) -> Host:
        answers = {"/": whole(self.html(list_page(self.frame, self.site.home, self.site.title, self.teasers)))}
        answers |= {f"/section/{topic}": whole(self.section(topic)) for topic in self.frame.topics}
        answers |= {self.site.path(piece): piece.answer(self.article(piece)) for piece in self.own if piece.answer}
        if self.site.feed is not None:
            answers[self.site.feed.path] = self.site.feed.answer(self.feed())
        if self.site.robots is not None:
            answers["/robots.txt"] = whole(Body(self.site.robots.encode(), _TEXT, self.modified))
        return Host(answers, whole(self.html(error_page(self.frame, self.site.home)), status=404))

    def html(self, page: str) -> Body:
        return Body(page.encode(), _HTML, self.modified)

    def section(self, topic: str) -> Body:
        url = f"{self.site.home}section/{topic}"
        teasers = tuple(teaser for teaser in self.teasers if teaser.story.topic == topic)
        return self.html(list_page(self.frame, url, topic.capitalize(), teasers))

    def article(self, piece: Piece) -> Body:
        url = f"http://{self.site.host}{self.site.path(piece)}"
        published, updated = self.moments(piece)
        return self.html(article_page(self.frame, url, self.story(piece), published=published, updated=updated))

    def feed(self) -> Body:
        assert self.site.feed is not None
        assert self.site.feed_url is not None
        lines = tuple(self.line(piece) for piece in self.site.listed)
        text = self.site.feed.write(url=self.site.feed_url, title=self.site.title, home=self.site.home, lines=lines)
        return Body(text.encode(), self.site.feed.content_type, self.modified)

    def line(self, piece: Piece) -> Line:
        return Line(self.site.url(piece), self.story(piece), *self.moments(piece), piece.stamp)

    def story(self, piece: Piece) -> Story:
        return write_story(piece.headline, topic=piece.topic, language=piece.language, seed=self.seed)

    def moments(self, piece: Piece) -> tuple[datetime | None, datetime | None]:
        return (
            self.moment(piece.days_ago, f"published {piece.headline}"),
            self.moment(piece.updated_days_ago, f"updated {piece.headline}"),
        )

    def moment(self, days_ago: int | None, key: str) -> datetime | None:
        """Return a time in the afternoon of that day in UTC: the same date from New York to London."""
        if days_ago is None:
            return None
        minute = _FIRST_MINUTE + crc32(key.encode()) % (_LAST_MINUTE - _FIRST_MINUTE)
        midnight = datetime.combine(self.today - timedelta(days=days_ago), time(), UTC)
        return (midnight + timedelta(minutes=minute)).astimezone(self.zone)
