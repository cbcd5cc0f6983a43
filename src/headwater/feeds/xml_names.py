"""The names under which RSS, RDF and Atom have their fields, and where among an element's children those stand."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lxml import etree

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
_MOST_LAYOUTS = 500
_LONGEST_NAME = 200  # that is remembered
_MOST_TAGS = 100  # of one that is kept
_LONGEST_TAGS = 4000  # characters of those, together: the feed chooses them

Names = dict[str, tuple[str, ...]]
# For each field the names that it is looked for under, in this order.
RSS_CHANNEL: Names = {
    "title": ("title", "dc:title"),
    "link": ("link",),
    "published": ("pubdate", "dcterms:issued", "dcterms:created"),
    "updated": ("lastbuilddate", "dc:date", "dcterms:modified", "updated"),
    "language": ("language", "dc:language"),
    "ttl": ("ttl",),
    "channel": ("channel",),
    "entries": ("item",),
}
RSS_ITEM: Names = {
    "title": ("title", "dc:title", "media:title"),
    "link": ("link",),
    "published": ("pubdate", "published", "dc:date", "dcterms:issued", "dcterms:created", "issued"),
    "updated": ("updated", "dcterms:modified", "modified"),
    "summary": ("description", "content:encoded", "summary", "itunes:summary", "content"),
    "guid": ("guid", "id"),
    "people": ("author",),
    "author": ("author", "dc:creator", "itunes:author"),
    "tags": ("category", "dc:subject"),
    "pictures": ("media:content", "enclosure"),
    "thumbnails": ("media:thumbnail",),
}
ATOM_FEED: Names = {
    "title": ("title",),
    "link": ("link",),
    "published": ("published", "issued", "created"),
    "updated": ("updated", "modified"),
    "language": ("dc:language",),
    "people": ("author",),
    "entries": ("entry",),
}
ATOM_ENTRY: Names = {
    **RSS_ITEM,
    "title": ("title", "media:title"),
    "published": ("published", "issued", "created", "dc:date", "pubdate"),
    "updated": ("updated", "modified", "dcterms:modified"),
    "summary": ("summary", "content", "description"),
    "guid": ("id", "guid"),
    "author": ("dc:creator",),
}
PERSON: Names = {"author": ("name", "email")}


@dataclass(slots=True)  # not frozen: those take three times as long to make
class Layout:
    """Which of an element's children each field is read from, in the order in which they are asked."""

    title: Sequence[int] = ()
    link: Sequence[int] = ()
    published: Sequence[int] = ()
    updated: Sequence[int] = ()
    summary: Sequence[int] = ()
    guid: Sequence[int] = ()
    people: Sequence[int] = ()
    author: Sequence[int] = ()
    tags: Sequence[int] = ()
    pictures: Sequence[int] = ()
    thumbnails: Sequence[int] = ()
    language: Sequence[int] = ()
    ttl: Sequence[int] = ()
    channel: Sequence[int] = ()
    entries: Sequence[int] = ()


class Layouts(dict[tuple[object, ...], Layout]):
    """The layouts of elements of one sort, by the tags of their children: most entries of a feed have the same."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def laid_out(self, element: etree._Element) -> tuple[list[etree._Element], Layout]:
        """Return the children of an element, and which of them each field is read from."""
        children: list[etree._Element] = element[:]  # type: ignore[index, assignment]  # quicker than list(element)
        return children, self[tuple([child.tag for child in children])]

    def __missing__(self, tags: tuple[object, ...]) -> Layout:
        layout = _layout(self._names, tags)
        if len(tags) <= _MOST_TAGS and sum(len(tag) for tag in tags if isinstance(tag, str)) <= _LONGEST_TAGS:
            if len(self) >= _MOST_LAYOUTS:
                self.clear()
            self[tags] = layout
        return layout


def _layout(names: Names, tags: Iterable[object]) -> Layout:
    by_tag = defaultdict(list)
    for place, tag in enumerate(tags):
        by_tag[tag].append(place)
    by_name: dict[str, list[int]] = {}
    for tag, places in by_tag.items():
        name = plain_name(tag)
        by_name[name] = sorted([*by_name[name], *places]) if name in by_name else places
    fields: dict[str, list[int]] = {}
    for field, wanted in names.items():
        for name in wanted:
            if name in by_name:
                fields[field] = [*fields[field], *by_name[name]] if field in fields else by_name[name]
    return Layout(**fields)


def plain_name(tag: object) -> str:
    """Return a name without regard to case, with the prefix that we use for its vocabulary."""
    return _known_name(tag) if not isinstance(tag, str) or len(tag) <= _LONGEST_NAME else _name_of(tag)


@lru_cache(maxsize=1024)
def _known_name(tag: object) -> str:
    return _name_of(tag)


def _name_of(tag: object) -> str:
    if not isinstance(tag, str):  # a reference to an entity, which is never resolved
        return ""
    namespace, _, local = tag.lower().rpartition("}")
    if namespace:
        return _PREFIXES.get(namespace[1:], "other:") + local
    # undeclared prefixes stay in the name when a broken document is recovered
    return local.removeprefix("rss:").removeprefix("atom:").removeprefix("rdf:")
