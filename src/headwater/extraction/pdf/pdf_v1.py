"""Convert PDF to Markdown, version 1.

pdfium reads the words, ruling lines and pictures of each page. Headers and footers are removed. Cells with ruling lines
or in aligned columns become tables. The rest becomes paragraphs, column by column.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, pairwise

import pypdfium2
import pypdfium2.raw as pdfium

from headwater.core.errors import Unreadable
from headwater.core.reasons import Reason
from headwater.core.text import one_line
from headwater.extraction.article import Article, Artifact, BodyStatus, PdfDocument
from headwater.extraction.pdf.aligned_tables import find_aligned_tables
from headwater.extraction.pdf.headers_footers import remove_headers_and_footers
from headwater.extraction.pdf.lines import TABLE_MARK, Line, find_gutters, make_lines, split_into_regions
from headwater.extraction.pdf.page_content import PageContent, TooMuchText, Word, join_drop_caps, read_page
from headwater.extraction.pdf.pdf_blocks import (
    TextBlock,
    blocks_to_markdown,
    body_size,
    find_title,
    join_continued,
    line_spacing,
    make_paragraphs,
)
from headwater.extraction.pdf.tables import PdfTable, artifact_text, find_ruled_tables, join_rules

HEADER = b"%PDF-"
HEADER_WITHIN = 1024  # bytes after blanks; anything before the header is ignored
_BLANK = b"\0\t\n\f\r "
MAX_PAGES = 1500
MAX_CHARACTERS = 8_000_000
MAX_WORDS = 600_000  # reading more may take longer than the sandbox allows, and more memory
_MAX_STAMP = 300  # characters; a picture of a page with no more text is a scan with a stamp
_MAX_LETTERS_OF_SCAN = 3  # letters and figures: a page number, or codes of a font without a mapping
_PICTURE = 0.5  # of a page
_MAX_ANNOTATIONS = 5000  # annotations and form fields of one page; more of them take long
_THUMBNAIL = 400  # pixels; enough to see a line
_ASIDE = 1.0  # points; a size too small for a heading
_WIDE = 0.4  # of a page; a line across columns
_ONE_AT_A_TIME = threading.Lock()
_TRUST = {"text": 0.9, "title": 0.8}  # some files keep the title of the file that they were made from
_PAGES_TO_MEASURE = 50  # to measure gutters and line spacing
_PAGES_OF_TITLE = 3  # the first pages may have the title


def extract_pdf(body: bytes | bytearray | memoryview) -> PdfDocument:
    """Return a PDF as Markdown. The status reports any problem. Raises TypeError if `body` is not bytes.

    pdfium is not thread-safe, so threads wait for each other.
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
    except Exception:  # noqa: BLE001 (a hostile file can raise any error in the libraries)
        return PdfDocument("", BodyStatus.BROKEN, page_count=len(document))
    finally:
        document.close()


def normalize_pdf(body: bytes, url: str, content_type: str | None, selectors: Mapping[str, str] | None) -> Article:
    """Return the article of a PDF. A scan has an empty text. Raises Unreadable if there is nothing to keep."""
    read = extract_pdf(body)
    if read.status not in (BodyStatus.OK, BodyStatus.SCANNED_NO_TEXT) and not read.markdown:
        reason = Reason.of(read.status)
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
    named = one_line(document.get_metadata_value("Title"))
    pages, is_whole = _read_pages(document, count)
    if is_whole and not pages:
        return PdfDocument("", BodyStatus.BROKEN, page_count=count)
    if all(_is_scan(page) for page in pages):
        if not is_whole:
            return PdfDocument("", BodyStatus.TOO_LARGE, page_count=count)
        has_ink = any(page.words or page.aside or page.picture_cover for page in pages) or _has_drawing(document)
        status = BodyStatus.SCANNED_NO_TEXT if has_ink else BodyStatus.EMPTY_TEXT
        return PdfDocument("", status, page_count=count, title=find_title(named, (), 0.0))
    written, artifacts = _write_pages(pages)
    usual = body_size(block for page in written for block in page)
    markdown = "\n\n".join(filter(None, blocks_to_markdown(join_continued([*chain(*written)]), usual)))
    status = BodyStatus.OK if is_whole else BodyStatus.TOO_LARGE
    return PdfDocument(markdown, status, artifacts, count, find_title(named, written[:_PAGES_OF_TITLE], usual))


def _read_pages(document: pypdfium2.PdfDocument, count: int) -> tuple[list[PageContent], bool]:
    """Return the pages up to the limits, and whether these are all pages."""
    pages: list[PageContent] = []
    words = characters = 0
    for number in range(min(count, MAX_PAGES)):
        try:
            page = _read_page(document, number)
        except TooMuchText:
            return pages, False
        if page:
            words += len(page.words)
            characters += page.characters
            if words > MAX_WORDS or characters > MAX_CHARACTERS:
                return pages, False
            pages.append(page)
    return pages, count <= MAX_PAGES


def _read_page(document: pypdfium2.PdfDocument, number: int) -> PageContent | None:
    page = _open_page(document, number)
    if page is None:
        return None
    with closing(page):
        return read_page(page)


def _open_page(document: pypdfium2.PdfDocument, number: int) -> pypdfium2.PdfPage | None:
    """Open a page with its form fields and annotations drawn into it. Return None if it is damaged."""
    try:
        page = document[number]
        if 0 < pdfium.FPDFPage_GetAnnotCount(page) <= _MAX_ANNOTATIONS:
            result = pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY)
            if result == pdfium.FLATTEN_SUCCESS:
                page.close()
                page = document[number]
    except pypdfium2.PdfiumError:
        return None
    return page


def _is_scan(page: PageContent) -> bool:
    if (
        sum(character.isalnum() for word in (*page.words, *page.aside) for character in word.text)
        <= _MAX_LETTERS_OF_SCAN
    ):
        return True
    return page.picture_cover >= _PICTURE and page.characters <= _MAX_STAMP and not page.is_transcribed


def _has_drawing(document: pypdfium2.PdfDocument) -> bool:
    return any(_has_two_colours(page) for number in range(len(document)) if (page := _open_page(document, number)))


def _has_two_colours(page: pypdfium2.PdfPage) -> bool:
    with closing(page):
        scale = min(1.0, _THUMBNAIL / max(1.0, *page.get_size()))
        pixels = bytes(page.render(scale=scale, grayscale=True).buffer)
        return pixels.count(pixels[:1]) < len(pixels)


def _write_pages(pages: Sequence[PageContent]) -> tuple[list[list[TextBlock]], tuple[Artifact, ...]]:
    """Return the blocks of each page, and the tables that Markdown cannot show."""
    for page in pages:
        page.words = join_drop_caps(page.words)
    remove_headers_and_footers(pages)
    measured = pages[:: len(pages) // _PAGES_TO_MEASURE + 1]
    known = find_gutters(page.words for page in measured)
    spacing = line_spacing(make_lines(page.words) for page in measured)
    found = []
    for page in pages:
        found.append(list(_blocks(page, known, spacing)))
        page.words.clear()
    _join_tables(found)
    written: list[list[TextBlock]] = []
    artifacts: list[Artifact] = []
    for number, blocks in enumerate(found, start=1):
        written.append([])
        for block in blocks:
            if isinstance(block, TextBlock):
                written[-1].append(block)
            elif block.why_artifact:
                artifacts.append(block.artifact(f"table-{len(artifacts) + 1}", number))
                written[-1].append(TextBlock(artifact_text(artifacts[-1].name, block.lines)))
            else:
                written[-1].append(TextBlock(block.markdown()))
    return written, tuple(artifacts)


def _join_tables(pages: Sequence[list[TextBlock | PdfTable]]) -> None:
    """Join a table at the end of a page with its continuation on the next page, from the last page to the first."""
    for page, following in reversed([*pairwise(pages)]):
        table, rest = page[-1] if page else None, following[0] if following else None
        if isinstance(table, PdfTable) and isinstance(rest, PdfTable) and (whole := table.join_rest(rest)):
            page[-1] = whole
            del following[0]


def _blocks(page: PageContent, known: set[int], spacing: float) -> Iterator[TextBlock | PdfTable]:
    rules = join_rules(page.rules)
    ruled = find_ruled_tables(rules, page.words)
    in_tables = frozenset[int]().union(*(table.words for table in ruled))
    words = [word for word in page.words if id(word) not in in_tables]
    words += [Word(f"{TABLE_MARK}{number}", *table.box) for number, table in enumerate(ruled)]
    wide = (rule for rule in rules if rule.is_flat and rule.x1 - rule.x0 >= _WIDE * page.width)
    barriers = [Word("", rule.x0, rule.top, rule.x1, rule.top) for rule in wide]
    for region in split_into_regions(words + barriers, known):
        lines = make_lines(region)
        taken = 0
        for start, end, table in find_aligned_tables(lines, rules):
            yield from _prose(lines[taken:start], ruled, spacing)
            yield table
            taken = end
        yield from _prose(lines[taken:], ruled, spacing)
    if page.aside:
        yield TextBlock(" ".join(word.text for word in page.aside), _ASIDE)


def _prose(lines: Sequence[Line], ruled: Sequence[PdfTable], spacing: float) -> Iterator[TextBlock | PdfTable]:
    taken = 0
    for number, line in enumerate(lines):
        if line.table_number is not None:
            yield from make_paragraphs(lines[taken:number], spacing)
            yield ruled[line.table_number]
            taken = number + 1
    yield from make_paragraphs(lines[taken:], spacing)
