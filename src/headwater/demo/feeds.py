"""Feeds and sitemaps as publishers write them, with dates in the forms that real feeds use."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from html import escape

from headwater.core.json_values import JsonObject
from headwater.demo.content import DemoStory, template

Stamp = Callable[[datetime], str]

_PROLOG = '<?xml version="1.0" encoding="UTF-8"?>'
_NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"
_NEWS_NAMESPACE = "http://www.google.com/schemas/sitemap-news/0.9"


@dataclass(frozen=True, slots=True)
class DemoEntry:
    """An entry of a feed or a sitemap. An undated entry has `published` None."""

    url: str
    story: DemoStory
    published: datetime | None
    updated: datetime | None
    stamp: Stamp


def gmt(moment: datetime) -> str:
    """`Tue, 03 Mar 2026 14:05:00 GMT`."""
    return format_datetime(moment.astimezone(UTC), usegmt=True)


def est(moment: datetime) -> str:
    """`Tue, 03 Mar 2026 09:05:00 EST`: a named zone, always five hours behind UTC."""
    return format_datetime(moment.astimezone(timezone(timedelta(hours=-5)))).replace("-0500", "EST")


def plus_one(moment: datetime) -> str:
    """`Tue, 03 Mar 2026 15:05:00 +0100`."""
    return format_datetime(moment.astimezone(timezone(timedelta(hours=1))))


def iso_z(moment: datetime) -> str:
    """`2026-03-03T14:05:00Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def iso_offset(moment: datetime) -> str:
    """`2026-03-03T16:05:00+02:00`."""
    return moment.astimezone(timezone(timedelta(hours=2))).isoformat()


def rss(*, url: str, title: str, home: str, entries: Sequence[DemoEntry]) -> str:
    """Write RSS 2.0."""
    items = [
        template("feeds", "rss_item.xml").substitute(
            _values(entry), dated=f"<pubDate>{entry.stamp(entry.published)}</pubDate>\n" if entry.published else ""
        )
        for entry in entries
    ]
    return _feed("rss.xml", items, url=url, title=title, home=home)


def atom(*, url: str, title: str, home: str, entries: Sequence[DemoEntry]) -> str:
    """Write Atom 1.0. Every entry must have a date."""
    newest = max(moment for entry in entries if (moment := entry.updated or entry.published) is not None)
    written = [template("feeds", "atom_entry.xml").substitute(_values(entry)) for entry in entries]
    return _feed("atom.xml", written, url=url, title=title, home=home, updated=iso_z(newest))


def _feed(name: str, entries: Sequence[str], *, title: str, **values: str) -> str:
    values |= {"title": escape(title), "entries": "\n".join(entries)}
    return template("feeds", name).substitute(values) + "\n"


def _values(entry: DemoEntry) -> dict[str, str]:
    published, updated = entry.published, entry.updated or entry.published
    return {
        "url": escape(entry.url),
        "plain_url": escape(entry.url.partition("?")[0]),
        "headline": escape(entry.story.headline),
        "byline": escape(entry.story.byline),
        "summary": escape(entry.story.summary),
        "html": escape(f"<p>{escape(entry.story.summary)}</p>"),
        "topic": entry.story.topic,
        "language": entry.story.language,
        "published": entry.stamp(published) if published else "",
        "updated": entry.stamp(updated) if updated else "",
    }


def json_feed(*, url: str, title: str, home: str, entries: Sequence[DemoEntry]) -> str:
    """Write JSON Feed 1.1."""
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": title,
        "home_page_url": home,
        "feed_url": url,
        "items": list(map(_json_item, entries)),
    }
    return json.dumps(feed, ensure_ascii=False, indent=1)


def sitemap_index(urls: Iterable[str], modified: datetime) -> str:
    """Write a sitemap index."""
    named = "\n".join(f"<sitemap><loc>{url}</loc><lastmod>{iso_z(modified)}</lastmod></sitemap>" for url in urls)
    return f'{_PROLOG}\n<sitemapindex xmlns="{_NAMESPACE}">\n{named}\n</sitemapindex>\n'


def sitemap(pages: Iterable[tuple[str, datetime | None]]) -> str:
    """Write a sitemap of addresses, with the time of the last change where it is known."""
    written = "\n".join(f"<url><loc>{escape(url)}</loc>{_last_modified(changed)}</url>" for url, changed in pages)
    return f'{_PROLOG}\n<urlset xmlns="{_NAMESPACE}">\n{written}\n</urlset>\n'


def news_sitemap(publication: str, entries: Iterable[DemoEntry]) -> str:
    """Write a news sitemap, with title and language for each story."""
    news = template("feeds", "news.xml")
    dated = ((entry, iso_z(entry.published)) for entry in entries if entry.published)
    written = "\n".join(
        news.substitute(_values(entry), publication=escape(publication), date=date) for entry, date in dated
    )
    return f'{_PROLOG}\n<urlset xmlns="{_NAMESPACE}" xmlns:news="{_NEWS_NAMESPACE}">\n{written}\n</urlset>\n'


def _json_item(entry: DemoEntry) -> JsonObject:
    moments = {"date_published": entry.published, "date_modified": entry.updated}
    return {
        "id": entry.url,
        "url": entry.url,
        "title": entry.story.headline,
        "summary": entry.story.summary,
        "language": entry.story.language,
        "authors": [{"name": entry.story.byline}],
        "tags": [entry.story.topic],
        **{name: entry.stamp(moment) for name, moment in moments.items() if moment is not None},
    }


def _last_modified(changed: datetime | None) -> str:
    return "" if changed is None else f"<lastmod>{iso_offset(changed)}</lastmod>"
