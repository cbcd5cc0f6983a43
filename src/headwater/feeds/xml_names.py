"""The element names of RSS, RDF and Atom fields, and the positions of these fields among the children of an element."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lxml import etree

# Every document is read as if it used these prefixes. The vocabularies of RSS and Atom have none.
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
# Limits of the caches, because a feed chooses its names.
_MAX_LAYOUTS = 500
_MAX_NAME_LENGTH = 200
_MAX_TAGS = 100
_MAX_TAGS_LENGTH = 4000  # characters of all tags of a layout

Names = dict[str, tuple[str, ...]]
# Each field with its possible names, the preferred name first.
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


@dataclass(slots=True)  # creating a frozen one takes three times as long
class Layout:
    """The positions of the children that each field is read from, the preferred child first."""

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
    """A cache of layouts, by the tags of the children. Most entries of a feed have the same tags."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def read_children(self, element: etree._Element) -> tuple[list[etree._Element], Layout]:
        """Return the children of an element and their layout."""
        children: list[etree._Element] = element[:]  # type: ignore[index, assignment]  # faster than list(element)
        return children, self[tuple([child.tag for child in children])]

    def __missing__(self, tags: tuple[object, ...]) -> Layout:
        layout = _make_layout(self._names, tags)
        if len(tags) <= _MAX_TAGS and sum(len(tag) for tag in tags if isinstance(tag, str)) <= _MAX_TAGS_LENGTH:
            if len(self) >= _MAX_LAYOUTS:
                self.clear()
            self[tags] = layout
        return layout


def _make_layout(names: Names, tags: Iterable[object]) -> Layout:
    by_tag = defaultdict(list)
    for position, tag in enumerate(tags):
        by_tag[tag].append(position)
    by_name: dict[str, list[int]] = {}
    for tag, positions in by_tag.items():
        name = plain_name(tag)
        by_name[name] = sorted([*by_name[name], *positions]) if name in by_name else positions
    fields: dict[str, list[int]] = {}
    for field, wanted in names.items():
        for name in wanted:
            if name in by_name:
                fields[field] = [*fields[field], *by_name[name]] if field in fields else by_name[name]
    return Layout(**fields)


def plain_name(tag: object) -> str:
    """Return the name of a tag in lower case, with our prefix for its vocabulary."""
    return _cached_name(tag) if not isinstance(tag, str) or len(tag) <= _MAX_NAME_LENGTH else _name_of(tag)


@lru_cache(maxsize=1024)
def _cached_name(tag: object) -> str:
    return _name_of(tag)


def _name_of(tag: object) -> str:
    if not isinstance(tag, str):  # a reference to an entity, which is never resolved
        return ""
    namespace, _, local = tag.lower().rpartition("}")
    if namespace:
        return _PREFIXES.get(namespace[1:], "other:") + local
    # The recovering parser leaves undeclared prefixes in the name.
    return local.removeprefix("rss:").removeprefix("atom:").removeprefix("rdf:")
