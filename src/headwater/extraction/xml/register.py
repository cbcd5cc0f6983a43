"""Read documents of the Federal Register in GPO's markup of the printed page."""

import re
from collections.abc import Iterator
from itertools import islice

from lxml import etree

from headwater.core.dates import parse_date
from headwater.core.text import one_line
from headwater.extraction.article import Article
from headwater.extraction.document_text import DocumentText
from headwater.extraction.xml.tree import find_all, find_text, get_own_text, get_text, iter_children, local_name

# Page numbers, galleys, images by number, and instructions for the printer.
_SKIPPED = frozenset({"PRTPAGE", "GPH", "GID", "MATH", "MID", "BILCOD", "TITLE3", "PRES", "PSIG", "STARS", "LNHD1"})
_HEADING_LEVELS = {"HED": 2, "HD1": 3, "HD2": 4, "HD3": 5}
_MAX_AGENCIES = 10
_SECTION_LEVEL = 4
_SECTION_NAMES = frozenset({"SECTNO", "SUBJECT"})
_LABELS = ("AGENCY:", "ACTION:", "SUMMARY:", "DATES:", "ADDRESSES:")
_DAY = re.compile(r"/(\d{4})/(\d\d)/(\d\d)/")


def read_register(root: etree._Element, url: str) -> Article:
    """Return a rule, a notice or a presidential document. Only its address contains its day."""
    title = _title(root)
    agencies = dict.fromkeys(get_text(agency, _SKIPPED) for agency in islice(root.iter("AGENCY"), _MAX_AGENCIES))
    summary = next(root.iter("SUM"), None)
    day = _DAY.search(url)
    document = DocumentText()
    document.add_heading(title, 1)
    _walk(root, document, title)
    return document.make_article(
        url,
        "xml",
        title=title,
        authors=agencies,
        published_at=parse_date("-".join(day.groups())) if day else None,
        date_origin="url",
        abstract=find_text(summary, "P") if summary is not None else "",
    )


def _title(root: etree._Element) -> str:
    for name in ("SUBJECT", "HD"):
        if (found := next(root.iter(name), None)) is not None:
            return get_text(found, _SKIPPED)
    return ""


def _walk(element: etree._Element, document: DocumentText, title: str) -> None:
    """Add an element: a paragraph if it has text of its own, else its children."""
    name = local_name(element)
    if name in _SKIPPED:
        return
    if name == "GPOTABLE":
        _add_table(element, document)
    elif name == "HD":
        _add_heading(element, document, title)
    elif name == "SECTION":
        _add_section(element, document, title)
    elif get_own_text(element):
        text = get_text(element, _SKIPPED)
        if text != title:
            document.add_paragraph(text)
    else:
        for child in iter_children(element):
            _walk(child, document, title)


def _add_heading(element: etree._Element, document: DocumentText, title: str) -> None:
    text = get_text(element, _SKIPPED)
    if text != title:
        document.add_heading(
            text.rstrip(":") if text in _LABELS else text, _HEADING_LEVELS.get(element.get("SOURCE", ""), 4)
        )


def _add_section(section: etree._Element, document: DocumentText, title: str) -> None:
    """Add a section of the Code of Federal Regulations. Its number and its subject are its heading."""
    named = [get_text(child, _SKIPPED) for child in iter_children(section) if local_name(child) in _SECTION_NAMES]
    document.add_heading(" ".join(named), _SECTION_LEVEL)
    for child in iter_children(section):
        if local_name(child) not in _SECTION_NAMES:
            _walk(child, document, title)


def _add_table(table: etree._Element, document: DocumentText) -> None:
    if caption := find_text(table, "TTITLE"):
        document.add_paragraph(caption)
    rows = list(_rows(table))
    if rows:
        heads = [get_text(head, _SKIPPED) for head in find_all(table, "BOXHD/CHED")]
        width = max(map(len, rows))
        document.add_table([heads if len(heads) == width else [""] * width, *rows])
    for note in find_all(table, "TNOTE"):
        document.add_paragraph(get_text(note, _SKIPPED))


def _rows(table: etree._Element) -> Iterator[list[str]]:
    for row in find_all(table, "ROW"):
        cells = [one_line(get_text(cell, _SKIPPED)) for cell in iter_children(row) if local_name(cell) == "ENT"]
        if any(cells):
            yield cells
