"""PDF to Markdown, version 1.

pdfium looks at every page: words with their places, ruling lines, pictures. What is repeated around the pages goes;
cells, drawn or set in columns, become tables; the rest is read column by column into paragraphs.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise

import pypdfium2
import pypdfium2.raw as pdfium

from headwater.core.errors import Unreadable
from headwater.core.reasons import Reason
from headwater.core.text import one_line
from headwater.extraction.article import Article, Artifact, BodyStatus, PdfDocument
from headwater.extraction.pdf.aligned_tables import aligned_tables
from headwater.extraction.pdf.drawings import Rule
from headwater.extraction.pdf.headers_footers import remove_furniture
from headwater.extraction.pdf.lines import MARK, Line, in_reading_order, known_gutters, lines_of
from headwater.extraction.pdf.page_content import Look, TooMuchText, Word, look, with_initials
from headwater.extraction.pdf.pdf_blocks import (
    Block,
    body_size,
    continued,
    in_markdown,
    line_spacing,
    paragraphs,
    title_of,
)
from headwater.extraction.pdf.tables import Table, as_written, joined_rules, ruled_tables

HEADER = b"%PDF-"
HEADER_WITHIN = 1024  # bytes, after blanks; what stands before it is passed over
_BLANK = b"\0\t\n\f\r "
MAX_PAGES = 1500
MAX_CHARACTERS = 8_000_000
_STAMP = 300  # characters; a picture of a page with no more text than this is a scan with a stamp
_NOTHING = 3  # letters and figures: a page number, or codes of a font that does not say what they mean
_PICTURE = 0.5  # of a page
_MOST_NOTES = 5000  # and fields of a form, on one page; more of them take long
_THUMBNAIL = 400  # pixels; enough to see a line
_ASIDE = 1.0  # points, as if its letters were: it is no heading
_WIDE = 0.4  # of a page: a line drawn across columns
_UNREADABLE = {
    BodyStatus.EMPTY_TEXT: Reason.EMPTY_TEXT,
    BodyStatus.ENCRYPTED: Reason.ENCRYPTED,
    BodyStatus.BROKEN: Reason.BROKEN,
    BodyStatus.NOT_A_PDF: Reason.NOT_A_PDF,
    BodyStatus.TOO_LARGE: Reason.TOO_LARGE,
}
_ONE_AT_A_TIME = threading.Lock()
_TRUST = {"text": 0.9, "title": 0.8}  # titles are left over from the file before, now and then
_PAGES_TO_MEASURE = 50  # to know how a document is set
_PAGES_OF_TITLE = 3  # where a title stands


def extract_pdf(body: bytes | bytearray | memoryview) -> PdfDocument:
    """Return what a PDF says as Markdown. Whatever the bytes are, the status tells; raises TypeError for no bytes.

    pdfium does one thing at a time in a process, so threads wait for each other here.
    """
    if not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError(f"body must be bytes, not {type(body).__name__}")
    with _ONE_AT_A_TIME:
        return _extract(bytes(body))


def _extract(body: bytes) -> PdfDocument:
    body = body.lstrip(_BLANK)
    if HEADER not in body[: HEADER_WITHIN + len(HEADER)]:
        return PdfDocument("", BodyStatus.NOT_A_PDF)
    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        is_locked = getattr(error, "err_code", None) == pdfium.FPDF_ERR_PASSWORD
        return PdfDocument("", BodyStatus.ENCRYPTED if is_locked else BodyStatus.BROKEN)
    try:
        return _read(document)
    except MemoryError:
        raise
    except TooMuchText:
        return PdfDocument("", BodyStatus.TOO_LARGE, page_count=len(document))
    except Exception:  # noqa: BLE001 (whatever a hostile file makes the libraries do, it is this file that is broken)
        return PdfDocument("", BodyStatus.BROKEN, page_count=len(document))
    finally:
        document.close()


def normalize_pdf(body: bytes, url: str, content_type: str | None, selectors: Mapping[str, str] | None) -> Article:
    """Return the PDF's article; a scan has an empty text. Raises Unreadable where there is nothing to keep."""
    read = extract_pdf(body)
    if reason := _UNREADABLE.get(read.status):
        raise Unreadable(reason.sentence, reason=reason, url=url)
    provenance = {"text": "pdf"} if read.markdown else {}
    if read.title:
        provenance["title"] = "pdf"
    return Article(
        text=read.markdown,
        title=read.title,
        body_status=read.status,
        artifacts=read.artifacts,
        provenance=provenance,
        confidence={name: _TRUST[name] for name in provenance},
    )


def _read(document: pypdfium2.PdfDocument) -> PdfDocument:
    count = len(document)
    if count == 0:
        return PdfDocument("", BodyStatus.BROKEN)
    if count > MAX_PAGES:
        return PdfDocument("", BodyStatus.TOO_LARGE, page_count=count)
    named = one_line(document.get_metadata_value("Title"))
    pages = []
    characters = 0
    for number in range(count):
        if page := _look_at(document, number):
            pages.append(page)
            characters += page.characters
        if characters > MAX_CHARACTERS:
            return PdfDocument("", BodyStatus.TOO_LARGE, page_count=count)
    if not pages:
        return PdfDocument("", BodyStatus.BROKEN, page_count=count)
    if all(_is_scan(page) for page in pages):
        has_ink = any(page.words or page.aside or page.picture_cover for page in pages) or _is_drawn_on(document)
        status = BodyStatus.SCANNED_NO_TEXT if has_ink else BodyStatus.EMPTY_TEXT
        return PdfDocument("", status, page_count=count, title=title_of(named, (), 0.0))
    written, artifacts = _write(pages)
    usual = body_size(block for page in written for block in page)
    markdown = "\n\n".join(filter(None, in_markdown(continued([*chain(*written)]), usual)))
    return PdfDocument(markdown, BodyStatus.OK, artifacts, count, title_of(named, written[:_PAGES_OF_TITLE], usual))


def _look_at(document: pypdfium2.PdfDocument, number: int) -> Look | None:
    page = _opened(document, number)
    if page is None:
        return None
    try:
        return look(page)
    finally:
        page.close()


def _opened(document: pypdfium2.PdfDocument, number: int) -> pypdfium2.PdfPage | None:
    """Open a page, with what was filled in or noted on it as part of the page; None where it is damaged."""
    try:
        page = document[number]
        if 0 < pdfium.FPDFPage_GetAnnotCount(page) <= _MOST_NOTES and _is_flattened(page):
            page.close()
            page = document[number]
    except pypdfium2.PdfiumError:
        return None
    return page


def _is_flattened(page: pypdfium2.PdfPage) -> bool:
    return bool(pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY) == pdfium.FLATTEN_SUCCESS)


def _is_scan(page: Look) -> bool:
    if sum(character.isalnum() for word in (*page.words, *page.aside) for character in word.text) <= _NOTHING:
        return True
    return page.picture_cover >= _PICTURE and page.characters <= _STAMP and not page.is_transcribed


def _is_drawn_on(document: pypdfium2.PdfDocument) -> bool:
    """Tell whether any page has something on it, were it only drawn."""
    return any(_has_two_colours(page) for number in range(len(document)) if (page := _opened(document, number)))


def _has_two_colours(page: pypdfium2.PdfPage) -> bool:
    try:
        scale = min(1.0, _THUMBNAIL / max(1.0, *page.get_size()))
        pixels = bytes(page.render(scale=scale, grayscale=True).buffer)
        return pixels.count(pixels[:1]) < len(pixels)
    finally:
        page.close()


def _write(pages: Sequence[Look]) -> tuple[list[list[Block]], tuple[Artifact, ...]]:
    """Return the blocks of each page, and the tables that Markdown cannot show."""
    for page in pages:
        page.words = with_initials(page.words)
    remove_furniture(pages)
    measured = pages[:: len(pages) // _PAGES_TO_MEASURE + 1]
    known = known_gutters(page.words for page in measured)
    spacing = line_spacing(lines_of(page.words) for page in measured)
    found = []
    for page in pages:
        found.append(list(_blocks(page, known, spacing)))
        page.words.clear()
    _join_tables(found)
    written: list[list[Block]] = []
    artifacts: list[Artifact] = []
    for number, blocks in enumerate(found, start=1):
        written.append([])
        for block in blocks:
            if isinstance(block, Block):
                written[-1].append(block)
            elif block.why_artifact:
                artifacts.append(block.artifact(f"table-{len(artifacts) + 1}", number))
                written[-1].append(Block(as_written(artifacts[-1].name, block.lines)))
            else:
                written[-1].append(Block(block.markdown()))
    return written, tuple(artifacts)


def _join_tables(pages: Sequence[list[Block | Table]]) -> None:
    """Join a table at the end of a page with its rest at the beginning of the next, from the last page to the first."""
    for page, following in reversed([*pairwise(pages)]):
        table, rest = page[-1] if page else None, following[0] if following else None
        if isinstance(table, Table) and isinstance(rest, Table) and (whole := table.with_rest(rest)):
            page[-1] = whole
            del following[0]


def _blocks(page: Look, known: set[int], spacing: float) -> Iterator[Block | Table]:
    """Yield paragraphs and tables of a page in the order in which they are read."""
    rules = joined_rules(page.rules)
    ruled = ruled_tables(rules, page.words)
    in_tables = frozenset[int]().union(*(table.words for table in ruled))
    words = [word for word in page.words if id(word) not in in_tables]
    words += [Word(f"{MARK}{number}", *table.box) for number, table in enumerate(ruled)]
    barriers = [Word("", rule.x0, rule.top, rule.x1, rule.top) for rule in rules if _is_wide(rule, page)]
    for region in in_reading_order(words + barriers, known):
        lines = lines_of(region)
        taken = 0
        for start, end, table in aligned_tables(lines, rules):
            yield from _prose(lines[taken:start], ruled, spacing)
            yield table
            taken = end
        yield from _prose(lines[taken:], ruled, spacing)
    if page.aside:
        yield Block(" ".join(word.text for word in page.aside), _ASIDE)


def _is_wide(rule: Rule, page: Look) -> bool:
    return rule.is_flat and rule.x1 - rule.x0 >= _WIDE * page.width


def _prose(lines: Sequence[Line], ruled: Sequence[Table], spacing: float) -> Iterator[Block | Table]:
    taken = 0
    for number, line in enumerate(lines):
        if line.mark is not None:
            yield from paragraphs(lines[taken:number], spacing)
            yield ruled[line.mark]
            taken = number + 1
    yield from paragraphs(lines[taken:], spacing)
