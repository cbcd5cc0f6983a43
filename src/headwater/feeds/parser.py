"""Parse feeds: RSS 0.9x to 2.0, RDF, Atom and JSON Feed, well-formed or malformed."""

import re
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any

from lxml import etree

from headwater.core.charset import decode_xml, is_utf8_xml
from headwater.core.dates import parse_date
from headwater.core.errors import Unreadable
from headwater.core.language import read_language
from headwater.core.text import is_too_deep, one_line, plain_text, unescape_html
from headwater.feeds.body_description import BLANKS, describe_body, not_a_feed
from headwater.feeds.deferred_text import DeferredText
from headwater.feeds.feed_fields import absolute_link, author_name, plain_tags, slice_text, summary_text, ttl_seconds
from headwater.feeds.json_feed import read_json_feed
from headwater.feeds.results import Feed, FeedEntry
from headwater.feeds.xml_feed import read_xml_feed

# The first element of an HTML page, after prolog, comments and document type.
_PAGE = re.compile(
    r"(?:\s|<\?[^>]*>|<!--(?:[^-]|-(?!->))*-->|<!(?i:doctype)[^>]*>)*<(?i:html|head|body|meta|title|script)\b"
)
# A prolog without a document type. Only a document type can declare entities.
_PLAIN_PROLOG = re.compile(rb"(?:\xef\xbb\xbf)?(?>\s*<\?.*?\?>)*+\s*<[a-zA-Z]", re.DOTALL)
_ENTITY_OF_ENTITIES = re.compile(rb"<!ENTITY\s+[^\s%][^>]*&[A-Za-z]")
_PROLOG_BYTES = 64 * 1024
_END_LENGTH = 1000  # characters; comments may follow the last element
_FEED_START = re.compile(r"<(?:\w+:)?(?i:rss|rdf|feed|channel)\b")
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_UNQUOTED_ATTRIBUTE = re.compile(r"(\s[\w:.-]+)=([^\s\"'<>]+)")
_CDATA_OR_AMPERSAND = re.compile(r"<!\[CDATA\[.*?(?:\]\]>|\Z)|&(?:#?\w+;)?", re.DOTALL)


def parse_feed(body: bytes, url: str, content_type: str | None = None) -> Feed:
    """Return the feed in `body`, which is the answer of `url`.

    Raises Unreadable with the reason NOT_A_FEED if the body is something else. The message describes the body.
    Raises Unreadable with the reason PARSE_FAILED if the body is built to do harm.
    """
    if _has_nested_entities(body):
        raise Unreadable(f"The answer of {url} declares entities made of entities.", url=url)
    tried = body if is_utf8_xml(body, content_type) else b""
    feed = _read_well_formed(tried, url) if tried else None
    if feed is None:
        text = decode_xml(body, content_type).lstrip(BLANKS)
        feed = read_json_feed(text, url) if text.startswith("{") else _read_malformed(text, url, tried)
    if feed is None:
        raise not_a_feed(url, describe_body(body, content_type))
    return feed


def _has_nested_entities(body: bytes) -> bool:
    if _PLAIN_PROLOG.match(body, 0, _PROLOG_BYTES):
        return False
    return _ENTITY_OF_ENTITIES.search(body, 0, _PROLOG_BYTES) is not None


def _read_well_formed(document: bytes, url: str) -> Feed | None:
    deferred = DeferredText(document)
    return _read_tree(_parse(deferred.document, _STRICT), url, deferred)


def _read_malformed(text: str, url: str, tried: bytes) -> Feed | None:
    start = _FEED_START.search(text)
    if start is None or _PAGE.match(text):
        return None
    if is_too_deep(text):
        raise Unreadable(f"The elements in the answer of {url} are nested too deep.", url=url)
    document = text.encode()
    if document != tried and (feed := _read_well_formed(document, url)):
        return feed
    feed = _read_repaired(document[len(text[: start.start()].encode()) :], url)
    if not feed or not any(entry.url for entry in feed.entries):
        feed = _read_with_feedparser(text, url) or feed
    return replace(feed, is_malformed=True, is_truncated=_is_truncated(text, start)) if feed else None


def _is_truncated(text: str, start: re.Match[str]) -> bool:
    """Return whether the end tag of the first element is missing at the end of a feed."""
    name = start[0][1:]
    return f"</{name}" not in text[-_END_LENGTH:]


def _read_repaired(document: bytes, url: str) -> Feed | None:
    deferred = DeferredText(document)
    return _read_tree(_parse(_repair(deferred.document.decode()).encode(), _FORGIVING), url, deferred)


def _read_tree(root: etree._Element | None, url: str, deferred: DeferredText) -> Feed | None:
    try:
        return read_xml_feed(root, url, deferred) if root is not None else None
    except UnicodeDecodeError:
        # A deferred text is not UTF-8, or the recovering parser accepted a reference to a surrogate.
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


# A parser remembers the names that it has met, so the same two are used for all documents.
_STRICT = _parser(recover=False)
_FORGIVING = _parser(recover=True)


def _parse(document: bytes, parser: etree.XMLParser) -> etree._Element | None:
    try:
        return etree.fromstring(document, parser)
    except etree.XMLSyntaxError:
        return None


def _repair(text: str) -> str:
    """Fix the errors that the recovering parser drops text for.

    These are control characters, references to characters that do not exist, HTML entities, bare ampersands, and
    root attributes without quotes.
    """
    root, end, rest = _CDATA_OR_AMPERSAND.sub(_escape_reference, _NOT_XML.sub("", text)).partition(">")
    return _UNQUOTED_ATTRIBUTE.sub(r'\1="\2"', root) + end + rest


def _escape_reference(match: re.Match[str]) -> str:
    found = match[0]
    if found.startswith("<"):
        return found
    characters = unescape_html(found)
    if characters == found:
        return "&#38;" + found[1:]
    # Numbers, because after an error the recovering parser drops every named entity.
    return "".join(f"&#{ord(character)};" for character in _NOT_XML.sub("", characters))


def _read_with_feedparser(text: str, url: str) -> Feed | None:
    """Read a feed that is too malformed for the XML parser. feedparser is slow, so it is the last attempt."""
    # feedparser takes longer to load than all other modules together, and few feeds need it.
    import feedparser

    headers = {"content-type": "application/xml; charset=utf-8", "content-location": url}
    try:
        # Pass a stream: feedparser would treat short bytes as a file name or an address.
        parsed = feedparser.parse(BytesIO(text.encode()), response_headers=headers, sanitize_html=False)
    except Exception:  # noqa: BLE001 - malformed documents make it raise exceptions of many types
        return None
    if not parsed.version and not parsed.entries:
        return None
    about = parsed.feed
    hubs = [_string(link, "href") for link in about.get("links", ()) if link.get("rel") == "hub"]
    language, region = read_language(_string(about, "language"))
    return Feed(
        title=plain_text(_string(about, "title")),
        entries=tuple(_feedparser_entry(entry, url) for entry in parsed.entries),
        link=absolute_link(_string(about, "link"), url),
        language=language,
        region=region,
        ttl_seconds=ttl_seconds(_string(about, "ttl")),
        hub=absolute_link(hubs[0], url) if hubs else None,
    )


def _feedparser_entry(entry: Mapping[str, Any], base: str) -> FeedEntry:
    content = next((_string(part, "value") for part in entry.get("content", ())), "")
    summary = _string(entry, "summary") or content
    return FeedEntry(
        url=absolute_link(_string(entry, "link"), base),
        title=plain_text(_string(entry, "title")),
        # Use the raw text: feedparser completes partial dates with values of its own.
        published_at=parse_date(_string(entry, "published")),
        updated_at=parse_date(_string(entry, "updated")) if "updated" in entry else None,
        summary=summary_text(summary, slice_text),
        guid=one_line(_string(entry, "id")) or None,
        author=author_name(_string(entry, "author")),
        tags=plain_tags(_string(tag, "term") for tag in entry.get("tags", ())),
    )


def _string(owner: Mapping[str, Any], name: str) -> str:
    value = owner.get(name)
    return value if isinstance(value, str) else ""
