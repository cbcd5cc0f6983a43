"""Make the answers of a host from its `Site`. The same site, day and seed give the same bytes."""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from zlib import crc32

from headwater.core.dates import bounds
from headwater.demo.answers import HTML, Answer, Body, whole
from headwater.demo.content import DemoStory
from headwater.demo.feeds import DemoEntry, news_sitemap, sitemap, sitemap_index
from headwater.demo.pages import Frame, Sheet, Teaser, article_page, error_page, list_page
from headwater.demo.plan import Piece, Site

_TEXT = "text/plain; charset=utf-8"
_XML = "application/xml; charset=utf-8"
_GZIP = "application/gzip"
_FIRST_MINUTE, _LAST_MINUTE = 12 * 60 + 5, 17 * 60 + 55
_WESTERNMOST = "America/New_York"  # of the zones in which a demo has its day
_LEAST_MINUTES = 4 * 60


@dataclass(frozen=True, slots=True)
class Host:
    """The answers of a host by path, the answer for other paths, and the answer for all paths below `/api/`."""

    answers: Mapping[str, Answer]
    otherwise: Answer
    api: Answer | None = None

    def answer_at(self, path: str) -> Answer:
        """Return the answer for a path without its query."""
        if self.api is not None and path.startswith("/api/"):
            return self.api
        return self.answers.get(path, self.otherwise)


def build_host(site: Site, *, today: date, seed: int, begun_at: datetime | None = None) -> Host:
    """Write every page of a site. No page has a date after `begun_at`."""
    return _Builder(site, today, seed, begun_at).build()


class _Builder:
    def __init__(self, site: Site, today: date, seed: int, begun_at: datetime | None = None) -> None:
        self.site = site
        self.today = today
        self.begun_at = begun_at
        self.seed = seed
        self.zone = timezone(timedelta(hours=site.utc_offset_hours))
        self.modified = datetime.combine(today, time(), UTC)  # before every request of that day
        self.own = tuple(piece for piece in site.pieces if piece.link is None)
        self.articles = tuple(piece for piece in self.own if piece.answer is whole and piece.form is article_page)
        self.teasers = tuple(Teaser(site.url(piece), self.story(piece)) for piece in self.articles)
        topics = dict.fromkeys(teaser.story.topic for teaser in self.teasers)
        self.frame = Frame(site.host, site.title, site.look, site.feed_url, tuple(topics), self.teasers)

    def build(self) -> Host:
        answers = {"/": whole(self.body(list_page(self.frame, self.site.home, self.site.title, self.teasers)))}
        answers |= {f"/section/{topic}": whole(self.section(topic)) for topic in self.frame.topics}
        answers |= {self.site.path(piece): piece.answer(self.page(piece)) for piece in self.own if piece.answer}
        if self.site.feed is not None:
            answers[self.site.feed.path] = self.site.feed.answer(self.feed())
        if self.site.robots is not None or self.site.robots_answer is not None:
            robots = self.body((self.site.robots or "").encode(), _TEXT)
            answers["/robots.txt"] = (self.site.robots_answer or whole)(robots)
        if self.site.sitemaps:
            answers |= {path: whole(body) for path, body in self.sitemaps().items()}
        missing = self.body(error_page(self.frame, self.site.home))
        api = None if self.site.api is None else self.site.api(self.today, self.seed)
        return Host(answers, whole(missing, status=self.site.missing_status), api)

    def body(self, content: bytes, content_type: str = HTML) -> Body:
        return Body(content, content_type, self.modified)

    def section(self, topic: str) -> Body:
        url = f"{self.site.home}section/{topic}"
        teasers = tuple(teaser for teaser in self.teasers if teaser.story.topic == topic)
        return self.body(list_page(self.frame, url, topic.capitalize(), teasers))

    def page(self, piece: Piece) -> Body:
        url = f"http://{self.site.host}{piece.canonical or self.site.path(piece)}"
        return self.body(
            piece.form(Sheet(self.frame, url, self.story(piece), *self.moments(piece))), piece.content_type
        )

    def feed(self) -> Body:
        assert self.site.feed is not None
        assert self.site.feed_url is not None
        entries = tuple(map(self.entry, self.site.listed))
        text = self.site.feed.write(url=self.site.feed_url, title=self.site.title, home=self.site.home, entries=entries)
        return self.body(text.encode(), self.site.feed.content_type)

    def sitemaps(self) -> dict[str, Body]:
        entries = tuple(map(self.entry, self.articles))
        lists = [self.site.home, *(f"{self.site.home}section/{topic}" for topic in self.frame.topics)]
        fresh = [piece for piece in self.articles if piece.days_ago is not None and piece.days_ago <= 1]
        stories = sitemap((entry.url, entry.updated or entry.published) for entry in entries)
        files = {"/sitemaps/stories.xml.gz": self.body(gzip.compress(stories.encode(), mtime=0), _GZIP)}
        if self.site.sitemap_of_lists:
            files["/sitemaps/lists.xml"] = self.body(sitemap((url, None) for url in lists).encode(), _XML)
        news = news_sitemap(self.site.title, map(self.entry, fresh))
        files["/sitemaps/news.xml"] = self.body(news.encode(), _XML)
        index = sitemap_index((f"http://{self.site.host}{path}" for path in files), self.modified)
        return {"/sitemap_index.xml": self.body(index.encode(), _XML), **files}

    def entry(self, piece: Piece) -> DemoEntry:
        return DemoEntry(self.site.url(piece), self.story(piece), *self.moments(piece), piece.stamp)

    def story(self, piece: Piece) -> DemoStory:
        return piece.story(self.seed)

    def moments(self, piece: Piece) -> tuple[datetime | None, datetime | None]:
        return (
            self.moment(piece.days_ago, f"published {piece.headline}"),
            self.moment(piece.updated_days_ago, f"updated {piece.headline}"),
        )

    def moment(self, days_ago: int | None, key: str) -> datetime | None:
        """Return a time in the afternoon of that day in UTC: the same date from New York to London.

        In the morning, the times of today are in the hours before.
        """
        if days_ago is None:
            return None
        midnight = datetime.combine(self.today - timedelta(days=days_ago), time(), UTC)
        first, last = _FIRST_MINUTE, _LAST_MINUTE
        if days_ago == 0 and self.begun_at:
            last = min(last, (self.begun_at - midnight) // timedelta(minutes=1))
            day_begins = (bounds(self.today, _WESTERNMOST)[0] - midnight) // timedelta(minutes=1)
            first = min(first, max(day_begins, last - _LEAST_MINUTES))
        minute = first + crc32(key.encode()) % max(1, last - first)
        return (midnight + timedelta(minutes=minute)).astimezone(self.zone)
