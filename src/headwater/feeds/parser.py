"""Feeds: RSS 0.9x to 2.0, RDF, Atom and JSON Feed, well-formed or not."""

import re

from lxml import etree

from headwater.core.charset import decode_xml, is_utf8_xml
from headwater.core.errors import Unreadable
from headwater.core.html_depth import is_too_deep
from headwater.core.text import unescape_html
from headwater.feeds.body_description import BLANKS, not_a_feed, what_came
from headwater.feeds.deferred_text import DeferredText
from headwater.feeds.fallback import read_broken_feed
from headwater.feeds.feed import Feed
from headwater.feeds.json_feed import read_json_feed
from headwater.feeds.xml_feed import read_xml_feed

# A page as its first element tells it, past prolog, comments and document type.
_PAGE = re.compile(
    r"(?:\s|<\?[^>]*>|<!--(?:[^-]|-(?!->))*-->|<!(?i:doctype)[^>]*>)*<(?i:html|head|body|meta|title|script)\b"
)
# No document type, which is where entities are declared, before the first element.
_PLAIN_PROLOG = re.compile(rb"(?:\xef\xbb\xbf)?(?>\s*<\?.*?\?>)*+\s*<[a-zA-Z]", re.DOTALL)
_ENTITY_OF_ENTITIES = re.compile(rb"<!ENTITY\s+[^\s%][^>]*&[A-Za-z]")
_PROLOG_BYTES = 64 * 1024
_FEED_START = re.compile(r"<(?:\w+:)?(?i:rss|rdf|feed|channel)\b")
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_UNQUOTED = re.compile(r"(\s[\w:.-]+)=([^\s\"'<>]+)")
_CDATA_OR_AMPERSAND = re.compile(r"<!\[CDATA\[.*?(?:\]\]>|\Z)|&(?:#?\w+;)?", re.DOTALL)


def parse_feed(body: bytes, *, url: str, content_type: str | None = None) -> Feed:
    """Return the feed in `body`, which came from `url`.

    Raises Unreadable: with the reason NOT_A_FEED where there is none, and what came instead; PARSE_FAILED where it was
    made to do harm.
    """
    if _has_entities_of_entities(body):
        raise Unreadable(f"What came from {url} declares entities made of entities.", url=url)
    tried = body if is_utf8_xml(body, content_type) else b""
    feed = _read_well_formed(tried, url) if tried else None
    if feed is None:
        text = decode_xml(body, content_type).lstrip(BLANKS)
        feed = read_json_feed(text, url) if text.startswith("{") else _read_broken(text, url, tried)
    if feed is None:
        raise not_a_feed(url, what_came(body, content_type))
    return feed


def parse_feed_page(body: bytes, url: str, content_type: str | None) -> Feed:
    """Do the same for the sandbox, which hands arguments over by position."""
    return parse_feed(body, url=url, content_type=content_type)


def _has_entities_of_entities(body: bytes) -> bool:
    if _PLAIN_PROLOG.match(body, 0, _PROLOG_BYTES):
        return False
    return _ENTITY_OF_ENTITIES.search(body, 0, _PROLOG_BYTES) is not None


def _read_well_formed(document: bytes, url: str) -> Feed | None:
    lifted = DeferredText(document)
    root = _tree(lifted.document, _STRICT)
    try:
        return read_xml_feed(root, url, lifted) if root is not None else None
    except UnicodeDecodeError:  # in a text that was lifted past the parser
        return None


def _read_broken(text: str, url: str, tried: bytes) -> Feed | None:
    start = _FEED_START.search(text)
    if start is None or _PAGE.match(text):
        return None
    if is_too_deep(text):
        raise Unreadable(f"The elements of what came from {url} are nested too deep.", url=url)
    document = text.encode()
    feed = _read_well_formed(document, url) if document != tried else None
    feed = feed or _read_repaired(document[len(text[: start.start()].encode()) :], url)
    return feed if feed and any(entry.url for entry in feed.entries) else read_broken_feed(text, url) or feed


def _read_repaired(document: bytes, url: str) -> Feed | None:
    lifted = DeferredText(document)
    root = _tree(_repaired(lifted.document.decode()).encode(), _FORGIVING)
    try:
        return read_xml_feed(root, url, lifted) if root is not None else None
    except UnicodeDecodeError:
        # recovery lets references to surrogates through, and then their text cannot be had
        return None


def _parser(*, recover: bool) -> etree.XMLParser:
    return etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        recover=recover,
        remove_comments=True,
        remove_pis=True,
        collect_ids=False,
    )


# Kept, since a parser knows the names that it has met.
_STRICT = _parser(recover=False)
_FORGIVING = _parser(recover=True)


def _tree(document: bytes, parser: etree.XMLParser) -> etree._Element | None:
    try:
        return etree.fromstring(document, parser)
    except etree.XMLSyntaxError:
        return None


def _repaired(text: str) -> str:
    """Mend what recovery would throw away or choke on.

    That is control characters, references to characters that do not exist, entities of HTML, ampersands that stand
    bare, and attributes of the root without quotes.
    """
    root, end, rest = _CDATA_OR_AMPERSAND.sub(_escaped, _NOT_XML.sub("", text)).partition(">")
    return _UNQUOTED.sub(r'\1="\2"', root) + end + rest


def _escaped(match: re.Match[str]) -> str:
    found = match[0]
    if found.startswith("<"):
        return found
    meant = unescape_html(found)
    if meant == found:
        return "&#38;" + found[1:]
    # as numbers: once it has met an error, recovery drops every entity that has a name
    return "".join(f"&#{ord(character)};" for character in _NOT_XML.sub("", meant))
