"""JSON Feed 1.0 and 1.1."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from headwater.core.dates import parse_date
from headwater.core.json_values import JsonObject
from headwater.core.language import read_language
from headwater.core.text import one_line, plain_text, strip_markup
from headwater.feeds.body_description import not_a_feed
from headwater.feeds.feed_fields import absolute_link, plain_tags, slice_text, summary_text
from headwater.feeds.results import Feed, FeedEntry


def read_json_feed(text: str, url: str) -> Feed:
    """Read a JSON Feed. Raises Unreadable if the text is malformed JSON, nested too deep, or not a JSON Feed."""
    try:
        document = json.loads(text)
    except ValueError:
        is_cut = not text.rstrip().endswith("}")
        raise not_a_feed(url, f"it starts like JSON but is {'cut off' if is_cut else 'malformed'}") from None
    except RecursionError:
        raise not_a_feed(url, "it is JSON that is nested too deep") from None
    if "jsonfeed.org" not in _string(document, "version") or not isinstance(document.get("items"), list):
        raise not_a_feed(url, "it is JSON, but not a JSON Feed")
    author = _author(document)
    hubs = (absolute_link(_string(hub, "url"), url) for hub in _objects(document.get("hubs")))
    language, region = read_language(_string(document, "language"))
    return Feed(
        title=plain_text(_string(document, "title")),
        entries=tuple(_entry(item, url, author) for item in _objects(document["items"])),
        link=absolute_link(_string(document, "home_page_url"), url),
        language=language,
        region=region,
        hub=next(filter(None, hubs), None),
    )


def _entry(item: Mapping[str, Any], base: str, feed_author: str | None) -> FeedEntry:
    guid = one_line(_string(item, "id"))
    # Only an absolute id is an address. Joining a relative one would make the address of a page that does not exist.
    link = absolute_link(_string(item, "url"), base) or absolute_link(_string(item, "external_url"), base)
    link = link or (absolute_link(guid, base) if guid.startswith(("https://", "http://")) else None)
    text = _string(item, "summary") or _string(item, "content_text") or _string(item, "content_html")
    return FeedEntry(
        url=link,
        title=plain_text(_string(item, "title")),
        published_at=parse_date(_string(item, "date_published")),
        updated_at=parse_date(_string(item, "date_modified")),
        summary=summary_text(text, slice_text),
        guid=guid or None,
        author=_author(item) or feed_author,
        tags=plain_tags(tag for tag in _list(item.get("tags")) if isinstance(tag, str)),
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


def _objects(values: object) -> Iterator[JsonObject]:
    return (value for value in _list(values) if isinstance(value, dict))


def _list(values: object) -> list[Any]:
    return values if isinstance(values, list) else []
