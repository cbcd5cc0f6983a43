"""What came where a feed was expected, in a few words, by how it begins."""

import re

from headwater.core.charset import decode_xml
from headwater.core.errors import Unreadable
from headwater.core.file_signatures import is_binary, kind_of_file
from headwater.core.reasons import Reason
from headwater.core.text import one_line, unescape_html

BLANKS = "\ufeff\x00 \t\r\n"
_LOOKED_AT = 64 * 1024  # bytes
_LOOKED_THROUGH = 8 * 1024  # characters, for a tag
_LONGEST_TITLE = 80
_ROOT = re.compile(
    r"(?:\s++|<\?[^>]*+>|<!--(?:[^-]|-(?!->))*+-->|<!(?i:doctype)[^>\[]*+(?:\[[^\]]*+\][^>]*+)?>)*+"
    r"<([A-Za-z_][\w.:-]{0,79})(?=[\s/>])"
)
_HTML_NAMES = frozenset(
    {"html", "head", "body", "title", "meta", "link", "script", "style", "article", "main", "section", "header", "nav"}
    | {"div", "p", "span", "table", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "a", "br", "form", "img"}
    | {"frameset", "center", "font"}
)
_HTML_TAG = re.compile(r"<(?i:!doctype\s++html|html|head|body|title|meta|script|div|p|table|h[1-6]|ul|a|br|form)\b")
_TITLE = re.compile(r"<title(?=[\s>])[^<>]*+>([^<]++)", re.IGNORECASE)


def not_a_feed(url: str, what: str) -> Unreadable:
    """Return the error that says what came from `url` in place of a feed."""
    return Unreadable(f"What came from {url} is not a feed: {what}.", reason=Reason.NOT_A_FEED, url=url)


def what_came(body: bytes, content_type: str | None) -> str:
    """Say what a body that is no feed looks like, such as "it is an HTML page"."""
    if not body.strip():
        return "the answer is empty"
    text = _beginning(body, content_type)
    if kind := _kind_of_bytes(body, text):
        return f"it is {kind}"
    root = _ROOT.match(text)
    if _is_page(text, root):
        title = _title(text)
        return f'it is an HTML page, titled "{title}"' if title else "it is an HTML page"
    if root:
        return f"it is XML of another sort, its root element is <{root[1]}>"
    if text.startswith("[") and body.rstrip().endswith(b"]"):
        return "it is JSON, but no JSON Feed"
    return "it is text of another sort"


def looks_like_page(body: bytes, content_type: str | None) -> bool:
    """Tell whether a body looks like an HTML page, be it a bad one."""
    text = _beginning(body, content_type)
    return not _kind_of_bytes(body, text) and _is_page(text, _ROOT.match(text))


def _beginning(body: bytes, content_type: str | None) -> str:
    return decode_xml(body[:_LOOKED_AT], content_type).lstrip(BLANKS)


def _kind_of_bytes(body: bytes, text: str) -> str | None:
    """Name what is no text at all; None for what may be."""
    if body.startswith(b"%PDF-"):
        return "a PDF"
    return kind_of_file(body) or ("binary data" if not text or is_binary(text) else None)


def _is_page(text: str, root: re.Match[str] | None) -> bool:
    if root:
        name = root[1].lower()
        return name == "html" or (name in _HTML_NAMES and not text.startswith("<?xml"))
    return not text.startswith(("{", "[")) and _HTML_TAG.search(text, 0, _LOOKED_THROUGH) is not None


def _title(text: str) -> str:
    found = _TITLE.search(text)
    title = one_line(unescape_html(found[1][: 10 * _LONGEST_TITLE])) if found else ""
    return title if len(title) <= _LONGEST_TITLE else f"{title[:_LONGEST_TITLE].rstrip()}..."
