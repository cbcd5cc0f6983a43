"""The feeds of the benches: real ones if the corpora are there, and generated ones of the same size."""

import gzip
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path

from headwater.demo.answers import conditional
from headwater.demo.feeds import DemoEntry, atom, gmt, iso_z, rss
from headwater.demo.plan import FeedPlan, Piece, Site

CORPORA = Path(os.environ.get("HEADWATER_CORPORA") or Path(__file__).parent.parent.parent / "shared" / "corpora")
TOPICS = ("rivers", "councils", "budgets", "libraries", "weather", "transport")
# The numbers of entries are those of real feeds: percentiles 10, 25, 50, 75 and 90 of real-feeds-kagi. With their whole
# texts the feeds have 110 kB on average.
ENTRIES = (6, 10, 12, 25, 56)
SITEMAP_HOST = "maps.demo.test"
ROBOTS = "User-agent: *\nDisallow: /private/\n"


def real_feeds() -> list[bytes]:
    """Return the feeds of real-feeds-kagi, or none if the corpora are missing."""
    paths = sorted((CORPORA / "real-feeds-kagi" / "benchmark_data").glob("*.gz"))
    return [gzip.decompress(path.read_bytes()) for path in paths]


def written_feeds(count: int) -> list[bytes]:
    """Return the generated feeds of a number of hosts."""
    return [_write(site) for site in feed_sites(count)]


def _write(site: Site) -> bytes:
    assert site.feed
    today = datetime.now(UTC)
    lines = [
        DemoEntry(site.url(piece), piece.story(1), today - timedelta(days=piece.days_ago or 0), None, piece.stamp)
        for piece in site.listed
    ]
    text: str = site.feed.write(url=site.feed_url, title=site.title, home=site.home, entries=lines)
    return text.encode()


def feed_sites(count: int) -> list[Site]:
    """Return hosts of the demo web, each with a feed and a robots.txt. Every third feed is Atom."""
    return [_site(number) for number in range(count)]


def sitemap_site(addresses: int) -> Site:
    """Return a host with only a sitemap of a number of addresses."""
    plan = FeedPlan("/sitemap.xml", lambda **_: _sitemap(addresses), "application/xml")
    return Site(host=SITEMAP_HOST, title="A paper with a past", pieces=(), feed=plan, robots=ROBOTS)


def _sitemap(addresses: int) -> str:
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    entries = (
        f"<url><loc>http://{SITEMAP_HOST}/news/2025/some-section/article-{number:06}-about-things</loc>"
        f"<lastmod>{(begun - timedelta(hours=number)).isoformat()}</lastmod></url>\n"
        for number in range(addresses)
    )
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{"".join(entries)}</urlset>\n'


def entries_of(count: int) -> int:
    """Return the number of entries in the feeds of a number of hosts."""
    return sum(_entries(number) for number in range(count))


def _entries(number: int) -> int:
    return ENTRIES[number % len(ENTRIES)]


def _site(number: int) -> Site:
    pieces = tuple(
        Piece(
            f"What was decided on day {day}",
            TOPICS[day % len(TOPICS)],
            day,
            path=f"/news/{number}-{day}",
            stamp=iso_z if number % 3 == 0 else gmt,
            answer=None,
        )
        for day in range(_entries(number))
    )
    plan = (
        FeedPlan("/feed.atom", _with_texts(atom, "</entry>", _atom_text), "application/atom+xml", answer=conditional)
        if number % 3 == 0
        else FeedPlan("/feed.xml", _with_texts(rss, "</item>", _rss_text), "application/rss+xml", answer=conditional)
    )
    return Site(
        host=f"feed-{number:05}.demo.test", title=f"Paper number {number}", pieces=pieces, feed=plan, robots=ROBOTS
    )


def _with_texts(write: Callable[..., str], end: str, text_of: Callable[[DemoEntry], str]) -> Callable[..., str]:
    """Write each entry with the whole text of its page, as most feeds do."""

    def write_all(*, url: str, title: str, home: str, entries: Sequence[DemoEntry]) -> str:
        *written, rest = write(url=url, title=title, home=home, entries=entries).split(end)
        return "".join(f"{text}{text_of(entry)}{end}" for text, entry in zip(written, entries, strict=True)) + rest

    return write_all


def _rss_text(entry: DemoEntry) -> str:
    content = "http://purl.org/rss/1.0/modules/content/"
    return f'<content:encoded xmlns:content="{content}"><![CDATA[{_html(entry)}]]></content:encoded>\n'


def _atom_text(entry: DemoEntry) -> str:
    return f'<content type="html">{escape(_html(entry))}</content>\n'


def _html(entry: DemoEntry) -> str:
    return "\n".join(f"<p>{escape(paragraph)}</p>" for paragraph in entry.story.paragraphs)
