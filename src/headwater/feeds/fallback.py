"""The last resort: feedparser, slow and forgiving, for what is too broken to be read as XML."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from headwater.core.dates import parse_date
from headwater.core.text import one_line, plain_text
from headwater.feeds.feed import Feed, FeedEntry
from headwater.feeds.feed_fields import (
    absolute_link,
    author_name,
    beginning,
    plain_tags,
    summary_text,
    ttl_seconds,
)


def read_broken_feed(text: str, url: str) -> Feed | None:
    """Return what can be saved of a feed, or None where there is none in it."""
    # imported here: most programs never meet a feed that needs it, and it takes longer to load than all the rest
    import feedparser

    headers = {"content-type": "application/xml; charset=utf-8", "content-location": url}
    try:
        # a stream, since feedparser opens a file or an address that bytes happen to spell
        parsed = feedparser.parse(BytesIO(text.encode()), response_headers=headers, sanitize_html=False)
    except Exception:  # noqa: BLE001 - it fails in as many ways as documents are broken, and then there is no feed
        return None
    if not parsed.version and not parsed.entries:
        return None
    about = parsed.feed
    return Feed(
        title=plain_text(_string(about, "title")),
        entries=tuple(_entry(entry, url) for entry in parsed.entries),
        link=absolute_link(_string(about, "link"), url),
        language=one_line(_string(about, "language")) or None,
        ttl_seconds=ttl_seconds(_string(about, "ttl")),
        hub=next(
            (absolute_link(_string(link, "href"), url) for link in about.get("links", ()) if link.get("rel") == "hub"),
            None,
        ),
    )


def _entry(entry: Mapping[str, Any], base: str) -> FeedEntry:
    content = next((_string(part, "value") for part in entry.get("content", ())), "")
    summary = _string(entry, "summary") or content
    return FeedEntry(
        url=absolute_link(_string(entry, "link"), base),
        title=plain_text(_string(entry, "title")),
        # read from the raw text: feedparser's own reading fills in what a date leaves out
        published_at=parse_date(_string(entry, "published")),
        updated_at=parse_date(_string(entry, "updated")) if "updated" in entry else None,
        summary=summary_text(summary, beginning),
        guid=one_line(_string(entry, "id")) or None,
        author=author_name(_string(entry, "author")),
        tags=plain_tags(_string(tag, "term") for tag in entry.get("tags", ())),
    )


def _string(owner: Mapping[str, Any], name: str) -> str:
    value = owner.get(name)
    return value if isinstance(value, str) else ""
