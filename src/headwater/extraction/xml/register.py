"""Read documents of the Federal Register in GPO's markup of the printed page."""

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from lxml import etree

from headwater.core.dates import parse_date
from headwater.core.text import one_line
from headwater.extraction.article import Article
from headwater.extraction.document_text import DocumentText
from headwater.extraction.xml.tree import children, find_all, find_text, name_of, own_text, text_of

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
    agencies = dict.fromkeys(text_of(agency, _SKIPPED) for agency in islice(root.iter("AGENCY"), _MAX_AGENCIES))
    abstract = _summary(root)
    published_at = _published_at(url)
    blocks = DocumentText()
    if title:
        blocks.heading(title, 1)
    _walk(root, blocks, title)
    return blocks.make_article(
        url,
        "xml",
        title=title,
        authors=agencies,
        published_at=published_at,
        date_origin="url",
        abstract=abstract,
    )


def _title(root: etree._Element) -> str:
    """Return the subject of a document, or the first heading of a presidential document."""
    for name in ("SUBJECT", "HD"):
        if (found := next(root.iter(name), None)) is not None:
            return text_of(found, _SKIPPED)
    return ""


def _summary(root: etree._Element) -> str:
    summary = next(root.iter("SUM"), None)
    return find_text(summary, "P") if summary is not None else ""


def _published_at(url: str) -> datetime | None:
    day = _DAY.search(url)
    return parse_date("-".join(day.groups())) if day else None


def _walk(element: etree._Element, blocks: DocumentText, title: str) -> None:
    """Add an element: a paragraph if it has text of its own, else its children."""
    name = name_of(element)
    if name in _SKIPPED:
        return
    if name == "GPOTABLE":
        _add_table(element, blocks)
    elif name == "HD":
        _add_heading(element, blocks, title)
    elif name == "SECTION":
        _add_section(element, blocks, title)
    elif own_text(element):
        text = text_of(element, _SKIPPED)
        if text != title:
            blocks.paragraph(text)
    else:
        for child in children(element):
            _walk(child, blocks, title)


def _add_heading(element: etree._Element, blocks: DocumentText, title: str) -> None:
    text = text_of(element, _SKIPPED)
    if text != title:
        blocks.heading(text.rstrip(":") if text in _LABELS else text, _HEADING_LEVELS.get(element.get("SOURCE", ""), 4))


def _add_section(section: etree._Element, blocks: DocumentText, title: str) -> None:
    """Add a section of the Code of Federal Regulations. Its number and its subject are its heading."""
    named = [text_of(child, _SKIPPED) for child in children(section) if name_of(child) in _SECTION_NAMES]
    blocks.heading(" ".join(named), _SECTION_LEVEL)
    for child in children(section):
        if name_of(child) not in _SECTION_NAMES:
            _walk(child, blocks, title)


def _add_table(table: etree._Element, blocks: DocumentText) -> None:
    if caption := find_text(table, "TTITLE"):
        blocks.paragraph(caption)
    rows = list(_rows(table))
    if rows:
        heads = [text_of(head, _SKIPPED) for head in find_all(table, "BOXHD/CHED")]
        width = max(map(len, rows))
        blocks.table([heads if len(heads) == width else [""] * width, *rows])
    for note in find_all(table, "TNOTE"):
        blocks.paragraph(text_of(note, _SKIPPED))


def _rows(table: etree._Element) -> Iterator[list[str]]:
    for row in find_all(table, "ROW"):
        cells = [one_line(text_of(cell, _SKIPPED)) for cell in children(row) if name_of(cell) == "ENT"]
        if any(cells):
            yield cells
