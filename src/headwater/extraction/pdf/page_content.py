"""Read the words, ruling lines and pictures of a page with pdfium, and join drop caps to their words."""

import ctypes
import itertools
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

from headwater.extraction.pdf.drawings import Box, Rotation, RulingLine, read_drawings

SOFT_HYPHEN = "\ufffe"  # pdfium's character for a hyphen that breaks a word at the end of a line
DROP_CAP_RATIO = 1.6  # a drop cap is larger than the next letters by this factor
_MAX_CHARACTERS = 200_000  # of one page
_BELOW = 0.22  # of the letter size; the part below the baseline
_SMALLEST, _LARGEST = 1.0, 400.0  # letters, in points
_BOLD = 600  # the least weight of bold letters
_FONT_NAME = 64  # bytes; the name of a font may say what its weight does not
_WORD = re.compile(r"[^\x00-\x20\s]+")
_USUAL_WIDTH = 0.62  # of a letter, by its size
_MIN_SPACED_LETTERS, _EVEN = 4, 0.15  # letters; the difference of their gaps, by their height
_GAP = 0.35  # of the letter size; a wider gap splits a word


class TooMuchText(Exception):
    """A page has more characters than a person would read."""


@dataclass(slots=True, eq=False)
class Word:
    """A word. `x0` and `x1` count from the left, `top` and `bottom` from the top of the rotated page."""

    text: str
    x0: float
    top: float
    x1: float
    bottom: float
    bold: bool = False

    size: float = field(init=False)  # the height of the letters
    middle: float = field(init=False)  # the vertical center
    balance: int = field(init=False)  # the number of letters minus the number of figures

    def __post_init__(self) -> None:
        self.size = self.bottom - self.top
        self.middle = (self.top + self.bottom) / 2
        text = self.text
        self.balance = len(text) if text.isalpha() else sum(map(str.isalpha, text)) - sum(map(str.isdigit, text))


@dataclass(slots=True)
class PageContent:
    """A page, rotated so that most of its text runs from left to right.

    The words of `aside` run in another direction, or are outside of the visible page.
    """

    width: float
    height: float
    words: list[Word] = field(default_factory=list)
    aside: list[Word] = field(default_factory=list)
    rules: list[RulingLine] = field(default_factory=list)
    picture_cover: float = 0.0  # the share of the page that pictures cover
    is_transcribed: bool = False  # whether the page has invisible text, which scanners put behind a picture

    @property
    def characters(self) -> int:
        """The number of characters of all words."""
        return sum(len(word.text) for word in (*self.words, *self.aside))


def read_page(page: pypdfium2.PdfPage) -> PageContent:
    """Read a page."""
    bounds = page.get_bbox()
    text = pdfium.FPDFText_LoadPage(page)
    try:
        runs = list(_runs(text)) if text else []
    finally:
        if text:
            pdfium.FPDFText_ClosePage(text)
    quarters = Counter({0: 0})
    for run in runs:
        quarters[run.style.quarters] += len(run.text)
    rotation = Rotation(quarters.most_common(1)[0][0], *bounds)
    content = PageContent(*rotation.size())
    unseen: list[Word] = []
    levels: dict[_Level, _Level] = {}
    for run in runs:
        word = Word(_text(run.text), *rotation.box(*run.box), run.style.bold)
        # Words of one line share equal values. They take most of the memory of a long document.
        level = word.top, word.bottom, word.size, word.middle
        word.top, word.bottom, word.size, word.middle = levels.setdefault(level, level)
        if not math.isfinite(word.x0 + word.x1 + word.middle):
            continue
        if run.style.quarters != rotation.quarters:
            content.aside.append(word)
        else:
            (content.words if _is_shown(word, content) else unseen).append(word)
    if content.words:
        content.aside += unseen
    else:
        content.words = unseen
    content.rules, content.picture_cover = read_drawings(page, rotation)
    content.is_transcribed = any(run.style.hidden for run in runs)
    return content


_Level = tuple[float, float, float, float]


def _is_shown(word: Word, page: PageContent) -> bool:
    return word.x1 > 0 and word.x0 < page.width and 0 < word.middle < page.height


def _text(text: str) -> str:
    """Remove soft hyphens, except the one at the end."""
    if "\xad" in text:
        text = text[:-1].replace("\xad", "") + (SOFT_HYPHEN if text.endswith("\xad") else text[-1])
    elif (
        text.endswith("\u2010") and len(text) > 1
    ):  # programs that break words draw this hyphen, but people do not type it
        text = text[:-1] + SOFT_HYPHEN
    return sys.intern(text)


class _Style(NamedTuple):
    quarters: int
    size: float  # 0 if it is unknown
    bold: bool
    hidden: bool


class _TextRun(NamedTuple):
    text: str
    box: Box
    style: _Style


_Styles = dict[int, _Style]  # by text object, which has one font and one angle


def _runs(text: Any) -> Iterator[_TextRun]:
    """Yield the words of pdfium, split where letters are apart or on another line."""
    styles: _Styles = {}
    for found in _WORD.finditer(_characters(text)):
        start, end = found.span()
        style = _style(text, start, styles)
        ends = [place for number in (start, end - 1) if (place := _char_box(text, number))]
        if _is_one_piece(ends, style, end - start):
            (left, bottom, _, top), (_, _, right, _) = ends
            yield _run(text, found[0], (left, bottom, right, top), start, style)
        else:
            yield from _pieces(text, found[0], start, styles)


def _is_one_piece(ends: Sequence[Box], style: _Style, letters: int) -> bool:
    """Return whether a word is no wider than its letters, by the boxes of its first and its last letter."""
    if len(ends) < 2 or style.quarters or not style.size:
        return False
    (left, bottom, _, top), (_, other_bottom, right, other_top) = ends
    is_level = bottom < other_top and other_bottom < top and not _is_initial(ends[0], ends[1])
    return is_level and 0 <= right - left <= _USUAL_WIDTH * style.size * letters


def _is_initial(letter: Box, other: Box) -> bool:
    return letter[3] - letter[1] > DROP_CAP_RATIO * (other[3] - other[1]) > 0


def _pieces(text: Any, word: str, start: int, styles: _Styles) -> Iterator[_TextRun]:
    letters = [
        (number, character, place)
        for number, character in enumerate(word, start)
        if (place := _char_box(text, number)) is not None
    ]
    is_spaced = len(letters) == len(word) and word.isalpha() and _is_letter_spaced([place for _, _, place in letters])
    part, places, first, style = "", list[Box](), start, _Style(0, 0.0, False, False)
    for number, character, place in letters:
        is_apart = not is_spaced and bool(part) and _is_apart(places[-1], place, style.quarters)
        if len(part) == 1 and part.isalpha() and style.quarters == 0 and _is_initial(places[0], place):
            is_apart = True
        if part and (part.endswith(SOFT_HYPHEN) or is_apart):
            yield _run(text, part, _bounding_box(places), first, style)
            part, places = "", []
        if not part:
            first = number
            style = _style(text, number, styles)
        part += character
        places.append(place)
    if part:
        yield _run(text, part, _bounding_box(places), first, style)


def _is_letter_spaced(places: Sequence[Box]) -> bool:
    """Return whether letters have equal gaps no wider than their height, as in some titles."""
    if len(places) < _MIN_SPACED_LETTERS or any(place[1] != places[0][1] for place in places):
        return False
    tall = places[0][3] - places[0][1]
    gaps = [other[0] - one[2] for one, other in itertools.pairwise(places)]
    return min(gaps) > 0 and max(gaps) <= tall and max(gaps) - min(gaps) <= _EVEN * tall


def _style(text: Any, number: int, styles: _Styles) -> _Style:
    drawn = pdfium.FPDFText_GetTextObject(text, number)
    key = ctypes.addressof(drawn.contents) if drawn else 0
    style = styles.get(key)
    if style is None:
        hidden = bool(drawn) and pdfium.FPDFTextObj_GetTextRenderMode(drawn) == pdfium.FPDF_TEXTRENDERMODE_INVISIBLE
        style = _Style(_quarters(text, number), _letter_size(text, number), _is_bold(text, number), hidden)
        if key:
            styles[key] = style
    return style


def _quarters(text: Any, number: int) -> int:
    """Return the rotation of a character to the left, in quarters. pdfium counts to the right."""
    return -round(float(pdfium.FPDFText_GetCharAngle(text, number)) / (math.pi / 2)) % 4


def _char_box(text: Any, number: int) -> Box | None:
    box = pdfium.FS_RECTF()
    if not pdfium.FPDFText_GetLooseCharBox(text, number, box):
        return None
    return box.left, box.bottom, box.right, box.top


def _characters(text: Any) -> str:
    count = pdfium.FPDFText_CountChars(text)
    if count > _MAX_CHARACTERS:
        raise TooMuchText
    buffer = (ctypes.c_ushort * (2 * count + 2))()
    written = pdfium.FPDFText_GetText(text, 0, count, buffer) if count > 0 else 0
    characters = bytes(buffer)[: 2 * max(0, written - 1)].decode("utf-16-le", "replace")
    if len(characters) == count:
        return characters
    # Some characters are not in the text, so the positions of the others are shifted.
    codes = (pdfium.FPDFText_GetUnicode(text, number) for number in range(count))
    return "".join(chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd" for code in codes)


def _is_apart(one: Box, other: Box, quarters: int) -> bool:
    tall = min(max(one[3] - one[1], one[2] - one[0]), max(other[3] - other[1], other[2] - other[0]))
    if quarters % 2 == 0:
        onward = other[0] - one[2] if quarters == 0 else one[0] - other[2]
        is_level = one[1] <= other[3] and other[1] <= one[3]
    else:
        onward = other[1] - one[3] if quarters == 1 else one[1] - other[3]
        is_level = one[0] <= other[2] and other[0] <= one[2]
    return not is_level or not -2 * tall <= onward <= _GAP * tall


def _bounding_box(places: Sequence[Box]) -> Box:
    lefts, bottoms, rights, tops = zip(*places, strict=True)
    return min(lefts), min(bottoms), max(rights), max(tops)


def _run(text: Any, word: str, place: Box, first: int, style: _Style) -> _TextRun:
    left, bottom, right, top = place
    quarters, size = style.quarters, style.size
    x, y = ctypes.c_double(), ctypes.c_double()
    if size and pdfium.FPDFText_GetCharOrigin(text, first, x, y):
        # Boxes are as tall as the font or the letter. The baseline and the letter size are more reliable.
        below, above = _BELOW * size, (1 - _BELOW) * size
        if quarters % 2 == 0:
            bottom, top = (y.value - below, y.value + above) if quarters == 0 else (y.value - above, y.value + below)
        else:
            left, right = (x.value - above, x.value + below) if quarters == 1 else (x.value - below, x.value + above)
    return _TextRun(word, (left, bottom, right, top), style)


def _is_bold(text: Any, number: int) -> bool:
    if weight := pdfium.FPDFText_GetFontWeight(text, number):
        return bool(weight >= _BOLD)
    name, flags = ctypes.create_string_buffer(_FONT_NAME), ctypes.c_int()
    pdfium.FPDFText_GetFontInfo(text, number, name, _FONT_NAME, flags)
    return b"bold" in name.value.lower()


def _letter_size(text: Any, number: int) -> float:
    """Return the size of letters on the page, or 0 if it is unknown."""
    matrix = pdfium.FS_MATRIX()
    if not pdfium.FPDFText_GetMatrix(text, number, ctypes.byref(matrix)):
        return 0.0
    size = float(pdfium.FPDFText_GetFontSize(text, number)) * math.hypot(matrix.c, matrix.d)
    return size if _SMALLEST <= size <= _LARGEST else 0.0


_BESIDE, _TOUCHING = 2.0, 0.35  # of the usual letter size; the gap between a drop cap and its text, at most


def join_drop_caps(words: list[Word]) -> list[Word]:
    """Join each drop cap, a large letter next to several lines, to the word that it begins."""
    if not words:
        return words
    usual = median(word.size for word in words)
    whole: dict[int, Word | None] = {}
    for initial in words:
        if len(initial.text) == 1 and initial.size > DROP_CAP_RATIO * usual and initial.text.isalpha():
            rest = _rest(initial, words, usual)
            if rest:
                whole[id(initial)] = None
                whole[id(rest)] = replace(rest, text=initial.text + rest.text, x0=initial.x0)
    return [found for word in words if (found := whole.get(id(word), word))] if whole else words


def _rest(initial: Word, words: Sequence[Word], usual: float) -> Word | None:
    """Return the word that a drop cap begins, or None if neither several lines nor a touching word are next to it."""
    beside = [
        word
        for word in words
        if -0.5 * usual <= word.x0 - initial.x1 <= _BESIDE * usual
        and word.size * DROP_CAP_RATIO < initial.size
        and initial.top - usual <= word.middle <= initial.bottom
    ]
    first = min(beside, key=lambda word: (word.middle, word.x0), default=None)
    if first is None or not first.text[0].isalpha():
        return None
    has_lines = any(word.middle - first.middle > usual / 2 for word in beside)
    return first if has_lines or first.x0 - initial.x1 <= _TOUCHING * usual else None
