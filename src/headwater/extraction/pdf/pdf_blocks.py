"""Group lines into headings and paragraphs, and find the title."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from headwater.core.text import clean
from headwater.extraction import markdown_escape
from headwater.extraction.pdf.dehyphenation import is_broken_word, join_lines
from headwater.extraction.pdf.lines import Line
from headwater.extraction.pdf.page_content import SOFT_HYPHEN

_LARGER = 1.15  # times the usual letters; a heading
MAX_HEADING_LENGTH = 300
_WIDE_GAP = 0.55  # of the height of a line, more than the usual distance of lines
_USUAL_SPACING, _WIDEST_SPACING = 1.2, 2.6  # by the letter size
_LINES_TO_BELIEVE = 8
_HEAD = 3  # lines of a head in two corners, at most
_CORNERS = 3.0  # times the letter size; the gap between two corners
_SHORT = 0.2  # of the width; the last line of a paragraph leaves this much empty
_LEADER = re.compile(r"(?:\.\s?){4}\S{1,7}$")  # dots and a number, as in a table of contents
_LINE = 60  # characters; a shorter line may be complete
_INDENT = 0.7  # of the height of a line
_ITEM = re.compile(
    r"(?:[\u2022\u25cf\u25aa\u25a0\u25e6\u2023\u00b7\uf0b7\u2013\u2014*-]|\(?[0-9]{1,3}[.)]|\([a-zA-Z]{1,4}\)|[QA][.:])(?:\s|$)"
)
_COUNT = re.compile(r"[0-9]{1,3}")
_LABEL = re.compile(r"[A-Z]{2,12}: ")  # memoranda have these: TO, FROM, DATE
SPEAKER = re.compile(
    r"(?:(?:Mr|Ms|Mrs|Dr|Senator|Representative)\.? |The )[A-Z]{2}[A-Z'\u2019-]*(?: [A-Z]{2,}){0,3}[.:] "
)
_ENDS = re.compile(r"[.!?:;\u201d\"')\]]$")
_LEADERS = re.compile(r"(?<!\s)(?:\s*\.){4,}")


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A heading or a paragraph. `size` is the letter size, or 0 for text that is already Markdown.

    `is_parted` is true for text in two corners.
    """

    text: str
    size: float = 0.0
    is_bold: bool = False
    is_parted: bool = False


def make_paragraphs(lines: Sequence[Line], spacing: float) -> list[TextBlock]:
    """Group the lines of a region into paragraphs. `spacing` is that of the document, for regions with few lines."""
    if not lines:
        return []
    if len(lines) > _LINES_TO_BELIEVE:
        spacing = line_spacing([lines])
    right = max(line.x1 for line in lines)
    left = Counter(round(line.x0) for line in lines).most_common(1)[0][0]
    blocks: list[list[Line]] = [[lines[0]]]
    for before, line in itertools.pairwise(lines):
        if _begins_paragraph(before, line, spacing, left, right):
            blocks.append([])
        blocks[-1].append(line)
    return list(map(_block, blocks))


def _block(lines: Sequence[Line]) -> TextBlock:
    return TextBlock(
        shorten_leaders(join_lines(line.text for line in lines)),
        median(line.size for line in lines),
        all(line.is_bold for line in lines),
        len(lines) <= _HEAD and any(len(line.split_at_gaps(_CORNERS)) > 1 for line in lines),
    )


def line_spacing(pages: Iterable[Sequence[Line]]) -> float:
    """Return the usual distance of lines, by their letter size."""
    steps = [
        (after.top - before.top) / before.size
        for lines in pages
        for before, after in itertools.pairwise(lines)
        if 0 < after.top - before.top <= _WIDEST_SPACING * before.size
    ]
    return median(steps) if steps else _USUAL_SPACING


def _begins_paragraph(before: Line, line: Line, spacing: float, left: float, right: float) -> bool:
    size = max(1.0, line.size)
    if before.text.endswith(SOFT_HYPHEN):
        return False
    if abs(line.size - before.size) > 0.12 * size or line.is_bold is not before.is_bold:
        return True
    if line.top - before.top > (spacing + _WIDE_GAP) * size or _LEADER.search(before.text):
        return True
    if _ITEM.match(line.text) or _LABEL.match(line.text) or _is_next_number(before, line):
        return True
    first = line.words[0]
    is_short = right - before.x1 > max(first.x1 - first.x0, 2 * size, _SHORT * (right - left))
    is_over = bool(_ENDS.search(before.text))
    if is_over and SPEAKER.match(line.text):
        return True
    indented = line.x0 - before.x0 > _INDENT * size and line.x0 - left > _INDENT * size
    return (is_short and is_over) or (indented and (is_short or is_over) and not _ITEM.match(before.text))


def _is_next_number(before: Line, line: Line) -> bool:
    one, other = before.words[0].text, line.words[0].text
    return bool(_COUNT.fullmatch(one) and _COUNT.fullmatch(other)) and int(other) == int(one) + 1


def shorten_leaders(text: str) -> str:
    """Shorten the dots that lead to a number."""
    return _LEADERS.sub(" ...", text).strip()


def body_size(blocks: Iterable[TextBlock]) -> float:
    """Return the size of most letters."""
    sizes: Counter[float] = Counter()
    for block in blocks:
        sizes[round(block.size * 2) / 2] += len(block.text) if block.size else 0
    return sizes.most_common(1)[0][0] if sizes else 0.0


def blocks_to_markdown(blocks: Sequence[TextBlock], usual: float) -> list[str]:
    """Return the blocks as Markdown. Short blocks in large letters are headings, the largest of level one."""
    sizes = sorted({round(block.size) for block in blocks if is_heading(block, usual)}, reverse=True)
    level = {size: min(number, 3) for number, size in enumerate(sizes, start=1)}
    return [_written(block, level[round(block.size)] if is_heading(block, usual) else 0) for block in blocks]


def _written(block: TextBlock, level: int) -> str:
    text = clean(block.text.replace(SOFT_HYPHEN, "-"))
    if not block.size:
        return text
    return markdown_escape.escape_heading(text, level) if level else markdown_escape.escape_paragraph(text)


def is_heading(block: TextBlock, usual: float) -> bool:
    """Return whether a block is short and has large letters."""
    return (
        block.size > usual * _LARGER
        and len(block.text) <= MAX_HEADING_LENGTH
        and any(map(str.isalpha, block.text))
        and not _ITEM.match(block.text)
    )


def join_continued(blocks: Sequence[TextBlock]) -> list[TextBlock]:
    """Join a paragraph that continues in the next column or on the next page."""
    result: list[TextBlock] = []
    for block in blocks:
        before = result[-1] if result else None
        if (
            before
            and before.size
            and block.size
            and abs(before.size - block.size) < 0.6
            and _continues(before.text, block.text)
        ):
            # pdfium recognizes a hyphen only if the rest of the word follows in the file.
            text = before.text[:-1] + SOFT_HYPHEN if is_broken_word(before.text, block.text) else before.text
            result[-1] = replace(before, text=join_lines((text, block.text)))
        else:
            result.append(block)
    return result


def _continues(before: str, after: str) -> bool:
    if _ENDS.search(before) or not after[:1].islower() or _ITEM.match(after):
        return False
    return len(before) > _LINE or is_broken_word(before, after)


_MAX_FIRST_LINE_LENGTH = 120
_NEARLY = 0.75  # of the largest letters; a line of this size above them is part of the title
_PROGRAMS = (
    r"(?:microsoft|adobe|corel|open|libre)\s?\w* - .*"
    r"|(?:new |blank |microsoft )?(?:(?:word |powerpoint )?(?:document|presentation)|layout|slides?|slide show|sheet"
    r"|book|page|form|template|title|print|scan|image)[\s_-]*\d*"
    r"|(?:untitled|unbenannt|sans titre|sin t\u00edtulo|no title|unknown).*|\(?(?:anonymous|none|null|unspecified)\)?"
)
_FILE = (
    r"\S*\.\w{2,4}|[^\s.]*(?:_|\d{3})[^\s.]*"
    r"|[\w\\/:. -]*\.(?:docx?|dot|indd|pdf|pptx?|pub|qxd|qxp|rtf|tex|wpd|xlsx?)"
)
_NOTHING = r"[\W\d_]*|.{1,3}"
_CUT_OFF = r"(?:\S+ ){4,}(?:an?|and|of|or|the)(?:(?<=the) \w)?"  # a sentence without its end
_NO_TITLE = re.compile(rf"(?i:{_PROGRAMS}|{_FILE}|{_NOTHING})|{_CUT_OFF}")
_LEFT_BLANK = re.compile(r"(?i)page (?:was |is )?(?:intentionally|deliberately) (?:left )?blank")
_CONTENTS = re.compile(r"(?i)(?:table of )?contents")


def find_title(named: str, pages: Sequence[Sequence[TextBlock]], usual: float) -> str | None:
    """Return the title from the metadata, else from the first `pages`. `usual` is the size of most letters."""
    named = named[:MAX_HEADING_LENGTH]
    if not _NO_TITLE.fullmatch(named):
        return named
    shown = [list(filter(_may_be_title, page)) for page in pages]
    large = [_in_large_letters(page, usual) for page in shown]
    found = next((title for page in large for title in page if " " in title), None)
    found = found or next((title for page in large for title in page), None)
    return found or next((title for page in shown if (title := _in_usual_letters(page, usual))), None)


def _may_be_title(block: TextBlock) -> bool:
    """Return whether a block is text. Tables, heads in two corners and notes about blank pages are not."""
    return bool(block.size) and not block.is_parted and not _LEFT_BLANK.search(block.text)


def _in_large_letters(page: Sequence[TextBlock], usual: float) -> list[str]:
    """Return the texts in the largest letters of a page from the top. Successive lines of one size are one text."""
    runs: list[tuple[float, str]] = []
    for (size, is_large), blocks in itertools.groupby(
        page, key=lambda block: (round(block.size), is_heading(block, usual))
    ):
        if is_large:
            runs += ((size, text) for text in _join_title([block.text for block in blocks]))
    largest = max((size for size, _ in runs), default=0.0)
    return [text for size, text in runs if size >= _NEARLY * largest and not _CONTENTS.fullmatch(text)]


def _join_title(texts: Sequence[str]) -> Iterator[str]:
    whole = join_lines(texts)
    yield from (
        [whole] if len(whole) <= MAX_HEADING_LENGTH else (text for text in texts if len(text) <= MAX_HEADING_LENGTH)
    )


def _in_usual_letters(page: Sequence[TextBlock], usual: float) -> str | None:
    """Return the first bold line, else the first line if it is short."""
    lines = [block for block in page if block.size > 0.95 * usual and _may_begin_title(block.text)]
    bold = next((block.text for block in lines if block.is_bold and len(block.text.split()) > 2), "")
    first = lines[0].text if lines else ""
    return next((text for text in (bold, first) if 0 < len(text) <= _MAX_FIRST_LINE_LENGTH), None)


def _may_begin_title(text: str) -> bool:
    """Return whether a line is not a figure, a part of a sentence or the words of a speaker."""
    if text[0].islower() or SPEAKER.match(text):
        return False
    is_title = len(text) > MAX_HEADING_LENGTH or not _NO_TITLE.fullmatch(text)  # matching a long text takes long
    return is_title and any(map(str.isalpha, text))
