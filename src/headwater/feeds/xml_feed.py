"""Read RSS 0.9x to 2.0, RDF and Atom from a parsed tree."""

import binascii
import html
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from lxml import etree

from headwater.core.dates import parse_date
from headwater.core.language import read_language
from headwater.core.text import one_line, plain_text, strip_markup
from headwater.feeds.deferred_text import DeferredText
from headwater.feeds.feed_fields import absolute_link, author_name, summary_text, ttl_seconds
from headwater.feeds.results import Feed, FeedEntry
from headwater.feeds.xml_names import (
    ATOM_ENTRY,
    ATOM_FEED,
    PERSON,
    RSS_CHANNEL,
    RSS_ITEM,
    Layout,
    Layouts,
    plain_name,
)

_Value = TypeVar("_Value")
_Elements = list[etree._Element]
_Positions = Sequence[int]

_XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_RDF_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_CHANNELS = Layouts(RSS_CHANNEL)
_FEEDS = Layouts(ATOM_FEED)
_ITEMS = Layouts(RSS_ITEM)
_ENTRIES = Layouts(ATOM_ENTRY)
_PERSONS = Layouts(PERSON)
_BASE64_TYPE = "application/octet-stream"
_MAX_TITLE_LENGTH = 20_000  # of markup
_HTML_TYPES = ("", "text/html", "application/xhtml+xml")


def read_xml_feed(root: etree._Element, url: str, deferred: DeferredText) -> Feed | None:
    """Return the feed in the tree of a document with deferred texts, or None if the tree is not a feed."""
    reader = _Reader(url, deferred)
    match plain_name(root.tag):
        case "rss" | "rdf" | "channel":
            return reader.rss(root)
        case "feed":
            return reader.atom(root)
    return None


class _Reader:
    def __init__(self, url: str, deferred: DeferredText) -> None:
        self._url = url
        self._deferred = deferred
        self._nonce = deferred.nonce
        # Entries of a feed repeat the same authors and tags, so each text is read once.
        self._authors = _Memo(author_name)
        self._tags = _Memo(plain_text)

    def rss(self, root: etree._Element) -> Feed | None:
        outer_children, outer = _CHANNELS.read_children(root)
        channel = outer_children[outer.channel[0]] if outer.channel else root
        children, layout = _CHANNELS.read_children(channel)
        if channel is root and plain_name(root.tag) == "rdf" and not layout.entries:
            return None
        link = self._rss_link(children, layout.link, _base(channel, self._url))
        language, region = read_language(self._text(children, layout.language))
        # RSS 1.0 has its items next to the channel, RSS 2.0 inside it. Some feeds have both.
        entries = self._rss_entries(children, layout.entries, channel, link)
        if channel is not root:
            entries += self._rss_entries(outer_children, outer.entries, root, link)
        return Feed(
            title=self._title(children, layout.title),
            entries=tuple(entries),
            link=link,
            language=language,
            region=region,
            published_at=self._date(children, layout.published),
            updated_at=self._date(children, layout.updated),
            ttl_seconds=ttl_seconds(self._text(children, layout.ttl)),
            hub=_find_link(children, layout.link, "hub", self._url),
        )

    def _rss_entries(
        self, children: _Elements, positions: _Positions, parent: etree._Element, link: str | None
    ) -> list[FeedEntry]:
        base = _base(parent, link or self._url)
        return [self._rss_entry(children[position], base) for position in positions]

    def _rss_entry(self, item: etree._Element, base: str) -> FeedEntry:
        children, layout = _ITEMS.read_children(item)
        base = _own_base(item, base)
        guid = self._text(children, layout.guid).strip()
        link = self._rss_link(children, layout.link, base)
        return FeedEntry(
            link or _permalink(children, layout.guid, guid) or absolute_link(item.get(_RDF_ABOUT), base),
            self._title(children, layout.title),
            self._date(children, layout.published),
            self._date(children, layout.updated),
            self._summary(children, layout.summary),
            guid if guid == link else one_line(guid) or None,
            self._author(children, layout),
            self._tags_of(children, layout.tags),
            _image(children, layout, base),
        )

    def atom(self, root: etree._Element) -> Feed:
        children, layout = _FEEDS.read_children(root)
        base = _base(root, self._url)
        author = self._author(children, layout)
        language, region = read_language(root.get(_XML_LANG, ""), self._text(children, layout.language))
        return Feed(
            title=self._title(children, layout.title),
            entries=tuple([self._atom_entry(children[position], base, author) for position in layout.entries]),
            link=_find_link(children, layout.link, "alternate", base),
            language=language,
            region=region,
            published_at=self._date(children, layout.published),
            updated_at=self._date(children, layout.updated),
            hub=_find_link(children, layout.link, "hub", base),
        )

    def _atom_entry(self, entry: etree._Element, base: str, feed_author: str | None) -> FeedEntry:
        children, layout = _ENTRIES.read_children(entry)
        guid = self._text(children, layout.guid).strip()
        return FeedEntry(
            _find_link(children, layout.link, "alternate", _own_base(entry, base))
            or _permalink(children, layout.guid, guid),
            self._title(children, layout.title),
            self._date(children, layout.published),
            self._date(children, layout.updated),
            self._summary(children, layout.summary),
            one_line(guid) or None,
            self._author(children, layout) or feed_author,
            self._tags_of(children, layout.tags),
            _image(children, layout, base),
        )

    def _rss_link(self, children: _Elements, positions: _Positions, base: str) -> str | None:
        for position in positions:
            text = children[position].text or ""
            if link := absolute_link(self._deferred.text(text) if self._nonce in text else text, base):
                return link
        return _find_link(children, positions, "alternate", base)

    def _author(self, children: _Elements, layout: Layout) -> str | None:
        names = self._people(children, layout.people) if layout.people else ""
        return names or self._authors[self._text(children, layout.author)]

    def _people(self, children: _Elements, positions: _Positions) -> str:
        people: dict[str | None, None] = {}
        for position in positions:
            person, person_layout = _PERSONS.read_children(children[position])
            if name := self._text(person, person_layout.author):
                people[self._authors[name]] = None
        return ", ".join(filter(None, people))

    def _tags_of(self, children: _Elements, positions: _Positions) -> tuple[str, ...]:
        if not positions:
            return ()
        tags = [children[position].get("term") or self._inner_text(children[position]) for position in positions]
        return tuple(dict.fromkeys(filter(None, map(self._tags.__getitem__, tags))))

    def _date(self, children: _Elements, positions: _Positions) -> datetime | None:
        for position in positions:
            if date := parse_date(self._inner_text(children[position])):
                return date
        return None

    def _text(self, children: _Elements, positions: _Positions) -> str:
        for position in positions:
            if text := self._inner_text(children[position]):
                return text
        return ""

    def _title(self, children: _Elements, positions: _Positions) -> str:
        for position in positions:
            element = children[position]
            markup = self._inner_markup(element, _MAX_TITLE_LENGTH)
            if title := strip_markup(markup) if len(element) else plain_text(markup):
                return title
        return ""

    def _summary(self, children: _Elements, positions: _Positions) -> str:
        for position in positions:
            if summary := summary_text(children[position], self._inner_markup):
                return summary
        return ""

    def _inner_text(self, element: etree._Element) -> str:
        text = ("".join(map(str, element.itertext())) if len(element) else element.text) or ""
        return self._deferred.text(text) if self._nonce in text else text

    def _inner_markup(self, element: etree._Element, length: int) -> str:
        """Return the beginning of the content of an element: HTML as text, XHTML, or HTML that should be escaped."""
        text = element.text or ""
        if len(element):
            markup = "".join(etree.tostring(child, encoding="unicode") for child in element)
            return self._deferred.markup(html.escape(text) + markup, length)
        text = self._deferred.text(text, length) if self._nonce in text else text[:length]
        is_base64 = element.keys() and (element.get("mode") == "base64" or element.get("type") == _BASE64_TYPE)
        return _decode_base64(text) if is_base64 else text


class _Memo(dict[str, _Value]):
    def __init__(self, function: Callable[[str], _Value]) -> None:
        self._function = function

    def __missing__(self, text: str) -> _Value:
        value = self[text] = self._function(text)
        return value


def _decode_base64(text: str) -> str:
    try:
        return binascii.a2b_base64(text).decode(errors="replace")
    except ValueError:
        return text


def _permalink(children: _Elements, positions: _Positions, guid: str) -> str | None:
    if guid[:4].lower() != "http":
        return None
    is_permalink = all(
        children[position].get("isPermaLink", "true").strip().lower() != "false" for position in positions
    )
    return absolute_link(guid, "") if is_permalink else None


def _image(children: _Elements, layout: Layout, base: str) -> str | None:
    """Return the address of the image of an entry. Full images come before thumbnails."""
    if not layout.pictures and not layout.thumbnails:
        return None
    for positions, default in ((layout.pictures, ""), (layout.thumbnails, "image")):
        for position in positions:
            element = children[position]
            medium = element.get("medium") or element.get("type") or default
            if medium.startswith("image") and (image := absolute_link(element.get("url"), base)):
                return image
    return None


def _find_link(children: _Elements, positions: _Positions, relation: str, base: str) -> str | None:
    """Return the first link of a relation. Links to pages come before links to other formats."""
    found = None
    for position in positions:
        element = children[position]
        href = element.get("href")
        if href is None or relation not in element.get("rel", "alternate").lower().split():
            continue
        link = absolute_link(href, _own_base(element, base))
        if link and element.get("type", "").lower() in _HTML_TYPES:
            return link
        found = found or link
    return found


def _base(element: etree._Element, base: str) -> str:
    for ancestor in reversed([element, *element.iterancestors()]):
        base = _own_base(ancestor, base)
    return base


def _own_base(element: etree._Element, base: str) -> str:
    own = element.get(_XML_BASE) if element.keys() else None
    return (absolute_link(own, base) if own else None) or base
