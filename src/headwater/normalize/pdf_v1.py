"""PDF to Markdown, version 1.

pdfium looks at every page: words with their places, ruling lines, pictures. What is repeated around the pages goes;
cells, drawn or set in columns, become tables; the rest is read column by column into paragraphs.
"""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence

import pypdfium2
import pypdfium2.raw as pdfium

from headwater.errors import Unreadable
from headwater.model.article import Article
from headwater.model.pdf import Artifact, BodyStatus, PdfDocument
from headwater.model.reasons import Reason
from headwater.normalize.pdf_aligned import aligned_tables
from headwater.normalize.pdf_blocks import Block, continued, line_spacing, paragraphs, with_headings
from headwater.normalize.pdf_furniture import remove_furniture
from headwater.normalize.pdf_lines import MARK, Line, in_reading_order, known_gutters, lines_of
from headwater.normalize.pdf_look import SOFT_HYPHEN, Look, Rule, TooMuchText, Word, look
from headwater.normalize.pdf_tables import Table, as_written, joined_rules, ruled_tables
from headwater.policy.text import clean, one_line

HEADER = b"%PDF-"
HEADER_WITHIN = 1024  # bytes; what stands before it is passed over
MAX_PAGES = 1500
MAX_CHARACTERS = 8_000_000
_STAMP = 300  # characters; a picture of a page with no more text than this is a scan with a stamp
_NOTHING = 3  # letters and figures: a page number, or codes of a font that does not say what they mean
_PICTURE = 0.5  # of a page
_WIDE = 0.4  # of a page: a line drawn across columns
_UNREADABLE = {
    BodyStatus.ENCRYPTED: Reason.ENCRYPTED,
    BodyStatus.BROKEN: Reason.BROKEN,
    BodyStatus.NOT_A_PDF: Reason.NOT_A_PDF,
    BodyStatus.TOO_LARGE: Reason.TOO_LARGE,
}
_NO_TITLE = re.compile(r"(?i)\s*(?:untitled.*|microsoft \w+ - .*|\S*\.\w{2,4}|[\W\d_]*|.{1,3})\s*")
_ONE_AT_A_TIME = threading.Lock()
_TRUST = {"text": 0.9, "title": 0.8}  # titles are left over from the file before, now and then
_HEADING = re.compile(r"(?m)^#{1,3} (.+)$")
_LONGEST_TITLE, _LONGEST_FIRST_LINE = 200, 120
_PAGES_TO_MEASURE = 50  # to know how a document is set


def extract_pdf(body: bytes) -> PdfDocument:
    """Return what a PDF says as Markdown. Whatever the bytes are, the status tells; nothing is raised.

    pdfium does one thing at a time in a process, so threads wait for each other here.
    """
    with _ONE_AT_A_TIME:
        return _extract(body)


def _extract(body: bytes) -> PdfDocument:
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
        return PdfDocument("", BodyStatus.SCANNED_NO_TEXT, page_count=count, title=_title(named, ""))
    markdown, artifacts = _write(pages)
    return PdfDocument(markdown, BodyStatus.OK, artifacts, count, _title(named, markdown))


def _title(named: str, markdown: str) -> str | None:
    """Return the title that the file names, unless that is only a file's name, else its first heading or line."""
    if not _NO_TITLE.fullmatch(named):
        return named[:_LONGEST_TITLE]
    heading = _HEADING.search(markdown)
    first = heading[1] if heading else markdown.partition("\n")[0]
    return first if 0 < len(first) <= _LONGEST_FIRST_LINE and first[0] not in "|`" else None


def _look_at(document: pypdfium2.PdfDocument, number: int) -> Look | None:
    try:
        page = document[number]
    except pypdfium2.PdfiumError:
        return None  # it is damaged, others are not
    try:
        return look(page)
    finally:
        page.close()


def _is_scan(page: Look) -> bool:
    if sum(character.isalnum() for word in (*page.words, *page.aside) for character in word.text) <= _NOTHING:
        return True
    return page.picture_cover >= _PICTURE and page.characters <= _STAMP


def _write(pages: Sequence[Look]) -> tuple[str, tuple[Artifact, ...]]:
    remove_furniture(pages)
    known = known_gutters(page.words for page in pages[:: len(pages) // _PAGES_TO_MEASURE + 1])
    spacing = line_spacing(lines_of(page.words) for page in pages[:: len(pages) // _PAGES_TO_MEASURE + 1])
    blocks: list[Block] = []
    artifacts: list[Artifact] = []
    for number, page in enumerate(pages, start=1):
        for found in _blocks(page, known, spacing):
            if isinstance(found, Block):
                blocks.append(found)
            elif found.why_artifact:
                artifacts.append(found.artifact(f"table-{len(artifacts) + 1}", number))
                blocks.append(Block(as_written(artifacts[-1].name, found.lines)))
            else:
                blocks.append(Block(found.markdown()))
    texts = (clean(block.text.replace(SOFT_HYPHEN, "-")) for block in with_headings(continued(blocks)))
    return "\n\n".join(filter(None, texts)), tuple(artifacts)


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
        yield Block(" ".join(word.text for word in page.aside), page.aside[0].x1 - page.aside[0].x0)


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
