"""RSS 0.9x to 2.0, RDF and Atom, read from a parsed tree."""

import binascii
import html
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from lxml import etree

from headwater.core.dates import parse_date
from headwater.core.text import one_line, plain_text, strip_markup
from headwater.feeds.deferred_text import DeferredText
from headwater.feeds.feed import Feed, FeedEntry
from headwater.feeds.feed_fields import (
    absolute_link,
    author_name,
    summary_text,
    ttl_seconds,
)
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
_Places = Sequence[int]

_XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_RDF_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_CHANNELS = Layouts(RSS_CHANNEL)
_FEEDS = Layouts(ATOM_FEED)
_ITEMS = Layouts(RSS_ITEM)
_ENTRIES = Layouts(ATOM_ENTRY)
_PERSONS = Layouts(PERSON)
_BASE64_TYPE = "application/octet-stream"
_LONGEST_TITLE = 20_000  # of markup
_HTML_TYPES = ("", "text/html", "application/xhtml+xml")


def read_xml_feed(root: etree._Element, url: str, lifted: DeferredText) -> Feed | None:
    """Return the feed that the tree of a lifted document holds, or None where it holds something else."""
    reader = _Reader(url, lifted)
    match plain_name(root.tag):
        case "rss" | "rdf" | "channel":
            return reader.rss(root)
        case "feed":
            return reader.atom(root)
    return None


class _Reader:
    def __init__(self, url: str, lifted: DeferredText) -> None:
        self._url = url
        self._lifted = lifted
        self._nonce = lifted.nonce
        # by the text they are read from: the entries of a feed share them
        self._authors = _Memo(author_name)
        self._tags = _Memo(plain_text)

    def rss(self, root: etree._Element) -> Feed | None:
        top, beside = _CHANNELS.laid_out(root)
        channel = top[beside.channel[0]] if beside.channel else root
        parts, places = _CHANNELS.laid_out(channel)
        if channel is root and plain_name(root.tag) == "rdf" and not places.entries:
            return None
        link = self._rss_link(parts, places.link, _base(channel, self._url))
        # RSS 1.0 has its items beside the channel, 2.0 inside it, and some have them in both places
        entries = self._rss_entries(parts, places.entries, channel, link)
        if channel is not root:
            entries += self._rss_entries(top, beside.entries, root, link)
        return Feed(
            title=self._title(parts, places.title),
            entries=tuple(entries),
            link=link,
            language=one_line(self._text(parts, places.language)) or None,
            published_at=self._date(parts, places.published),
            updated_at=self._date(parts, places.updated),
            ttl_seconds=ttl_seconds(self._text(parts, places.ttl)),
            hub=_linked(parts, places.link, "hub", self._url),
        )

    def _rss_entries(
        self, parts: _Elements, places: _Places, parent: etree._Element, link: str | None
    ) -> list[FeedEntry]:
        base = _base(parent, link or self._url)
        return [self._rss_entry(parts[place], base) for place in places]

    def _rss_entry(self, item: etree._Element, base: str) -> FeedEntry:
        parts, places = _ITEMS.laid_out(item)
        base = _own_base(item, base)
        guid = self._text(parts, places.guid).strip()
        link = self._rss_link(parts, places.link, base)
        return FeedEntry(
            link or _permalink(parts, places.guid, guid) or absolute_link(item.get(_RDF_ABOUT), base),
            self._title(parts, places.title),
            self._date(parts, places.published),
            self._date(parts, places.updated),
            self._summary(parts, places.summary),
            guid if guid == link else one_line(guid) or None,
            self._author(parts, places),
            self._tags_of(parts, places.tags),
            _image(parts, places, base),
        )

    def atom(self, root: etree._Element) -> Feed:
        parts, places = _FEEDS.laid_out(root)
        base = _base(root, self._url)
        author = self._author(parts, places)
        return Feed(
            title=self._title(parts, places.title),
            entries=tuple([self._atom_entry(parts[place], base, author) for place in places.entries]),
            link=_linked(parts, places.link, "alternate", base),
            language=one_line(root.get(_XML_LANG, "")) or one_line(self._text(parts, places.language)) or None,
            published_at=self._date(parts, places.published),
            updated_at=self._date(parts, places.updated),
            hub=_linked(parts, places.link, "hub", base),
        )

    def _atom_entry(self, entry: etree._Element, base: str, feed_author: str | None) -> FeedEntry:
        parts, places = _ENTRIES.laid_out(entry)
        guid = self._text(parts, places.guid).strip()
        return FeedEntry(
            _linked(parts, places.link, "alternate", _own_base(entry, base)) or _permalink(parts, places.guid, guid),
            self._title(parts, places.title),
            self._date(parts, places.published),
            self._date(parts, places.updated),
            self._summary(parts, places.summary),
            one_line(guid) or None,
            self._author(parts, places) or feed_author,
            self._tags_of(parts, places.tags),
            _image(parts, places, base),
        )

    def _rss_link(self, parts: _Elements, places: _Places, base: str) -> str | None:
        for place in places:
            text = parts[place].text or ""
            if link := absolute_link(self._lifted.text(text) if self._nonce in text else text, base):
                return link
        return _linked(parts, places, "alternate", base)

    def _author(self, parts: _Elements, places: Layout) -> str | None:
        """Return the names that Atom gives in elements of their own, else the first text that names an author."""
        together = self._people(parts, places.people) if places.people else ""
        return together or self._authors[self._text(parts, places.author)]

    def _people(self, parts: _Elements, places: _Places) -> str:
        people: dict[str | None, None] = {}
        for place in places:
            person, named = _PERSONS.laid_out(parts[place])
            if name := self._text(person, named.author):
                people[self._authors[name]] = None
        return ", ".join(filter(None, people))

    def _tags_of(self, parts: _Elements, places: _Places) -> tuple[str, ...]:
        if not places:
            return ()
        tags = [parts[place].get("term") or self._inner_text(parts[place]) for place in places]
        return tuple(dict.fromkeys(filter(None, map(self._tags.__getitem__, tags))))

    def _date(self, parts: _Elements, places: _Places) -> datetime | None:
        for place in places:
            if date := parse_date(self._inner_text(parts[place])):
                return date
        return None

    def _text(self, parts: _Elements, places: _Places) -> str:
        """Return the text of the first of these elements that has one."""
        for place in places:
            if text := self._inner_text(parts[place]):
                return text
        return ""

    def _title(self, parts: _Elements, places: _Places) -> str:
        for place in places:
            element = parts[place]
            markup = self._inner_markup(element, _LONGEST_TITLE)
            if title := strip_markup(markup) if len(element) else plain_text(markup):
                return title
        return ""

    def _summary(self, parts: _Elements, places: _Places) -> str:
        for place in places:
            if summary := summary_text(parts[place], self._inner_markup):
                return summary
        return ""

    def _inner_text(self, element: etree._Element) -> str:
        text = ("".join(map(str, element.itertext())) if len(element) else element.text) or ""
        return self._lifted.text(text) if self._nonce in text else text

    def _inner_markup(self, element: etree._Element, length: int) -> str:
        """Return the beginning of what an element holds: HTML as text, or XHTML, or HTML unescaped by mistake."""
        text = element.text or ""
        if len(element):
            children = "".join(etree.tostring(child, encoding="unicode") for child in element)
            return self._lifted.markup(html.escape(text) + children, length)
        text = self._lifted.text(text, length) if self._nonce in text else text[:length]
        return _decoded(text) if element.keys() and _is_base64(element) else text


class _Memo(dict[str, _Value]):
    """What a function says of a text, asked once for each."""

    def __init__(self, function: Callable[[str], _Value]) -> None:
        self._function = function

    def __missing__(self, text: str) -> _Value:
        value = self[text] = self._function(text)
        return value


def _is_base64(element: etree._Element) -> bool:
    return element.get("mode") == "base64" or element.get("type") == _BASE64_TYPE


def _decoded(text: str) -> str:
    try:
        return binascii.a2b_base64(text).decode(errors="replace")
    except ValueError:
        return text


def _permalink(parts: _Elements, places: _Places, guid: str) -> str | None:
    if guid[:4].lower() != "http":
        return None
    is_permalink = all(parts[place].get("isPermaLink", "true").strip().lower() != "false" for place in places)
    return absolute_link(guid, "") if is_permalink else None


def _image(parts: _Elements, places: Layout, base: str) -> str | None:
    """Return the picture that comes with an entry, the larger ones first."""
    if not places.pictures and not places.thumbnails:
        return None
    for candidates, usual in ((places.pictures, ""), (places.thumbnails, "image")):
        for place in candidates:
            element = parts[place]
            kind = element.get("medium") or element.get("type") or usual
            if kind.startswith("image") and (image := absolute_link(element.get("url"), base)):
                return image
    return None


def _linked(parts: _Elements, places: _Places, relation: str, base: str) -> str | None:
    """Return the first link of a relation, one to a page before one to another representation of it."""
    found = None
    for place in places:
        element = parts[place]
        href = element.get("href")
        if href is None or relation not in element.get("rel", "alternate").lower().split():
            continue
        link = absolute_link(href, _own_base(element, base))
        if link and element.get("type", "").lower() in _HTML_TYPES:
            return link
        found = found or link
    return found


def _base(element: etree._Element, base: str) -> str:
    """Return the base that `xml:base` makes of the given one, on an element and all that it is in."""
    for ancestor in reversed([element, *element.iterancestors()]):
        base = _own_base(ancestor, base)
    return base


def _own_base(element: etree._Element, base: str) -> str:
    given = element.get(_XML_BASE) if element.keys() else None
    return (absolute_link(given, base) if given else None) or base
