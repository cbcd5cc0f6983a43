"""What bytes are, by what is in them."""

import re

from headwater.core.charset import decode_html
from headwater.core.errors import Unreadable
from headwater.core.file_signatures import is_binary, kind_of_file
from headwater.core.reasons import Reason

_SHORTEST = 200
_SNIFFED_BYTES = 64 * 1024
_PDF_HEADER = re.compile(rb"[^<]*?%PDF-")  # what stands before it is no markup; pdf_v1 tells whether it is too far in
_ROOT = re.compile(
    r"(?:\s|<\?[^>]*>|<!--(?:[^-]|-(?!->))*-->|<!(?i:doctype)[^>\[]*(?:\[[^\]]*\][^>]*)?>)*<(?:[\w.-]+:)?([\w.-]+)"
)
_REPORT = re.compile(r'"CRSReport"\s*:\s*\{')  # which json_v1 reads
# Of documents that xml_v1 reads: those of the Federal Register (the second line: what the President may issue)...
REGISTER_ROOTS = frozenset(
    {"RULE", "PRORULE", "NOTICE", "CORRECT", "SUNSHINE", "PRESDOCU", "PRESDOC"}
    | {"EXECORD", "PROCLA", "DETERM", "PRMEMO", "PRNOTICE", "PRORDER"}
)
_DOCUMENT_ROOTS = REGISTER_ROOTS | {"billStatus", "pLaw", "bill", "resolution"}  # ... and bills and laws.
_XML_ROOTS = frozenset({"rss", "feed", "rdf", "urlset", "sitemapindex", "opml", "svg", "fedreg"})
_HTML_TAG = re.compile(
    r"<(?i:!doctype\s+html|html|head|body|title|meta|link|script|style|article|main|section|header|nav|div|p|span|table"
    r"|h[1-6]|ul|ol|a|br|form|frameset|center|font)\b"
)
_PAGE = re.compile(rb"\s*+<(?i:!doctype\s+html|html)[\s>]")


def choose(body: bytes, content_type: str | None) -> str:
    """Return the name of the normalizer for these bytes. What they are counts, not what they are called.

    `content_type` is asked for the charset alone, and where no normalizer fits: then Unreadable is raised, and says of
    what was announced as a PDF that it is none.
    """
    try:
        return _choose(body, content_type, _SHORTEST)
    except Unreadable as error:
        if (content_type or "").lower().startswith("application/pdf"):
            raise Unreadable(f"It was announced as a PDF. {error}", reason=Reason.NOT_A_PDF) from None
        raise


def check_page(body: bytes) -> None:
    """Raise Unreadable for bytes that are no page, as `choose` does; a page may be as short as it likes here."""
    if _PAGE.match(body):  # as most begin: nothing else does
        return
    name = _choose(body, None, shortest=0)
    if name != "html_v1":
        raise Unreadable(f"The body is no page; {name} reads it.", reason=Reason.UNSUPPORTED_TYPE)


def _choose(body: bytes, content_type: str | None, shortest: int) -> str:
    if _PDF_HEADER.match(body[:_SNIFFED_BYTES]):
        return "pdf_v1"
    if kind := kind_of_file(body):
        raise _unsupported(kind)
    text = decode_html(body[:_SNIFFED_BYTES], content_type).strip("\ufeff\x00 \t\r\n")
    if text.startswith(("{", "[")) and body.rstrip().endswith((b"}", b"]")):
        if _REPORT.search(text):
            return "json_v1"
        raise _unsupported("JSON")
    root = _ROOT.match(text)
    if root and root[1] in _DOCUMENT_ROOTS:
        return "xml_v1"
    if len(body.strip()) < shortest:
        raise Unreadable(f"The body has fewer than {shortest} bytes.", reason=Reason.BAD_HTML)
    if root and _is_other_xml(text, root[1].lower()):
        raise _unsupported("XML, but not a page")
    if is_binary(text):  # in which anything may look like a tag
        raise _unsupported("binary data")
    if _HTML_TAG.search(text):
        return "html_v1"
    raise Unreadable("The body is not markup.", reason=Reason.BAD_HTML)


def _is_other_xml(text: str, name: str) -> bool:
    return name in _XML_ROOTS or (text.startswith("<?xml") and not _HTML_TAG.match(f"<{name}"))


def _unsupported(kind: str) -> Unreadable:
    return Unreadable(f"The body is {kind}, which cannot be read yet.", reason=Reason.UNSUPPORTED_TYPE)
