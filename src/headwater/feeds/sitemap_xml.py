"""Sitemaps in XML, scanned a piece at a time for the few elements that matter.

No tree is built, and neither entities nor depth mean anything here, so that no document costs more than its length.
What is not well-formed is read as far as its elements can be told apart.
"""

import re
from collections.abc import Iterable, Iterator

from headwater.core.dates import parse_date
from headwater.core.errors import InvalidURL, Unreadable
from headwater.core.text import plain_text, unescape_html
from headwater.core.urls import MAX_URL_LENGTH, join_url
from headwater.feeds.sitemap_entry import SitemapEntry, SitemapRef

_LONGEST_PART = 256 * 1024  # a comment, or the text of an element: it is scanned again with every piece until it ends
_COMMENT_OR_CDATA = r"<!(?:--.*?(?:-->|\Z)|\[CDATA\[.*?(?:\]\]>|\Z))"
_SECTION = re.compile(r"<!(?:--.*?(?:-->|\Z)|\[CDATA\[(.*?)(?:\]\]>|\Z))", re.DOTALL)
_PLAIN_PATH = r"(?:/(?!\.|%2[eE])[A-Za-z0-9%._~!$()*+,;=:@-]*+)++(?:\?[A-Za-z0-9%._~!$()*+,;=:@/?&-]++)?+"
_ENTRIES = ("url", "sitemap")
_ROOT = re.compile(r"<(?:([\w.-]+):)?([\w.-]+)[^<>]*+>?")
_NEWS_PREFIX = re.compile(r"\bxmlns:([\w.-]+)\s*=\s*[\"'][^\"'<>]*\bsitemap-news\b")


def scan_sitemap(pieces: Iterable[str], url: str) -> Iterator[SitemapEntry | SitemapRef | None]:
    """Yield what a sitemap lists, None for what has no usable address.

    The first piece begins with the root element. Raises Unreadable, after all that could be read, where the document
    breaks off before its end.
    """
    pieces = iter(pieces)
    held = next(pieces)
    scanner = _Scanner(held, url)
    held = scanner.scan(held)
    yield from scanner.take()
    for piece in pieces:
        held = scanner.scan(held + piece)
        yield from scanner.take()
        if len(held) > _LONGEST_PART:
            raise Unreadable("The sitemap has a part that is too long to be read.", url=url)
    scanner.finish(held)
    yield from scanner.take()
    if not scanner.complete:
        raise Unreadable("The sitemap breaks off before its end.", url=url)


class _Scanner:
    """Knows what the document calls its elements, and which entry it is in."""

    def __init__(self, start: str, url: str) -> None:
        root = _ROOT.match(start)
        assert root is not None
        self.complete = root[0].endswith("/>")
        self._tokens = _tokens(root[1], _NEWS_PREFIX.search(root[0]))
        self._lists_sitemaps = root[2].lower() == "sitemapindex"
        self._url = url
        self._scheme, _, self._host, *_ = join_url("/", url).split("/")
        # the site's own addresses, where resolving them would change nothing: nearly all, and it takes the longest
        self._plain_address = re.compile(rf"{re.escape(self._scheme)}//{re.escape(self._host)}{_PLAIN_PATH}")
        self._entry: dict[str, str] | None = None
        self._found: list[SitemapEntry | SitemapRef | None] = []

    def scan(self, text: str) -> str:
        """Take in all but what may go on in the next piece, and return that."""
        end = len(text)
        for token in self._tokens.finditer(text):
            if token.end() == end:
                return token[0]
            self._read(token)
        return ""

    def finish(self, text: str) -> None:
        """Take in what ends with the document; the text of an element that it cuts off may be a part of one only."""
        for token in self._tokens.finditer(text):
            if token["name"] is None:
                self._read(token)
        self._close_entry()

    def take(self) -> list[SitemapEntry | SitemapRef | None]:
        """Return what was found since the last time."""
        found, self._found = self._found, []
        return found

    def _read(self, token: re.Match[str]) -> None:
        name, text, is_root_end = token.groups()
        if name is not None:
            name = name.rpartition(":")[2].lower()
            if name in _ENTRIES:
                self._close_entry()
                # some write the address of a sitemap without an element of its own
                self._entry = {"kind": name, "text": text}
            elif self._entry is not None:
                self._entry.setdefault(name, text)
        elif is_root_end:
            self.complete = True

    def _close_entry(self) -> None:
        if self._entry is not None:
            self._found.append(self._understand(self._entry))
            self._entry = None

    def _understand(self, entry: dict[str, str]) -> SitemapEntry | SitemapRef | None:
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
            # publishers forget the scheme of their own addresses: no folder is called like its host
            address = f"{self._scheme}//{address}"
        try:
            return join_url(address, self._url)
        except InvalidURL:
            return None


def _tokens(prefix: str | None, news_prefix: re.Match[str] | None) -> re.Pattern[str]:
    """Return what finds the tags that matter, with the text behind them, and the comments and CDATA that may hide some.

    What breaks off at the end of a piece is found as a token that reaches it.
    """
    own = f"(?:{re.escape(prefix)}:)?" if prefix else ""
    news = f"(?:news|{re.escape(news_prefix[1])}):" if news_prefix else "(?:news:)?"
    names = rf"(?i:{own}(?:url|sitemap|loc|lastmod)|{news}(?:title|publication_date))"
    text = rf"[^<]*+(?:{_COMMENT_OR_CDATA}[^<]*+)*+(?:<[^<>]*+\Z)?+"
    # one "<" for all: what begins with the same character is found the faster
    return re.compile(
        rf"<(?:(?P<name>{names})(?:[\s/][^<>]*+)?>(?P<text>{text})"
        rf"|/(?P<root_end>(?i:{own}(?:urlset|sitemapindex)))\s*>"
        rf"|{_COMMENT_OR_CDATA[1:]}|[^<>]*+\Z)",
        re.DOTALL,
    )


def _content(markup: str | None) -> str:
    """Return the text of an element, as it is meant."""
    if not markup:
        return ""
    if "<" not in markup:
        return unescape_html(markup, only_closed=True).strip()
    parts, end = [], 0
    for section in _SECTION.finditer(markup):
        parts += [unescape_html(markup[end : section.start()], only_closed=True), section[1] or ""]
        end = section.end()
    return "".join([*parts, unescape_html(markup[end:], only_closed=True)]).strip()
