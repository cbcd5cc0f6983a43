"""What a PDF is called: as it says itself, unless that is a program's word, else by its largest letters."""

import itertools
import re
from collections.abc import Iterator, Sequence

from headwater.extraction.pdf.dehyphenation import joined
from headwater.extraction.pdf.pdf_blocks import LONGEST_HEADING, SPEAKER, Block, is_heading

_LONGEST_FIRST_LINE = 120
_NEARLY = 0.75  # of the largest letters: what stands above those and is no smaller than this goes before them
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
_CUT_OFF = r"(?:\S+ ){4,}(?:an?|and|of|or|the)(?:(?<=the) \w)?"  # a sentence whose end is elsewhere
_NO_TITLE = re.compile(rf"(?i:{_PROGRAMS}|{_FILE}|{_NOTHING})|{_CUT_OFF}")
_LEFT_BLANK = re.compile(r"(?i)page (?:was |is )?(?:intentionally|deliberately) (?:left )?blank")
_CONTENTS = re.compile(r"(?i)(?:table of )?contents")


def title_of(named: str, pages: Sequence[Sequence[Block]], usual: float) -> str | None:
    """Return the title; `pages` are the first ones, `usual` is the size of most letters."""
    named = named[:LONGEST_HEADING]
    if not _NO_TITLE.fullmatch(named):
        return named
    shown = [list(filter(_may_be_title, page)) for page in pages]
    large = [_in_large_letters(page, usual) for page in shown]
    found = next((title for page in large for title in page if " " in title), None)
    found = found or next((title for page in large for title in page), None)
    return found or next((title for page in shown if (title := _in_usual_letters(page, usual))), None)


def _may_be_title(block: Block) -> bool:
    """Tell text from tables, from heads in two corners, and from what says that nothing is said."""
    return bool(block.size) and not block.is_parted and not _LEFT_BLANK.search(block.text)


def _in_large_letters(page: Sequence[Block], usual: float) -> list[str]:
    """Return what is set in the largest letters of a page, or nearly so, from the top; lines of one size are one."""
    runs: list[tuple[float, str]] = []
    for (size, is_large), blocks in itertools.groupby(page, key=lambda block: _set_in(block, usual)):
        if is_large:
            runs += ((size, text) for text in _together([block.text for block in blocks]))
    largest = max((size for size, _ in runs), default=0.0)
    return [text for size, text in runs if size >= _NEARLY * largest and not _CONTENTS.fullmatch(text)]


def _set_in(block: Block, usual: float) -> tuple[float, bool]:
    return round(block.size), is_heading(block, usual)


def _together(texts: Sequence[str]) -> Iterator[str]:
    """Join lines to a title, unless that would be too long for one."""
    whole = joined(texts)
    yield from [whole] if len(whole) <= LONGEST_HEADING else (text for text in texts if len(text) <= LONGEST_HEADING)


def _in_usual_letters(page: Sequence[Block], usual: float) -> str | None:
    """Return the first line in bold letters, else the first line, if it is short."""
    lines = [block for block in page if block.size > 0.95 * usual and _begins_well(block.text)]
    bold = next((block.text for block in lines if block.is_bold and len(block.text.split()) > 2), "")
    first = lines[0].text if lines else ""
    return next((text for text in (bold, first) if 0 < len(text) <= _LONGEST_FIRST_LINE), None)


def _begins_well(text: str) -> bool:
    """Tell whether a line is no figure, no part of a sentence, and nobody's words."""
    if text[0].islower() or SPEAKER.match(text):
        return False
    is_title = len(text) > LONGEST_HEADING or not _NO_TITLE.fullmatch(text)  # to match what is long takes long
    return is_title and any(map(str.isalpha, text))
