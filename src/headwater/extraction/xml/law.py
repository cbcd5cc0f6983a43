"""Read laws in USLM and in the markup of bills, which has other names for the same parts."""

from collections.abc import Iterator
from datetime import datetime

from lxml import etree

from headwater.core.dates import parse_date
from headwater.core.text import one_line
from headwater.extraction.article import Article
from headwater.extraction.document_text import DocumentText
from headwater.extraction.xml.tree import find_all, find_text, get_own_text, get_text, iter_children, local_name

_NUMBER = frozenset({"num", "enum"})
_HEADING = frozenset({"heading", "header"})
# The number and the heading of these parts are a line of their own. In smaller parts they begin the first paragraph.
_LEVELS = {"division": 2, "title": 2, "subtitle": 3, "chapter": 3, "subchapter": 3, "part": 3, "section": 4}
# Marginal notes, page numbers, metadata and tables of contents.
_SKIPPED = frozenset(
    {"meta", "metadata", "preface", "sidenote", "page", "centerRunningHead", "toc", "pagebreak", "form", "dublinCore"}
)
_TITLES = ("meta/title", "metadata/dublinCore/title", "main/longTitle/officialTitle", "form/official-title")
_DATES = ("meta/approvedDate", "meta/date", "metadata/dublinCore/date")


def read_law(root: etree._Element, url: str) -> Article:
    """Return a law. Its date is the day of approval."""
    title = find_text(root, *_TITLES)
    published_at = _approved(root)
    document = DocumentText()
    document.add_heading(title, 1)
    for part in iter_children(root):
        _walk(part, document)
    return document.make_article(url, "xml", title=title, published_at=published_at)


def _approved(root: etree._Element) -> datetime | None:
    for path in _DATES:
        if found := parse_date(find_text(root, path)):
            return found
    days = (parse_date(action.get("date", "")) for action in find_all(root, "main/action/date"))
    return next(filter(None, days), None)


def _walk(part: etree._Element, document: DocumentText, lead: str = "") -> None:
    """Add a part of the law. `lead` is the number with which its first paragraph begins."""
    name = local_name(part)
    if name in _SKIPPED:
        return
    inner, own_lead = list(_inner(part)), _lead(part)
    if get_own_text(part) or not (inner or own_lead):
        document.add_paragraph(one_line(f"{lead} {get_text(part, _SKIPPED)}"))
        return
    if own_lead and name in _LEVELS:
        document.add_heading(own_lead, _LEVELS[name])
        own_lead = ""
    lead = one_line(f"{lead} {own_lead}")
    if not inner:
        document.add_paragraph(lead)
    for number, child in enumerate(inner):
        _walk(child, document, "" if number else lead)


def _inner(part: etree._Element) -> Iterator[etree._Element]:
    named = _NUMBER | _HEADING | _SKIPPED
    return (child for child in iter_children(part) if local_name(child) not in named)


def _lead(part: etree._Element) -> str:
    named = [get_text(child, _SKIPPED) for child in iter_children(part) if local_name(child) in _NUMBER | _HEADING]
    return " ".join(filter(None, named))
