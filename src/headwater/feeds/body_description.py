"""Describe a body that is not a feed, from its first bytes."""

import re

from headwater.core.charset import decode_xml
from headwater.core.errors import Unreadable
from headwater.core.file_signatures import detect_file_kind, is_binary
from headwater.core.reasons import Reason
from headwater.core.text import one_line, unescape_html

BLANKS = "\ufeff\x00 \t\r\n"
_HEAD_BYTES = 64 * 1024
_TAG_SEARCH_LENGTH = 8 * 1024  # characters
_MAX_TITLE_LENGTH = 80
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


def not_a_feed(url: str, description: str) -> Unreadable:
    """Return the error for a body that is not a feed."""
    return Unreadable(f"The answer of {url} is not a feed: {description}.", reason=Reason.NOT_A_FEED, url=url)


def describe_body(body: bytes, content_type: str | None) -> str:
    """Describe a body that is not a feed, such as "it is an HTML page"."""
    if not body.strip():
        return "the answer is empty"
    text = _decode_head(body, content_type)
    if file_kind := _binary_kind(body, text):
        return f"it is {file_kind}"
    root = _ROOT.match(text)
    if _is_html(text, root):
        found = _TITLE.search(text)
        title = one_line(unescape_html(found[1][: 10 * _MAX_TITLE_LENGTH])) if found else ""
        if len(title) > _MAX_TITLE_LENGTH:
            title = f"{title[:_MAX_TITLE_LENGTH].rstrip()}..."
        return f'it is an HTML page with the title "{title}"' if title else "it is an HTML page"
    if root:
        return f"it is XML with the root element <{root[1]}>"
    if text.startswith("[") and body.rstrip().endswith(b"]"):
        return "it is JSON, but not a JSON Feed"
    return "it is text in an unknown format"


def looks_like_page(body: bytes, content_type: str | None) -> bool:
    """Return whether a body looks like an HTML page, even a malformed one."""
    text = _decode_head(body, content_type)
    return not _binary_kind(body, text) and _is_html(text, _ROOT.match(text))


def _decode_head(body: bytes, content_type: str | None) -> str:
    return decode_xml(body[:_HEAD_BYTES], content_type).lstrip(BLANKS)


def _binary_kind(body: bytes, text: str) -> str | None:
    """Return what binary data a body is, or None if it may be text."""
    if body.startswith(b"%PDF-"):
        return "a PDF"
    return detect_file_kind(body) or ("binary data" if not text or is_binary(text) else None)


def _is_html(text: str, root: re.Match[str] | None) -> bool:
    if root:
        name = root[1].lower()
        return name == "html" or (name in _HTML_NAMES and not text.startswith("<?xml"))
    return not text.startswith(("{", "[")) and _HTML_TAG.search(text, 0, _TAG_SEARCH_LENGTH) is not None
