"""Detect what a body is, by its bytes, and choose_normalizer its normalizer."""

import re

from headwater.core.charset import decode_html
from headwater.core.errors import Unreadable
from headwater.core.file_signatures import detect_file_kind, is_binary
from headwater.core.reasons import Reason

_MIN_BYTES = 200
_HEAD_BYTES = 64 * 1024
_PDF_HEADER = re.compile(rb"[^<]*?%PDF-")  # no markup comes before it; pdf_v1 decides whether it is too far in
_ROOT = re.compile(
    r"(?:\s|<\?[^>]*>|<!--(?:[^-]|-(?!->))*-->|<!(?i:doctype)[^>\[]*(?:\[[^\]]*\][^>]*)?>)*<(?:[\w.-]+:)?([\w.-]+)"
)
_CRS_REPORT = re.compile(r'"CRSReport"\s*:\s*\{')  # json_v1 reads this
# The root elements of the Federal Register. The second line has those of presidential documents.
REGISTER_ROOTS = frozenset(
    {"RULE", "PRORULE", "NOTICE", "CORRECT", "SUNSHINE", "PRESDOCU", "PRESDOC"}
    | {"EXECORD", "PROCLA", "DETERM", "PRMEMO", "PRNOTICE", "PRORDER"}
)
_DOCUMENT_ROOTS = REGISTER_ROOTS | {"billStatus", "pLaw", "bill", "resolution"}  # xml_v1 reads these
_XML_ROOTS = frozenset({"rss", "feed", "rdf", "urlset", "sitemapindex", "opml", "svg", "fedreg"})
_HTML_TAG = re.compile(
    r"<(?i:!doctype\s+html|html|head|body|title|meta|link|script|style|article|main|section|header|nav|div|p|span|table"
    r"|h[1-6]|ul|ol|a|br|form|frameset|center|font)\b"
)
_PAGE = re.compile(rb"\s*+<(?i:!doctype\s+html|html)[\s>]")


def choose_normalizer(body: bytes, content_type: str | None) -> str:
    """Return the name of the normalizer for a body. The bytes decide, not the declared type.

    `content_type` gives only the charset. Raises Unreadable if no normalizer fits. The reason is NOT_A_PDF if the type
    declares a PDF.
    """
    try:
        return _detect(body, content_type, _MIN_BYTES)
    except Unreadable as error:
        if (content_type or "").lower().startswith("application/pdf"):
            raise Unreadable(f"The Content-Type declares a PDF. {error}", reason=Reason.NOT_A_PDF) from None
        raise


def require_page(body: bytes) -> None:
    """Raise Unreadable if a body is not a page. Unlike in `choose_normalizer`, a page may have any length."""
    if _PAGE.match(body):  # most pages begin like this, and no other body does
        return
    name = _detect(body, None, min_bytes=0)
    if name != "html_v1":
        raise Unreadable(f"The body is not a page. The normalizer {name} reads it.", reason=Reason.UNSUPPORTED_TYPE)


def _detect(body: bytes, content_type: str | None, min_bytes: int) -> str:
    if _PDF_HEADER.match(body[:_HEAD_BYTES]):
        return "pdf_v1"
    if kind := detect_file_kind(body):
        raise _unsupported(kind)
    text = decode_html(body[:_HEAD_BYTES], content_type).strip("\ufeff\x00 \t\r\n")
    if text.startswith(("{", "[")) and body.rstrip().endswith((b"}", b"]")):
        if _CRS_REPORT.search(text):
            return "json_v1"
        raise _unsupported("JSON")
    root = _ROOT.match(text)
    if root and root[1] in _DOCUMENT_ROOTS:
        return "xml_v1"
    if len(body.strip()) < min_bytes:
        raise Unreadable(f"The body has fewer than {min_bytes} bytes.", reason=Reason.BAD_HTML)
    if root and _is_other_xml(text, root[1].lower()):
        raise _unsupported("XML, but not a page")
    if is_binary(text):  # binary data may contain anything that looks like a tag
        raise _unsupported("binary data")
    if _HTML_TAG.search(text):
        return "html_v1"
    raise Unreadable("The body is not markup.", reason=Reason.BAD_HTML)


def _is_other_xml(text: str, name: str) -> bool:
    return name in _XML_ROOTS or (text.startswith("<?xml") and not _HTML_TAG.match(f"<{name}"))


def _unsupported(kind: str) -> Unreadable:
    return Unreadable(f"The body is {kind}. No normalizer reads this type.", reason=Reason.UNSUPPORTED_TYPE)
