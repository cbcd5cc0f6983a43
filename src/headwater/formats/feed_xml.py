"""RSS 0.9x to 2.0, RDF and Atom, read from a parsed tree."""

import html
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache

from lxml import etree

from headwater.formats.feed_parts import (
    absolute_link,
    author_name,
    each_url_once,
    plain_tags,
    summary_text,
    ttl_seconds,
)
from headwater.model.feed import Feed, FeedEntry
from headwater.policy.dates import parse_date
from headwater.policy.text import one_line, plain_text, strip_markup

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
    "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes:",
}
_XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_RDF_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_HTML_TYPES = ("", "text/html", "application/xhtml+xml")


def read_xml_feed(root: etree._Element, url: str) -> Feed | None:
    """Return the feed that the tree holds, or None where it holds something else."""
    match _name(root.tag):
        case "rss" | "rdf" | "channel":
            return _read_rss(root, url)
        case "feed":
            return _read_atom(root, url)
    return None


def _read_rss(root: etree._Element, url: str) -> Feed | None:
    top = _fields(root)
    channel = top["channel"][0] if "channel" in top else root
    fields = _fields(channel)
    # RSS 1.0 has its items beside the channel, 2.0 inside it, and some have them in both places
    items = [*fields.get("item", []), *(top.get("item", []) if channel is not root else [])]
    if channel is root and _name(root.tag) == "rdf" and not items:
        return None
    link = _rss_link(fields, _base(channel, url))
    return Feed(
        title=_title(fields, "title", "dc:title"),
        entries=each_url_once(_rss_entry(item, _base(item, link or url)) for item in items),
        link=link,
        language=one_line(_text(fields, "language", "dc:language")) or None,
        ttl_seconds=ttl_seconds(_text(fields, "ttl")),
        hub=_linked(fields, "hub", url),
    )


def _rss_entry(item: etree._Element, base: str) -> FeedEntry | None:
    fields = _fields(item)
    guid = _text(fields, "guid", "id").strip()
    link = _rss_link(fields, base) or _permalink(fields, guid) or absolute_link(item.get(_RDF_ABOUT), base)
    if link is None:
        return None
    return FeedEntry(
        url=link,
        title=_title(fields, "title", "dc:title"),
        published_at=_date(fields, "pubdate", "published", "dc:date", "dcterms:issued", "dcterms:created", "issued"),
        updated_at=_date(fields, "updated", "dcterms:modified", "modified"),
        summary=_summary(fields, "description", "content:encoded", "summary", "itunes:summary", "content"),
        guid=one_line(guid) or None,
        author=_people(fields) or author_name(_text(fields, "author", "dc:creator", "itunes:author")),
        tags=plain_tags(_categories(fields)),
    )


def _rss_link(fields: Fields, base: str) -> str | None:
    for element in fields.get("link", ()):
        if link := absolute_link(element.text, base):
            return link
    return _linked(fields, "alternate", base)


def _permalink(fields: Fields, guid: str) -> str | None:
    is_permalink = all(
        element.get("isPermaLink", "true").strip().lower() != "false" for element in fields.get("guid", ())
    )
    return absolute_link(guid, "") if is_permalink and guid[:4].lower() == "http" else None


def _read_atom(root: etree._Element, url: str) -> Feed:
    fields = _fields(root)
    base = _base(root, url)
    author = _people(fields)
    return Feed(
        title=_title(fields, "title"),
        entries=each_url_once(_atom_entry(entry, _base(entry, url), author) for entry in fields.get("entry", ())),
        link=_linked(fields, "alternate", base),
        language=one_line(root.get(_XML_LANG, "")) or one_line(_text(fields, "dc:language")) or None,
        hub=_linked(fields, "hub", base),
    )


def _atom_entry(entry: etree._Element, base: str, feed_author: str | None) -> FeedEntry | None:
    fields = _fields(entry)
    guid = _text(fields, "id", "guid").strip()
    link = _linked(fields, "alternate", base) or _permalink(fields, guid)
    if link is None:
        return None
    return FeedEntry(
        url=link,
        title=_title(fields, "title"),
        published_at=_date(fields, "published", "issued", "created", "dc:date", "pubdate"),
        updated_at=_date(fields, "updated", "modified", "dcterms:modified"),
        summary=_summary(fields, "summary", "content", "description"),
        guid=one_line(guid) or None,
        author=_people(fields) or author_name(_text(fields, "dc:creator")) or feed_author,
        tags=plain_tags(_categories(fields)),
    )


def _linked(fields: Fields, relation: str, base: str) -> str | None:
    """Return the first link of a relation, one to a page before one to another representation of it."""
    found = None
    for element in fields.get("link", ()):
        href = element.get("href")
        if href is None or relation not in element.get("rel", "alternate").lower().split():
            continue
        link = absolute_link(href, _base(element, base, ancestors=False))
        if link and element.get("type", "").lower() in _HTML_TYPES:
            return link
        found = found or link
    return found


def _people(fields: Fields) -> str | None:
    """Return the names that Atom gives in elements of their own."""
    names: dict[str, None] = {}
    for person in fields.get("author", ()):
        about = _fields(person)
        if name := author_name(_text(about, "name", "email")):
            names[name] = None
    return ", ".join(names) or None


def _categories(fields: Fields) -> Iterator[str]:
    for element in fields.get("category", ()):
        yield element.get("term") or _inner_text(element)
    for element in fields.get("dc:subject", ()):
        yield _inner_text(element)


def _date(fields: Fields, *names: str) -> datetime | None:
    return next(filter(None, (parse_date(_inner_text(element)) for element in _elements(fields, names))), None)


def _text(fields: Fields, *names: str) -> str:
    """Return the text of the first of these elements that has one."""
    return next(filter(None, (_inner_text(element) for element in _elements(fields, names))), "")


def _title(fields: Fields, *names: str) -> str:
    for element in _elements(fields, names):
        if title := strip_markup(_inner_markup(element)) if len(element) else plain_text(element.text or ""):
            return title
    return ""


def _summary(fields: Fields, *names: str) -> str:
    for element in _elements(fields, names):
        if summary := summary_text(_inner_markup(element) if len(element) else element.text or ""):
            return summary
    return ""


def _elements(fields: Fields, names: tuple[str, ...]) -> Iterator[etree._Element]:
    for name in names:
        yield from fields.get(name, ())


def _inner_text(element: etree._Element) -> str:
    return "".join(map(str, element.itertext())) if len(element) else element.text or ""


def _inner_markup(element: etree._Element) -> str:
    """Return what an element holds that has its markup unescaped: XHTML, or HTML by mistake."""
    return html.escape(element.text or "") + "".join(etree.tostring(child, encoding="unicode") for child in element)


def _fields(element: etree._Element) -> Fields:
    fields: Fields = {}
    for child in element:
        if isinstance(child.tag, str):
            fields.setdefault(_name(child.tag), []).append(child)
    return fields


@lru_cache(maxsize=1024)
def _name(tag: str) -> str:
    """Return a name without regard to case, with the prefix that we use for its vocabulary."""
    namespace, _, local = tag.lower().rpartition("}")
    if namespace:
        return _PREFIXES.get(namespace[1:], "other:") + local
    # undeclared prefixes stay in the name when a broken document is recovered
    return local.removeprefix("rss:").removeprefix("atom:").removeprefix("rdf:")


def _base(element: etree._Element, base: str, *, ancestors: bool = True) -> str:
    """Return the base that `xml:base` makes of the given one."""
    bases = [element.get(_XML_BASE)]
    if ancestors:
        bases.extend(ancestor.get(_XML_BASE) for ancestor in element.iterancestors())
    for given in reversed(bases):
        base = (absolute_link(given, base) if given else None) or base
    return base
