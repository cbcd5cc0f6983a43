"""Scan an XML sitemap, a piece at a time, for the few elements that matter.

The scanner builds no tree and ignores entities and depth, so the cost of a document depends only on its length. It
reads a malformed document as far as it can recognize the elements.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from headwater.core.dates import parse_date
from headwater.core.errors import InvalidURL, Unreadable
from headwater.core.text import plain_text, unescape_html
from headwater.core.urls import MAX_URL_LENGTH, join_url
from headwater.feeds.results import SitemapEntry, SitemapRef

# Of a comment or a text. The scanner reads it again with every piece until it ends.
_MAX_PART_LENGTH = 256 * 1024
_COMMENT_OR_CDATA = r"<!(?:--.*?(?:-->|\Z)|\[CDATA\[.*?(?:\]\]>|\Z))"
_SECTION = re.compile(r"<!(?:--.*?(?:-->|\Z)|\[CDATA\[(.*?)(?:\]\]>|\Z))", re.DOTALL)
_PLAIN_PATH = r"(?:/(?!\.|%2[eE])[A-Za-z0-9%._~!$()*+,;=:@-]*+)++(?:\?[A-Za-z0-9%._~!$()*+,;=:@/?&-]++)?+"
_ENTRIES = ("url", "sitemap")
_ROOT = re.compile(r"<(?:([\w.-]+):)?([\w.-]+)[^<>]*+>?")
_NEWS_PREFIX = re.compile(r"\bxmlns:([\w.-]+)\s*=\s*[\"'][^\"'<>]*\bsitemap-news\b")


def scan_sitemap(pieces: Iterable[str], url: str) -> Iterator[SitemapEntry | SitemapRef | None]:
    """Yield the entries of a sitemap, and None for an entry without a usable address.

    The first piece must begin with the root element. Raises Unreadable after the last entry if the document is cut off.
    """
    pieces = iter(pieces)
    start = next(pieces)
    scanner = _Scanner(start, url)
    rest = ""
    for piece in chain([start], pieces):
        rest = scanner.scan(rest + piece)
        yield from scanner.take_entries()
        if len(rest) > _MAX_PART_LENGTH:
            raise Unreadable("The sitemap has a part that is too long to be read.", url=url)
    scanner.finish(rest)
    yield from scanner.take_entries()
    if not scanner.is_complete:
        raise Unreadable("The sitemap is cut off before its end.", url=url)


class _Scanner:
    """The state of a scan: the names of the elements in this document, and the open entry."""

    def __init__(self, start: str, url: str) -> None:
        root = _ROOT.match(start)
        assert root is not None
        self.is_complete = root[0].endswith("/>")
        self._tokens = _token_pattern(root[1], _NEWS_PREFIX.search(root[0]))
        self._lists_sitemaps = root[2].lower() == "sitemapindex"
        self._url = url
        self._scheme, _, self._host, *_ = join_url("/", url).split("/")
        # Nearly all addresses are plain addresses of the site itself. Resolving them is slow and changes nothing.
        self._plain_address = re.compile(rf"{re.escape(self._scheme)}//{re.escape(self._host)}{_PLAIN_PATH}")
        self._entry: dict[str, str] | None = None
        self._found: list[SitemapEntry | SitemapRef | None] = []

    def scan(self, text: str) -> str:
        """Read the text and return its end that may continue in the next piece."""
        end = len(text)
        for token in self._tokens.finditer(text):
            if token.end() == end:
                return token[0]
            self._read(token)
        return ""

    def finish(self, text: str) -> None:
        """Read the end of the document. An element that is cut off there is ignored."""
        for token in self._tokens.finditer(text):
            if token["name"] is None:
                self._read(token)
        self._close_entry()

    def take_entries(self) -> list[SitemapEntry | SitemapRef | None]:
        found, self._found = self._found, []
        return found

    def _read(self, token: re.Match[str]) -> None:
        name, text, is_root_end = token.groups()
        if name is not None:
            name = name.rpartition(":")[2].lower()
            if name in _ENTRIES:
                self._close_entry()
                # Some publishers write the address directly into the <sitemap> element.
                self._entry = {"kind": name, "text": text}
            elif self._entry is not None:
                self._entry.setdefault(name, text)
        elif is_root_end:
            self.is_complete = True

    def _close_entry(self) -> None:
        if self._entry is not None:
            self._found.append(self._make_entry(self._entry))
            self._entry = None

    def _make_entry(self, entry: dict[str, str]) -> SitemapEntry | SitemapRef | None:
        url = self._absolute(_content(entry.get("loc")) or _content(entry["text"]))
        if url is None:
            return None
        lastmod = parse_date(_content(entry.get("lastmod")))
        if self._lists_sitemaps or entry["kind"] == "sitemap":
            return SitemapRef(url, lastmod)
        title = plain_text(_content(entry["title"])) if "title" in entry else ""
        return SitemapEntry(url, lastmod, title, parse_date(_content(entry.get("publication_date"))))

    def _absolute(self, address: str) -> str | None:
        if not address:
            return None
        if self._plain_address.fullmatch(address) and len(address) <= MAX_URL_LENGTH:
            return address
        if address.startswith(f"{self._host}/"):
            # Some publishers omit the scheme of their own addresses. A folder never has the name of its host.
            address = f"{self._scheme}//{address}"
        try:
            return join_url(address, self._url)
        except InvalidURL:
            return None


def _token_pattern(prefix: str | None, news_prefix: re.Match[str] | None) -> re.Pattern[str]:
    """Return the pattern of a token: an important tag with the text after it, a comment, or a CDATA section.

    Comments and CDATA sections may hide tags. A token that is cut off at the end of a piece also matches.
    """
    own = f"(?:{re.escape(prefix)}:)?" if prefix else ""
    news = f"(?:news|{re.escape(news_prefix[1])}):" if news_prefix else "(?:news:)?"
    names = rf"(?i:{own}(?:url|sitemap|loc|lastmod)|{news}(?:title|publication_date))"
    text = rf"[^<]*+(?:{_COMMENT_OR_CDATA}[^<]*+)*+(?:<[^<>]*+\Z)?+"
    # All alternatives begin with the same "<", which makes the search faster.
    return re.compile(
        rf"<(?:(?P<name>{names})(?:[\s/][^<>]*+)?>(?P<text>{text})"
        rf"|/(?P<root_end>(?i:{own}(?:urlset|sitemapindex)))\s*>"
        rf"|{_COMMENT_OR_CDATA[1:]}|[^<>]*+\Z)",
        re.DOTALL,
    )


def _content(markup: str | None) -> str:
    if not markup:
        return ""
    if "<" not in markup:
        return unescape_html(markup, only_closed=True).strip()
    parts, end = [], 0
    for section in _SECTION.finditer(markup):
        parts += [unescape_html(markup[end : section.start()], only_closed=True), section[1] or ""]
        end = section.end()
    return "".join([*parts, unescape_html(markup[end:], only_closed=True)]).strip()
