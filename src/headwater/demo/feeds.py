"""Feeds as publishers write them, with dates in the forms that are met in the wild."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from html import escape
from typing import Any

from headwater.demo.content import Story

Stamp = Callable[[datetime], str]


@dataclass(frozen=True, slots=True)
class Line:
    """What a feed says of one address; an undated line has `published` None."""

    url: str
    story: Story
    published: datetime | None
    updated: datetime | None
    stamp: Stamp


def gmt(moment: datetime) -> str:
    """`Tue, 03 Mar 2026 14:05:00 GMT`."""
    return format_datetime(moment.astimezone(UTC), usegmt=True)


def est(moment: datetime) -> str:
    """`Tue, 03 Mar 2026 09:05:00 EST`: a named zone, which always means five hours behind."""
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


def rss(*, url: str, title: str, home: str, lines: Sequence[Line]) -> str:
    """Write RSS 2.0."""
    items = "\n".join(map(_rss_item, lines))
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel>
<title>{escape(title)}</title>
<link>{home}</link>
<description>All stories of {escape(title)}</description>
<language>en-gb</language>
<atom:link href="{url}" rel="self" type="application/rss+xml"/>
{items}
</channel>
</rss>
"""


def atom(*, url: str, title: str, home: str, lines: Sequence[Line]) -> str:
    """Write Atom 1.0, where every entry must be dated."""
    newest = max(moment for line in lines if (moment := line.updated or line.published) is not None)
    entries = "\n".join(map(_atom_entry, lines))
    return f"""<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en">
<title>{escape(title)}</title>
<id>{url}</id>
<link rel="self" href="{url}"/>
<link rel="alternate" type="text/html" href="{home}"/>
<updated>{iso_z(newest)}</updated>
{entries}
</feed>
"""


def json_feed(*, url: str, title: str, home: str, lines: Sequence[Line]) -> str:
    """Write JSON Feed 1.1."""
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": title,
        "home_page_url": home,
        "feed_url": url,
        "items": list(map(_json_item, lines)),
    }
    return json.dumps(feed, ensure_ascii=False, indent=1)


def _rss_item(line: Line) -> str:
    dated = "" if line.published is None else f"<pubDate>{line.stamp(line.published)}</pubDate>\n"
    return f"""<item>
<title>{escape(line.story.headline)}</title>
<link>{escape(line.url)}</link>
<guid isPermaLink="false">{escape(line.url.partition("?")[0])}</guid>
{dated}<dc:creator>{escape(line.story.byline)}</dc:creator>
<category>{line.story.topic}</category>
<description>{escape(f"<p>{escape(line.story.summary)}</p>")}</description>
</item>"""


def _atom_entry(line: Line) -> str:
    assert line.published is not None
    return f"""<entry xml:lang="{line.story.language}">
<title>{escape(line.story.headline)}</title>
<id>{escape(line.url)}</id>
<link rel="alternate" type="text/html" href="{escape(line.url)}"/>
<published>{line.stamp(line.published)}</published>
<updated>{line.stamp(line.updated or line.published)}</updated>
<author><name>{escape(line.story.byline)}</name></author>
<category term="{line.story.topic}"/>
<summary>{escape(line.story.summary)}</summary>
</entry>"""


def _json_item(line: Line) -> dict[str, Any]:
    moments = {"date_published": line.published, "date_modified": line.updated}
    return {
        "id": line.url,
        "url": line.url,
        "title": line.story.headline,
        "summary": line.story.summary,
        "language": line.story.language,
        "authors": [{"name": line.story.byline}],
        "tags": [line.story.topic],
        **{name: line.stamp(moment) for name, moment in moments.items() if moment is not None},
    }
