"""Read and write OPML, the subscription lists of feed readers. Many of these files are not well-formed XML."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from email.utils import format_datetime
from xml.sax.saxutils import escape, quoteattr

from headwater.core.charset import decode_xml
from headwater.core.errors import Unreadable
from headwater.core.text import one_line, unescape_html
from headwater.feeds.results import OpmlFeed

_START = re.compile(r"<!--.*?(?:-->|\Z)|<(?:[\w.-]+:)?(?P<opml>(?i:opml))(?=[\s/>])", re.DOTALL)
_OUTLINE = re.compile(
    r"<(?:!--.*?(?:-->|\Z)|!\[CDATA\[.*?(?:\]\]>|\Z)|(?P<end>/)?(?P<name>(?i:outline))(?=[\s/>]))", re.DOTALL
)
# The pattern skips a word that is not an attribute. A tag ends only before another OPML element, because descriptions
# may contain unescaped HTML with quotes and tags.
_ATTRIBUTE_OR_END = re.compile(
    r"([\w:.-]++)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'<>]++))|[\w:.-]++"
    r"|(?P<end>/?>)(?=\s*+(?:<(?:!|/?(?i:outline|body|opml)\b)|\Z))|(?P<next><)(?=(?i:outline)[\s/>])"
)
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_MAX_DEPTH = 20
_MAX_FOLDER_LENGTH = 200


def parse_opml(body: bytes) -> list[OpmlFeed]:
    """Return the feeds in an OPML file, in its order. Addresses are as written and are not checked.

    Raises Unreadable if the file is not OPML.
    """
    text = decode_xml(body, None)
    start = next((found for found in _START.finditer(text) if found["opml"]), None)
    if start is None:
        raise Unreadable("This is not OPML: it has no <opml> element.")
    return list(_read_outlines(text, start.end()))


def write_opml(feeds: Iterable[OpmlFeed], *, title: str, now: datetime) -> bytes:
    """Return an OPML file of these feeds. Their categories become nested folders."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<opml version="2.0">',
        f"<head><title>{escape(_NOT_XML.sub('', title))}</title>",
        f"<dateCreated>{format_datetime(now)}</dateCreated></head>",
        "<body>",
        *_write_outlines(feeds),
        "</body>",
        "</opml>",
    ]
    return "\n".join(lines).encode()


def _read_outlines(text: str, position: int) -> Iterator[OpmlFeed]:
    categories = [""]  # of each open outline
    while tag := _OUTLINE.search(text, position):
        position = tag.end()
        if tag["end"]:
            if len(categories) > 1:
                categories.pop()
        elif tag["name"]:
            attributes, position, is_empty = _read_attributes(text, position)
            title = one_line(attributes.get("title") or attributes.get("text") or "")
            category = categories[-1]
            if url := attributes.get("xmlurl"):
                yield OpmlFeed(url, title, attributes.get("htmlurl") or None, category)
            elif len(categories) <= _MAX_DEPTH:
                category = "/".join(_folders(f"{category}/{title[:_MAX_FOLDER_LENGTH]}"))
            if not is_empty:
                categories.append(category)


def _read_attributes(text: str, position: int) -> tuple[dict[str, str], int, bool]:
    attributes: dict[str, str] = {}
    for found in _ATTRIBUTE_OR_END.finditer(text, position):
        if found["end"]:
            return attributes, found.end(), found["end"] == "/>"
        if found["next"]:  # text follows the end of the tag, outside of any outline
            return attributes, found.start(), "/>" in text[position : found.start()]
        if name := found[1]:
            written = found[2] or found[3] or found[4] or ""
            attributes.setdefault(name.lower(), unescape_html(written, only_closed=True).strip())
    return attributes, len(text), True


def _write_outlines(feeds: Iterable[OpmlFeed]) -> Iterator[str]:
    opened: list[str] = []
    for feed in sorted(feeds, key=lambda feed: _folders(feed.category)):
        folders = _folders(feed.category)
        while opened != folders[: len(opened)]:
            opened.pop()
            yield "</outline>"
        for name in folders[len(opened) :]:
            opened.append(name)
            yield f"<outline {_attribute('text', name)}>"
        title = one_line(feed.title)
        parts = ['type="rss"', _attribute("text", title), _attribute("title", title), _attribute("xmlUrl", feed.url)]
        if feed.site_url:
            parts.append(_attribute("htmlUrl", feed.site_url))
        yield f"<outline {' '.join(parts)}/>"
    yield from ("</outline>" for _ in opened)


def _folders(category: str) -> list[str]:
    return [name for name in map(one_line, category.split("/")) if name]


def _attribute(name: str, value: str) -> str:
    return f"{name}={quoteattr(_NOT_XML.sub('', value))}"
