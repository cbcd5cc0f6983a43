"""JSON Feed 1.0 and 1.1."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from headwater.core.dates import parse_date
from headwater.core.text import one_line, plain_text, strip_markup
from headwater.feeds.body_description import not_a_feed
from headwater.feeds.feed import Feed, FeedEntry
from headwater.feeds.feed_fields import absolute_link, beginning, plain_tags, summary_text


def read_json_feed(text: str, url: str) -> Feed:
    """Return the feed. Raises Unreadable where the JSON is broken, nested too deep, or says something else."""
    try:
        document = json.loads(text)
    except ValueError:
        raise not_a_feed(url, "it begins as JSON does, and is broken") from None
    except RecursionError:
        raise not_a_feed(url, "it is JSON, nested too deep") from None
    if "jsonfeed.org" not in _string(document, "version") or not isinstance(document.get("items"), list):
        raise not_a_feed(url, "it is JSON, but no JSON Feed")
    author = _author(document)
    return Feed(
        title=plain_text(_string(document, "title")),
        entries=tuple(_entry(item, url, author) for item in _objects(document["items"])),
        link=absolute_link(_string(document, "home_page_url"), url),
        language=one_line(_string(document, "language")) or None,
        hub=next(
            filter(None, (absolute_link(_string(hub, "url"), url) for hub in _objects(document.get("hubs")))), None
        ),
    )


def _entry(item: Mapping[str, Any], base: str, feed_author: str | None) -> FeedEntry:
    guid = one_line(_string(item, "id"))
    # only an absolute identifier is an address: a relative one would be joined into a page that does not exist
    link = absolute_link(_string(item, "url"), base) or absolute_link(_string(item, "external_url"), base)
    link = link or (absolute_link(guid, base) if guid.startswith(("https://", "http://")) else None)
    markup = _string(item, "content_html")
    text = _string(item, "summary") or _string(item, "content_text")
    return FeedEntry(
        url=link,
        title=plain_text(_string(item, "title")),
        published_at=parse_date(_string(item, "date_published")),
        updated_at=parse_date(_string(item, "date_modified")),
        summary=summary_text(text or markup, beginning),
        guid=guid or None,
        author=_author(item) or feed_author,
        tags=plain_tags(_strings(item.get("tags"))),
        image=absolute_link(_string(item, "image") or _string(item, "banner_image"), base),
    )


def _author(owner: Mapping[str, Any]) -> str | None:
    people = [*_objects(owner.get("authors")), *_objects([owner.get("author")])]
    names = dict.fromkeys(strip_markup(_string(person, "name")) for person in people)
    return ", ".join(name for name in names if name) or None


def _string(owner: Mapping[str, Any], name: str) -> str:
    value = owner.get(name)
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _strings(values: object) -> Iterator[str]:
    return (value for value in values if isinstance(value, str)) if isinstance(values, list) else iter(())


def _objects(values: object) -> Iterator[dict[str, Any]]:
    return (value for value in values if isinstance(value, dict)) if isinstance(values, list) else iter(())
