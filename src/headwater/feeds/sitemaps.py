"""Parse sitemaps: XML, plain text, and feeds that serve as one. They may be compressed or malformed."""

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
from headwater.feeds.results import SitemapEntry, SitemapRef
from headwater.feeds.sitemap_xml import scan_sitemap

# The protocol allows 50,000 addresses and 50 MB. Some publishers exceed this.
MAX_ENTRIES = 250_000
MAX_BYTES = 100 * 1000 * 1000
_MAX_FEED_BYTES = 20 * 1024 * 1024
_STEP = 64 * 1024
_HEAD_BYTES = 64 * 1024  # the root element must start within these

# A possible root element, or a comment that may hide one.
_ROOT_OR_COMMENT = re.compile(
    r"<!--.*?(?:-->|\Z)|<(?:(?P<page>(?i:!doctype\s++html\b|(?:[\w.-]+:)?(?:html|head|body)(?=[\s/>])))"
    r"|!(?P<doctype>(?i:doctype))|(?:[\w.-]+:)?(?i:(?P<sitemap>urlset|sitemapindex)|(?P<feed>rss|rdf|feed))(?=[\s/>]))",
    re.DOTALL,
)
_ADDRESS = re.compile(r"https?://\S++", re.IGNORECASE)
_FIRST_LINE = re.compile(r"https?://\S++[ \t]*+(?:[\r\n]|\Z)", re.IGNORECASE)


def parse_sitemap(body: bytes | Iterable[bytes], *, url: str) -> Iterator[SitemapEntry | SitemapRef]:
    """Yield the entries of the sitemap at `url` while reading it. Entries without a usable address are left out.

    Raises Unreadable if the body is not a sitemap. Raises Unreadable after the last readable entry if the sitemap is
    cut off, cannot be decompressed to its end, or is too large. Raises InvalidURL if `url` is not an address.
    """
    host_of(url)
    source = _Source(body, url)
    try:
        for count, entry in enumerate(_read_entries(source, url)):
            if count == MAX_ENTRIES:
                message = f"The sitemap lists more than {MAX_ENTRIES:,} addresses."
                raise Unreadable(message, reason=Reason.BODY_TOO_LARGE, url=url)
            if entry is not None:
                yield entry
    except HeadwaterError as error:
        # A problem with the bytes explains a problem with the text.
        raise source.problem or error from None
    if source.problem:
        raise source.problem


class _Source:
    """The decompressed bytes, in pieces. The pieces end at the first `problem`."""

    def __init__(self, body: bytes | Iterable[bytes], url: str) -> None:
        self.problem: Unreadable | None = None
        self._url = url
        self._pieces = self._limit(self._decompress(_steps(body)))

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def head(self) -> bytes:
        """Return the beginning. Iteration continues after it."""
        head = bytearray()
        for piece in self._pieces:
            head += piece
            if len(head) >= _HEAD_BYTES:
                break
        return bytes(head)

    def _decompress(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        start = b""
        for piece in pieces:
            start += piece
            if len(start) >= len(GZIP_MAGIC):
                break
        pieces = chain([start], pieces)
        return self._inflate(pieces) if start.startswith(GZIP_MAGIC) else pieces

    def _inflate(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        inflater = Inflater(gzip=True)
        try:
            for piece in pieces:
                yield from inflater.feed(piece)
        except BadEncoding as error:
            self._stop(f"The sitemap cannot be decompressed ({error}).", Reason.BAD_ENCODING)
            return
        if not inflater.complete:
            self._stop("The compressed sitemap is cut off before its end.", Reason.BAD_ENCODING)

    def _limit(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
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


def _read_entries(source: _Source, url: str) -> Iterator[SitemapEntry | SitemapRef | None]:
    """Yield the entries, and None for an entry without a usable address. MAX_ENTRIES counts these too."""
    head = source.head()
    texts = _decode(chain([head], source), xml_codec(head))
    start = next(texts).lstrip("\ufeff\x00 \t\r\n")
    if _FIRST_LINE.match(start):
        return _read_lines(chain([start], texts), source, url)
    root = next((found for found in _ROOT_OR_COMMENT.finditer(start) if found.lastgroup), None)
    match root and root.lastgroup:
        case "sitemap":
            assert root is not None
            return scan_sitemap(chain([start[root.start() :]], texts), url)
        case "feed":
            return _read_feed(head, source, url)
        case "doctype":
            raise Unreadable("The answer is not a sitemap: it has a DOCTYPE, which sitemaps do not have.", url=url)
        case "page":
            raise Unreadable("The answer is not a sitemap: it is a page.", url=url)
    raise Unreadable("The answer is not a sitemap.", url=url)


def _decode(pieces: Iterable[bytes], codec: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(codec)("replace")
    for piece in pieces:
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


def _read_lines(texts: Iterable[str], source: _Source, url: str) -> Iterator[SitemapEntry | None]:
    rest = ""
    for text in texts:
        *lines, rest = f"{rest}{text}".replace("\r", "\n").split("\n")
        yield from (_read_line(line, url) for line in lines)
        # No address is longer, and a line without end must not fill the memory.
        rest = rest[: MAX_URL_LENGTH + 1]
    if not source.problem:  # a problem may have cut the last line
        yield _read_line(rest, url)


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
