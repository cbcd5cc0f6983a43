"""Lines to blocks: headings and paragraphs."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from headwater.core.text import clean
from headwater.extraction import markdown_escape
from headwater.extraction.pdf.dehyphenation import is_broken_word, joined
from headwater.extraction.pdf.lines import Line
from headwater.extraction.pdf.page_content import SOFT_HYPHEN

_LARGER = 1.15  # than the text: a heading
LONGEST_HEADING = 300
_WIDE_GAP = 0.55  # of a line's height, over the usual distance of lines
_USUAL_SPACING, _WIDEST_SPACING = 1.2, 2.6  # by the size of the letters
_LINES_TO_BELIEVE = 8
_HEAD = 3  # lines that a head in two corners has at most
_CORNERS = 3.0  # times the size of letters: the gap between what stands in two corners
_SHORT = 0.2  # of the width: what the last line of a paragraph leaves empty
_LED = re.compile(r"(?:\.\s?){4}\S{1,7}$")  # dots and a number, as lines of contents end
_LINE = 60  # characters: what is shorter may be complete
_INDENT = 0.7  # of a line's height
_ITEM = re.compile(
    r"(?:[\u2022\u25cf\u25aa\u25a0\u25e6\u2023\u00b7\uf0b7\u2013\u2014*-]|\(?[0-9]{1,3}[.)]|\([a-zA-Z]{1,4}\)|[QA][.:])(?:\s|$)"
)
_COUNT = re.compile(r"[0-9]{1,3}")
_LABEL = re.compile(r"[A-Z]{2,12}: ")  # as memoranda have: TO, FROM, DATE
SPEAKER = re.compile(
    r"(?:(?:Mr|Ms|Mrs|Dr|Senator|Representative)\.? |The )[A-Z]{2}[A-Z'\u2019-]*(?: [A-Z]{2,}){0,3}[.:] "
)
_ENDS = re.compile(r"[.!?:;\u201d\"')\]]$")
_LEADERS = re.compile(r"(?<!\s)(?:\s*\.){4,}")


@dataclass(frozen=True, slots=True)
class Block:
    """A heading or a paragraph; `size` is that of its letters, 0 where it is no prose but written as it must be.

    `is_parted` is what stands in two corners.
    """

    text: str
    size: float = 0.0
    is_bold: bool = False
    is_parted: bool = False


def paragraphs(lines: Sequence[Line], spacing: float) -> list[Block]:
    """Gather the lines of a region into paragraphs; `spacing` is the document's, for regions of a few lines."""
    if not lines:
        return []
    if len(lines) > _LINES_TO_BELIEVE:
        spacing = line_spacing([lines])
    right = max(line.x1 for line in lines)
    left = Counter(round(line.x0) for line in lines).most_common(1)[0][0]
    blocks: list[list[Line]] = [[lines[0]]]
    for before, line in itertools.pairwise(lines):
        if _begins(before, line, spacing, left, right):
            blocks.append([])
        blocks[-1].append(line)
    return list(map(_block, blocks))


def _block(lines: Sequence[Line]) -> Block:
    return Block(
        tidy(joined(line.text for line in lines)),
        median(line.size for line in lines),
        all(line.is_bold for line in lines),
        len(lines) <= _HEAD and any(len(line.parted(_CORNERS)) > 1 for line in lines),
    )


def line_spacing(pages: Iterable[Sequence[Line]]) -> float:
    """Return the usual distance from line to line, by the size of their letters."""
    steps = [
        (after.top - before.top) / before.size
        for lines in pages
        for before, after in itertools.pairwise(lines)
        if 0 < after.top - before.top <= _WIDEST_SPACING * before.size
    ]
    return median(steps) if steps else _USUAL_SPACING


def _begins(before: Line, line: Line, spacing: float, left: float, right: float) -> bool:
    """Tell whether a line begins a paragraph."""
    size = max(1.0, line.size)
    if before.text.endswith(SOFT_HYPHEN):
        return False
    if abs(line.size - before.size) > 0.12 * size or line.is_bold is not before.is_bold:
        return True
    if line.top - before.top > (spacing + _WIDE_GAP) * size or _LED.search(before.text):
        return True
    if _ITEM.match(line.text) or _LABEL.match(line.text) or _counts_on(before, line):
        return True
    is_short = right - before.x1 > max(_word_width(line), 2 * size, _SHORT * (right - left))
    is_over = bool(_ENDS.search(before.text))
    if is_over and SPEAKER.match(line.text):
        return True
    indented = line.x0 - before.x0 > _INDENT * size and line.x0 - left > _INDENT * size
    return (is_short and is_over) or (indented and (is_short or is_over) and not _ITEM.match(before.text))


def _counts_on(before: Line, line: Line) -> bool:
    """Tell whether two lines begin with numbers of which one follows the other, as those of a list do."""
    one, other = before.words[0].text, line.words[0].text
    return bool(_COUNT.fullmatch(one) and _COUNT.fullmatch(other)) and int(other) == int(one) + 1


def _word_width(line: Line) -> float:
    return line.words[0].x1 - line.words[0].x0


def tidy(text: str) -> str:
    """Shorten the dots that lead the eye to a number."""
    return _LEADERS.sub(" ...", text).strip()


def body_size(blocks: Iterable[Block]) -> float:
    """Return the size of most of the letters."""
    sizes: Counter[float] = Counter()
    for block in blocks:
        sizes[round(block.size * 2) / 2] += len(block.text) if block.size else 0
    return sizes.most_common(1)[0][0] if sizes else 0.0


def in_markdown(blocks: Sequence[Block], usual: float) -> list[str]:
    """Return blocks as Markdown; those in larger letters are headings, the largest of them of the first level."""
    sizes = sorted({round(block.size) for block in blocks if is_heading(block, usual)}, reverse=True)
    level = {size: min(number, 3) for number, size in enumerate(sizes, start=1)}
    return [_written(block, level[round(block.size)] if is_heading(block, usual) else 0) for block in blocks]


def _written(block: Block, level: int) -> str:
    text = clean(block.text.replace(SOFT_HYPHEN, "-"))
    if not block.size:
        return text
    return markdown_escape.heading(text, level) if level else markdown_escape.paragraph(text)


def is_heading(block: Block, usual: float) -> bool:
    """Tell whether a block is in larger letters, and short."""
    return (
        block.size > usual * _LARGER
        and len(block.text) <= LONGEST_HEADING
        and any(map(str.isalpha, block.text))
        and not _ITEM.match(block.text)
    )


def continued(blocks: Sequence[Block]) -> list[Block]:
    """Join a paragraph that goes on in the next column or on the next page with its beginning."""
    result: list[Block] = []
    for block in blocks:
        before = result[-1] if result else None
        if (
            before
            and before.size
            and block.size
            and abs(before.size - block.size) < 0.6
            and _goes_on(before.text, block.text)
        ):
            # pdfium knows a hyphen that breaks a word only where the rest of the word follows in the file
            text = before.text[:-1] + SOFT_HYPHEN if is_broken_word(before.text, block.text) else before.text
            result[-1] = replace(before, text=joined((text, block.text)))
        else:
            result.append(block)
    return result


def _goes_on(before: str, after: str) -> bool:
    if _ENDS.search(before) or not after[:1].islower() or _ITEM.match(after):
        return False
    return len(before) > _LINE or is_broken_word(before, after)
