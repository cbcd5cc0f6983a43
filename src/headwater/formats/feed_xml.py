"""RSS 0.9x to 2.0, RDF and Atom, read from a parsed tree."""

import binascii
import html
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache, partial
from typing import TypeVar

from lxml import etree

from headwater.formats.feed_lift import Lifted
from headwater.formats.feed_parts import (
    absolute_link,
    author_name,
    summary_text,
    ttl_seconds,
)
from headwater.model.feed import Feed, FeedEntry
from headwater.policy.dates import parse_date
from headwater.policy.text import one_line, plain_text, strip_markup

_Value = TypeVar("_Value")
Fields = dict[str, list[etree._Element]]

# Names are read as if every document used these prefixes; the vocabularies of RSS and Atom themselves need none.
_PREFIXES = {
    "http://backend.userland.com/rss": "",
    "http://backend.userland.com/rss091": "",
    "http://backend.userland.com/rss2": "",
    "http://blogs.law.harvard.edu/tech/rss": "",
    "http://channel.netscape.com/rdf/simple/0.9/": "",
    "http://my.netscape.com/publish/formats/rss-0.91.dtd": "",
    "http://my.netscape.com/rdf/simple/0.9/": "",
    "http://purl.org/atom/ns#": "",
    "http://purl.org/net/rss1.1#": "",
    "http://purl.org/rss/1.0/": "",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "",
    "http://www.w3.org/2005/atom": "",
    "http://purl.org/dc/elements/1.0/": "dc:",
    "http://purl.org/dc/elements/1.1/": "dc:",
    "http://purl.org/dc/terms/": "dcterms:",
    "http://purl.org/rss/1.0/modules/content/": "content:",
    "http://search.yahoo.com/mrss/": "media:",
    "http://search.yahoo.com/mrss": "media:",
    "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes:",
}
_XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_RDF_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
# Where a field is looked for, in this order.
_RSS_TITLE = ("title", "dc:title")
_RSS_ITEM_TITLE = ("title", "dc:title", "media:title")
_RSS_PUBLISHED = ("pubdate", "published", "dc:date", "dcterms:issued", "dcterms:created", "issued")
_RSS_UPDATED = ("updated", "dcterms:modified", "modified")
_RSS_SUMMARY = ("description", "content:encoded", "summary", "itunes:summary", "content")
_PICTURES = ("media:content", "enclosure", "media:thumbnail")
_RSS_AUTHOR = ("author", "dc:creator", "itunes:author")
_GUID = ("guid", "id")
_ATOM_ID = ("id", "guid")
_ATOM_TITLE = ("title", "media:title")
_ATOM_PUBLISHED = ("published", "issued", "created", "dc:date", "pubdate")
_ATOM_UPDATED = ("updated", "modified", "dcterms:modified")
_ATOM_SUMMARY = ("summary", "content", "description")
_ATOM_AUTHOR = ("dc:creator",)
_PERSON = ("name", "email")
_BASE64_TYPE = "application/octet-stream"
_LONGEST_TITLE = 20_000  # of markup
_HTML_TYPES = ("", "text/html", "application/xhtml+xml")


def read_xml_feed(root: etree._Element, url: str, lifted: Lifted) -> Feed | None:
    """Return the feed that the tree of a lifted document holds, or None where it holds something else."""
    reader = _Reader(url, lifted)
    match _name(root.tag):
        case "rss" | "rdf" | "channel":
            return reader.rss(root)
        case "feed":
            return reader.atom(root)
    return None


class _Reader:
    def __init__(self, url: str, lifted: Lifted) -> None:
        self._url = url
        self._lifted = lifted
        self._nonce = lifted.nonce
        # by the text they are read from: the entries of a feed share them
        self._authors = _Memo(author_name)
        self._tags = _Memo(plain_text)

    def rss(self, root: etree._Element) -> Feed | None:
        top = _fields(root)
        channel = top["channel"][0] if "channel" in top else root
        fields = _fields(channel)
        # RSS 1.0 has its items beside the channel, 2.0 inside it, and some have them in both places
        inside, beside = fields.get("item", []), top.get("item", []) if channel is not root else []
        if channel is root and _name(root.tag) == "rdf" and not inside:
            return None
        link = self._rss_link(fields, _base(channel, self._url))
        return Feed(
            title=self._title(fields, _RSS_TITLE),
            entries=(*self._rss_entries(inside, channel, link), *self._rss_entries(beside, root, link)),
            link=link,
            language=one_line(self._text(fields, ("language", "dc:language"))) or None,
            published_at=self._date(fields, ("pubdate", "dcterms:issued", "dcterms:created")),
            updated_at=self._date(fields, ("lastbuilddate", "dc:date", "dcterms:modified", "updated")),
            ttl_seconds=ttl_seconds(self._text(fields, ("ttl",))),
            hub=_linked(fields, "hub", self._url),
        )

    def _rss_entries(self, items: list[etree._Element], parent: etree._Element, link: str | None) -> list[FeedEntry]:
        base = _base(parent, link or self._url)
        return [self._rss_entry(item, base) for item in items]

    def _rss_entry(self, item: etree._Element, base: str) -> FeedEntry:
        fields = _fields(item)
        base = _own_base(item, base)
        guid = self._text(fields, _GUID).strip()
        return FeedEntry(
            self._rss_link(fields, base) or _permalink(fields, guid) or absolute_link(item.get(_RDF_ABOUT), base),
            self._title(fields, _RSS_ITEM_TITLE),
            self._date(fields, _RSS_PUBLISHED),
            self._date(fields, _RSS_UPDATED),
            self._summary(fields, _RSS_SUMMARY),
            one_line(guid) or None,
            self._author(fields, _RSS_AUTHOR),
            self._tags_of(fields),
            _image(fields, base),
        )

    def atom(self, root: etree._Element) -> Feed:
        fields = _fields(root)
        base = _base(root, self._url)
        author = self._author(fields, ())
        return Feed(
            title=self._title(fields, ("title",)),
            entries=tuple([self._atom_entry(entry, base, author) for entry in fields.get("entry", ())]),
            link=_linked(fields, "alternate", base),
            language=one_line(root.get(_XML_LANG, "")) or one_line(self._text(fields, ("dc:language",))) or None,
            published_at=self._date(fields, ("published", "issued", "created")),
            updated_at=self._date(fields, ("updated", "modified")),
            hub=_linked(fields, "hub", base),
        )

    def _atom_entry(self, entry: etree._Element, base: str, feed_author: str | None) -> FeedEntry:
        fields = _fields(entry)
        guid = self._text(fields, _ATOM_ID).strip()
        return FeedEntry(
            _linked(fields, "alternate", _own_base(entry, base)) or _permalink(fields, guid),
            self._title(fields, _ATOM_TITLE),
            self._date(fields, _ATOM_PUBLISHED),
            self._date(fields, _ATOM_UPDATED),
            self._summary(fields, _ATOM_SUMMARY),
            one_line(guid) or None,
            self._author(fields, _ATOM_AUTHOR) or feed_author,
            self._tags_of(fields),
            _image(fields, base),
        )

    def _rss_link(self, fields: Fields, base: str) -> str | None:
        for element in fields.get("link", ()):
            text = element.text or ""
            if link := absolute_link(self._lifted.text(text) if self._nonce in text else text, base):
                return link
        return _linked(fields, "alternate", base)

    def _author(self, fields: Fields, names: tuple[str, ...]) -> str | None:
        """Return the names that Atom gives in elements of their own, else the first text under one of these names."""
        people: dict[str | None, None] = {}
        for person in fields.get("author", ()):
            if len(person) and (name := self._text(_fields(person), _PERSON)):
                people[self._authors[name]] = None
        together = ", ".join(filter(None, people)) if people else ""
        return together or self._authors[self._text(fields, names)]

    def _tags_of(self, fields: Fields) -> tuple[str, ...]:
        if "category" not in fields and "dc:subject" not in fields:
            return ()
        tags = [element.get("term") or self._inner_text(element) for element in fields.get("category", ())]
        tags += [self._inner_text(element) for element in fields.get("dc:subject", ())]
        return tuple(dict.fromkeys(filter(None, map(self._tags.__getitem__, tags))))

    def _date(self, fields: Fields, names: tuple[str, ...]) -> datetime | None:
        for name in names:
            for element in fields.get(name, ()):
                if date := parse_date(self._inner_text(element)):
                    return date
        return None

    def _text(self, fields: Fields, names: tuple[str, ...]) -> str:
        """Return the text of the first of these elements that has one."""
        for name in names:
            for element in fields.get(name, ()):
                if text := self._inner_text(element):
                    return text
        return ""

    def _title(self, fields: Fields, names: tuple[str, ...]) -> str:
        for name in names:
            for element in fields.get(name, ()):
                markup = self._inner_markup(element, _LONGEST_TITLE)
                if title := strip_markup(markup) if len(element) else plain_text(markup):
                    return title
        return ""

    def _summary(self, fields: Fields, names: tuple[str, ...]) -> str:
        for name in names:
            for element in fields.get(name, ()):
                if summary := summary_text(partial(self._inner_markup, element)):
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


def _permalink(fields: Fields, guid: str) -> str | None:
    is_permalink = all(
        element.get("isPermaLink", "true").strip().lower() != "false" for element in fields.get("guid", ())
    )
    return absolute_link(guid, "") if is_permalink and guid[:4].lower() == "http" else None


def _image(fields: Fields, base: str) -> str | None:
    """Return the picture that comes with an entry, the larger ones first."""
    for name in _PICTURES:
        for element in fields.get(name, ()):
            kind = element.get("medium") or element.get("type") or ("image" if name == "media:thumbnail" else "")
            if kind.startswith("image") and (image := absolute_link(element.get("url"), base)):
                return image
    return None


def _linked(fields: Fields, relation: str, base: str) -> str | None:
    """Return the first link of a relation, one to a page before one to another representation of it."""
    found = None
    for element in fields.get("link", ()):
        href = element.get("href")
        if href is None or relation not in element.get("rel", "alternate").lower().split():
            continue
        link = absolute_link(href, _own_base(element, base))
        if link and element.get("type", "").lower() in _HTML_TYPES:
            return link
        found = found or link
    return found


def _fields(element: etree._Element) -> Fields:
    fields: Fields = {}
    for child in element:
        name = _name(child.tag)
        if name in fields:
            fields[name].append(child)
        else:
            fields[name] = [child]
    return fields


@lru_cache(maxsize=1024)
def _name(tag: object) -> str:
    """Return a name without regard to case, with the prefix that we use for its vocabulary."""
    if not isinstance(tag, str):  # a reference to an entity, which is never resolved
        return ""
    namespace, _, local = tag.lower().rpartition("}")
    if namespace:
        return _PREFIXES.get(namespace[1:], "other:") + local
    # undeclared prefixes stay in the name when a broken document is recovered
    return local.removeprefix("rss:").removeprefix("atom:").removeprefix("rdf:")


def _base(element: etree._Element, base: str) -> str:
    """Return the base that `xml:base` makes of the given one, on an element and all that it is in."""
    for ancestor in reversed([element, *element.iterancestors()]):
        base = _own_base(ancestor, base)
    return base


def _own_base(element: etree._Element, base: str) -> str:
    given = element.get(_XML_BASE)
    return (absolute_link(given, base) if given else None) or base
