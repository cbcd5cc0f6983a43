"""Sitemaps: XML, plain text, and feeds that serve as one; compressed or not, well-formed or not."""

import codecs
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from headwater.core.charset import xml_codec
from headwater.core.errors import HeadwaterError, InvalidURL, Unreadable
from headwater.core.inflate import GZIP_MAGIC, BadEncoding, Inflater
from headwater.core.reasons import Reason
from headwater.core.urls import MAX_URL_LENGTH, host_of, join_url
from headwater.feeds.parser import parse_feed
from headwater.feeds.sitemap_entry import SitemapEntry, SitemapRef
from headwater.feeds.sitemap_xml import scan_sitemap

# The protocol allows 50,000 addresses and 50 MB; those who do not know write more.
MAX_ENTRIES = 250_000
MAX_BYTES = 100 * 1000 * 1000
_MAX_FEED_BYTES = 20 * 1024 * 1024
_STEP = 64 * 1024
_HEAD_BYTES = 64 * 1024  # in which the root element must start

# What may stand where a root element should, and the comments that may hide it.
_LANDMARK = re.compile(
    r"<!--.*?(?:-->|\Z)|<(?:(?P<page>(?i:!doctype\s++html\b|(?:[\w.-]+:)?(?:html|head|body)(?=[\s/>])))"
    r"|!(?P<doctype>(?i:doctype))|(?:[\w.-]+:)?(?i:(?P<sitemap>urlset|sitemapindex)|(?P<feed>rss|rdf|feed))(?=[\s/>]))",
    re.DOTALL,
)
_ADDRESS = re.compile(r"https?://\S++", re.IGNORECASE)
_FIRST_LINE = re.compile(r"https?://\S++[ \t]*+(?:[\r\n]|\Z)", re.IGNORECASE)


def parse_sitemap(body: bytes | Iterable[bytes], *, url: str) -> Iterator[SitemapEntry | SitemapRef]:
    """Yield what the sitemap at `url` lists, as it is read; what is no usable address is left out.

    Raises Unreadable where it is not a sitemap, and, after all that could be read, where it breaks off, cannot be
    decompressed to its end, or is far larger than the protocol allows; InvalidURL where `url` cannot be used.
    """
    host_of(url)
    source = _Source(body, url)
    try:
        for count, entry in enumerate(_read(source, url)):
            if count == MAX_ENTRIES:
                message = f"The sitemap lists more than {MAX_ENTRIES:,} addresses."
                raise Unreadable(message, reason=Reason.BODY_TOO_LARGE, url=url)
            if entry is not None:
                yield entry
    except HeadwaterError as error:
        # what is wrong with the bytes explains what is wrong with the text
        raise source.problem or error from None
    if source.problem:
        raise source.problem


class _Source:
    """The bytes, decompressed, in pieces. They end where something is wrong with them, which is then told."""

    def __init__(self, body: bytes | Iterable[bytes], url: str) -> None:
        self.problem: Unreadable | None = None
        self._url = url
        self._pieces = self._within_limit(self._plain(_steps(body)))

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def head(self) -> bytes:
        """Return the beginning, which the pieces then go on from."""
        head = bytearray()
        for piece in self._pieces:
            head += piece
            if len(head) >= _HEAD_BYTES:
                break
        return bytes(head)

    def _plain(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        start = b""
        for piece in pieces:
            start += piece
            if len(start) >= len(GZIP_MAGIC):
                break
        pieces = chain([start], pieces)
        return self._inflated(pieces) if start.startswith(GZIP_MAGIC) else pieces

    def _inflated(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        inflater = Inflater(gzip=True)
        try:
            for piece in pieces:
                yield from inflater.feed(piece)
        except BadEncoding as error:
            self._stop(f"The sitemap cannot be decompressed ({error}).", Reason.BAD_ENCODING)
            return
        if not inflater.complete:
            self._stop("The compressed sitemap breaks off before its end.", Reason.BAD_ENCODING)

    def _within_limit(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        room = MAX_BYTES
        for piece in pieces:
            if len(piece) > room:
                self._stop(f"The sitemap is longer than {MAX_BYTES:,} bytes.", Reason.BODY_TOO_LARGE)
                return
            room -= len(piece)
            yield piece

    def _stop(self, message: str, reason: Reason) -> None:
        self.problem = Unreadable(message, reason=reason, url=self._url)


def _steps(body: bytes | Iterable[bytes]) -> Iterator[bytes]:
    for piece in [body] if isinstance(body, bytes) else body:
        for start in range(0, len(piece), _STEP):
            yield piece[start : start + _STEP]


def _read(source: _Source, url: str) -> Iterator[SitemapEntry | SitemapRef | None]:
    """Yield what is listed, None for what is no usable address, which counts too."""
    head = source.head()
    texts = _decoded(chain([head], source), xml_codec(head))
    start = next(texts).lstrip("\ufeff\x00 \t\r\n")
    if _FIRST_LINE.match(start):
        return _read_lines(chain([start], texts), source, url)
    landmark = next((mark for mark in _LANDMARK.finditer(start) if mark.lastgroup), None)
    match landmark and landmark.lastgroup:
        case "sitemap":
            assert landmark is not None
            return scan_sitemap(chain([start[landmark.start() :]], texts), url)
        case "feed":
            return _read_feed(head, source, url)
        case "doctype":
            raise Unreadable("What was answered has a DOCTYPE, as no sitemap has, and is not read.", url=url)
        case "page":
            raise Unreadable("A page was answered, and not a sitemap.", url=url)
    raise Unreadable("What was answered is not a sitemap.", url=url)


def _decoded(pieces: Iterable[bytes], codec: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(codec)("replace")
    for piece in pieces:
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


def _read_lines(texts: Iterable[str], source: _Source, url: str) -> Iterator[SitemapEntry | None]:
    held = ""
    for text in texts:
        *lines, held = f"{held}{text}".replace("\r", "\n").split("\n")
        yield from (_read_line(line, url) for line in lines)
        # no address is longer, and what is held must not grow with the document
        held = held[: MAX_URL_LENGTH + 1]
    if not source.problem:  # otherwise it may be a part of a line only
        yield _read_line(held, url)


def _read_line(line: str, url: str) -> SitemapEntry | None:
    address = line.strip()
    if not _ADDRESS.fullmatch(address):
        return None
    try:
        return SitemapEntry(join_url(address, url))
    except InvalidURL:
        return None


def _read_feed(head: bytes, source: _Source, url: str) -> Iterator[SitemapEntry | None]:
    body = bytearray(head)
    for piece in source:
        body += piece
        if len(body) > _MAX_FEED_BYTES:
            message = f"The feed is longer than {_MAX_FEED_BYTES:,} bytes."
            raise Unreadable(message, reason=Reason.BODY_TOO_LARGE, url=url)
    for entry in parse_feed(bytes(body), url=url).entries:
        lastmod = entry.updated_at or entry.published_at
        yield SitemapEntry(entry.url, lastmod, entry.title, entry.published_at) if entry.url else None
