"""Feeds of documents: Atom 1.0 (RFC 4287) and JSON Feed 1.1. Pure."""

import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, tostring

import msgspec

from headwater.core.record import record
from headwater.db.stories import StoryMember

ATOM_TYPE = "application/atom+xml; charset=utf-8"
JSON_TYPE = "application/feed+json; charset=utf-8"
_ATOM = "http://www.w3.org/2005/Atom"
_JSON_VERSION = "https://jsonfeed.org/version/1.1"
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@record
class FeedDocument:
    """A document in a feed."""

    id: int
    url: str
    title: str
    byline: str | None
    language: str | None
    published_at: datetime | None
    changed_at: datetime
    """When the page was last changed by its own statement, or else when its text was first seen."""
    lead: str
    text: str | None
    """The whole text, if the feed has it."""
    others: tuple[StoryMember, ...] = ()
    """Other documents about the same story. The feed has no entries of their own for them."""

    @property
    def stable_id(self) -> str:
        """The id of the entry. It follows from the URL of the page alone."""
        return uuid.uuid5(uuid.NAMESPACE_URL, self.url).urn


@record
class DocumentFeed:
    """A feed of documents, the newest first."""

    title: str
    address: str
    """The address of the feed."""
    documents: list[FeedDocument]

    @property
    def changed_at(self) -> datetime:
        """When the newest change of a document was."""
        return max((one.changed_at for one in self.documents), default=datetime(1970, 1, 1, tzinfo=UTC))


def write_atom(feed: DocumentFeed) -> bytes:
    """Return a feed in Atom."""
    root = Element("feed", xmlns=_ATOM)
    _add(root, "id", uuid.uuid5(uuid.NAMESPACE_URL, feed.address).urn)
    _add(root, "title", feed.title)
    _add(root, "updated", _write_time(feed.changed_at))
    SubElement(root, "link", rel="self", type="application/atom+xml", href=_clean(feed.address))
    _add(SubElement(root, "author"), "name", "Headwater")
    for one in feed.documents:
        entry = SubElement(root, "entry", {"xml:lang": one.language} if one.language else {})
        _add(entry, "id", one.stable_id)
        _add(entry, "title", one.title)
        SubElement(entry, "link", rel="alternate", href=_clean(one.url))
        _add(entry, "updated", _write_time(one.changed_at))
        if one.published_at:
            _add(entry, "published", _write_time(one.published_at))
        if one.byline:
            _add(SubElement(entry, "author"), "name", one.byline)
        for other in one.others:
            title = _clean(f"{other.source}: {other.title}")
            SubElement(entry, "link", rel="related", href=_clean(other.url), title=title)
        _add(entry, "summary", one.lead)
        if one.text is not None:
            _add(entry, "content", one.text)
    written: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def write_json(feed: DocumentFeed) -> bytes:
    """Return a feed in JSON."""
    return msgspec.json.encode(
        {
            "version": _JSON_VERSION,
            "title": feed.title,
            "feed_url": feed.address,
            "items": [_write_item(one) for one in feed.documents],
        }
    )


def _write_item(one: FeedDocument) -> dict[str, object]:
    item: dict[str, object] = {
        "id": one.stable_id,
        "url": one.url,
        "title": one.title,
        "summary": one.lead,
        "content_text": one.lead if one.text is None else one.text,
        "date_modified": _write_time(one.changed_at),
    }
    if one.published_at:
        item["date_published"] = _write_time(one.published_at)
    if one.byline:
        item["authors"] = [{"name": one.byline}]
    if one.language:
        item["language"] = one.language
    if one.others:
        item["_headwater"] = {"same_story": [{"url": o.url, "title": o.title, "source": o.source} for o in one.others]}
    return item


def make_tag(body: bytes) -> str:
    """Return the ETag of a body."""
    return f'"{uuid.uuid5(uuid.NAMESPACE_OID, body.hex()).hex}"'


def is_unchanged(tag: str, given: str | None) -> bool:
    """Return whether an If-None-Match header names the ETag."""
    tags: Sequence[str] = [one.strip().removeprefix("W/") for one in (given or "").split(",")]
    return tag in tags or "*" in tags


def _add(parent: Element, name: str, text: str) -> None:
    SubElement(parent, name).text = _clean(text)


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _write_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
