"""Group words into lines, and lines into regions in reading order: down one column, then down the next."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from statistics import median
from unicodedata import bidirectional

from headwater.extraction.pdf.page_content import Word

TABLE_MARK = "\x00"  # before the number of a table, in place of its words
_SEGMENT_GAP = 0.8  # of the letter size; a wider gap splits a line
_CELL_GAP = 1.7
_PROSE = 18  # characters of the median piece of a column of prose
_COMMON_STARTS = 12  # where most words begin, and a column may begin
_STRIPS_TO_TRY, _GAPS_TO_TRY = 8, 4
_MIN_WORDS = 6
_IN_LINE = 0.35  # the share of lines that are level with lines of another column by chance
_BREAK, _LEVEL_BREAK = 2.5, 1.3  # times the letter size; a gap that ends columns, and one where both columns end
_SAME_END = 0.5
_SAME_GUTTER = 2  # points
_GUTTER = 0.5  # of the letter size; the least width
_WIDER = 1.3  # than between words
_LINES_OF_A_GUTTER, _LINES_OF_A_KNOWN_GUTTER = 5.0, 1.5
_LINES_OF_A_SHORT_GUTTER = 2.5  # if sentences run from line to line on both sides
_MAX_DEPTH = 12  # levels of columns within columns
_middle = attrgetter("middle")


class Line:
    """Words of one height, from left to right. `size` is the median size of its letters."""

    __slots__ = ("_segments", "_text", "bottom", "size", "top", "words", "x0", "x1")

    def __init__(self, words: tuple[Word, ...]) -> None:
        self.words = words
        self.x0 = words[0].x0
        if len(words) == 1:
            self.x1, self.top, self.bottom, self.size = words[0].x1, words[0].top, words[0].bottom, words[0].size
        else:
            self.x1 = max([word.x1 for word in words])
            self.top = min([word.top for word in words])
            self.bottom = max([word.bottom for word in words])
            self.size = sorted([word.size for word in words])[len(words) // 2]
        self._text: str | None = None
        self._segments: tuple[Line, ...] | None = None

    @property
    def middle(self) -> float:
        """The vertical center. A line is above a ruling line if its center is."""
        return (self.top + self.bottom) / 2

    @property
    def text(self) -> str:
        """The text of the words. A soft hyphen at the end stays."""
        if self._text is None:
            self._text = " ".join([word.text for word in self.words])
            if not self._text.isascii() and any(map(_is_right_to_left, self._text)):
                self._text = " ".join(_order_right_to_left(self.words))
        return self._text

    @property
    def is_bold(self) -> bool:
        """Whether all words are bold."""
        return all(word.bold for word in self.words)

    @property
    def table_number(self) -> int | None:
        """The number of the table in whose place this line is, or None for words."""
        first = self.words[0].text
        return int(first[1:]) if first.startswith(TABLE_MARK) else None

    @property
    def segments(self) -> tuple["Line", ...]:
        """The pieces between wide gaps."""
        if self._segments is None:
            pieces = self.split_at_gaps(_SEGMENT_GAP)
            self._segments = tuple(map(Line, pieces)) if len(pieces) > 1 else ()
        return self._segments or (self,)

    def split_at_gaps(self, gap: float) -> list[tuple[Word, ...]]:
        """Split the words at gaps wider than `gap` times the letter size."""
        gap *= self.size
        words = self.words
        starts = [number for number in range(1, len(words)) if words[number].x0 - words[number - 1].x1 > gap]
        return [words[start:end] for start, end in zip((0, *starts), (*starts, len(words)), strict=True)]


def _order_right_to_left(words: Sequence[Word]) -> list[str]:
    """Return words in the order of Hebrew or Arabic, if most of them are in these scripts.

    Names and figures within them keep their order from left to right.
    """
    is_left = [any(map(_is_right_to_left, word.text)) for word in words]
    if sum(is_left) * 2 < len(words):
        return [word.text for word in words]
    runs = [
        (left, [word.text for _, word in run])
        for left, run in groupby(zip(is_left, words, strict=True), key=itemgetter(0))
    ]
    return [text for left, run in reversed(runs) for text in (reversed(run) if left else run)]


def _is_right_to_left(character: str) -> bool:
    return bidirectional(character) in ("R", "AL")


def make_lines(words: Iterable[Word]) -> list[Line]:
    """Group words into lines, from top to bottom."""
    rows: list[list[Word]] = []
    lines: list[Line] = []
    middle = half = 0.0
    row: list[Word] = []
    for word in sorted([word for word in words if word.text], key=_middle):
        own_half = word.size / 2
        if word.text[0] == TABLE_MARK:
            lines.append(Line((word,)))
        elif row and word.middle - middle <= (own_half if own_half > half else half) * 0.8:
            row.append(word)
            if own_half > half:
                middle, half = word.middle, own_half
        else:
            rows.append(row := [word])
            middle, half = word.middle, own_half
    lines += [Line(tuple(sorted(row, key=attrgetter("x0")))) for row in rows]
    return sorted(lines, key=attrgetter("top"))


@dataclass(frozen=True, slots=True)
class _Strip:
    x0: float
    x1: float
    top: float
    bottom: float

    @property
    def height(self) -> float:
        return self.bottom - self.top


def _gutters(words: list[Word], depth: int = 0) -> Iterator[float]:
    """Yield the obvious positions where columns begin, except the first column."""
    strip = _tallest_strip(words, ()) if depth < _MAX_DEPTH else None
    if strip:
        yield strip.x1
        for part in _split_at(words, strip):
            yield from _gutters(part, depth + 1)


def split_into_regions(words: Sequence[Word], known: Collection[float]) -> list[list[Word]]:
    """Split words into regions in reading order.

    `known` are the gutters of the document. A known gutter needs few lines next to it. Words without text are
    horizontal ruling lines, which end columns.
    """
    return list(_regions(sorted(words, key=_middle), known, 0))


def _regions(words: list[Word], known: Collection[float], depth: int) -> Iterator[list[Word]]:
    strip = _tallest_strip(words, known) if depth < _MAX_DEPTH else None
    if strip:
        for part in _split_at(words, strip):
            yield from _regions(part, known, depth + 1)
    elif words := [word for word in words if word.text]:
        yield words


def _split_at(words: list[Word], strip: _Strip) -> tuple[list[Word], list[Word], list[Word], list[Word]]:
    """Split words, sorted by their centers, into those above, left of, right of and below a strip."""
    start = bisect_left(words, strip.top, key=_middle)
    end = bisect_right(words, strip.bottom, key=_middle)
    beside = words[start:end]
    left = [word for word in beside if word.x0 < strip.x1 - 0.2]
    right = [word for word in beside if word.x0 >= strip.x1 - 0.2]
    return words[:start], left, right, words[end:]


def _tallest_strip(words: list[Word], known: Collection[float]) -> _Strip | None:
    if len(words) < _MIN_WORDS:
        return None
    size = median(word.size for word in words)
    starts = Counter(round(word.x0) for word in words if word.text)
    strips = []
    for start in {start for start, count in starts.most_common(_COMMON_STARTS) if count >= 3} | set(starts) & set(
        known
    ):
        least = size * (_LINES_OF_A_KNOWN_GUTTER if start in known else _LINES_OF_A_SHORT_GUTTER)
        strips += [strip for strip in _strips(words, start - 0.5, size) if strip.height >= least]
    strips.sort(key=lambda strip: (-strip.height, strip.x0))
    tried = (shorter for strip in strips[:_STRIPS_TO_TRY] for shorter in _shorten(words, strip, size))
    short = _LINES_OF_A_GUTTER * size
    found = next(
        (
            strip
            for strip in tried
            if _separates_columns(words, strip)
            and (strip.height >= short or round(strip.x1 + 0.5) in known or _are_sentences(words, strip))
        ),
        None,
    )
    return _end_at_gap(words, found, size) if found else None


def _shorten(words: list[Word], strip: _Strip, size: float) -> Iterator[_Strip]:
    """Yield a strip, and its upper parts that end at horizontal gaps, because there may be no columns below a gap."""
    yield strip
    _, left, right, _ = _split_at(words, strip)
    if not left or not right:
        return
    gaps = []
    reached = strip.bottom
    for word in sorted((*left, *right), key=_middle):
        if word.top - reached > size:
            gaps.append((reached + word.top) / 2)
        reached = word.bottom if reached == strip.bottom else max(reached, word.bottom)
    for gap in gaps[: -_GAPS_TO_TRY - 1 : -1]:
        if gap - strip.top >= _LINES_OF_A_GUTTER * size:
            yield _Strip(strip.x0, strip.x1, strip.top, gap)


def _end_at_gap(words: list[Word], strip: _Strip, size: float) -> _Strip:
    """End a strip at the gap where one column ends and the other continues below the gap."""
    _, left, right, _ = _split_at(words, strip)
    sides = sorted((left, right), key=lambda side: max(word.bottom for word in side))
    ended = reached = max(word.bottom for word in sides[0])
    for word in sides[1]:
        are_level = reached - ended <= _SAME_END * size
        if word.top > reached + (_LEVEL_BREAK if are_level else _BREAK) * size:
            return _Strip(strip.x0, strip.x1, strip.top, (reached + word.top) / 2)
        reached = max(reached, word.bottom)
    return strip


def _strips(words: Sequence[Word], x1: float, size: float) -> list[_Strip]:
    """Return the tallest strips left of `x1` that no word crosses."""
    x0 = x1 - _GUTTER * size
    strips = []
    reached = words[0].top
    for word in words:
        if word.x0 < x1 - 0.2 and word.x1 > x0:
            if word.top - reached > size:
                strips.append(_Strip(x0, x1, reached, word.top))
            reached = max(reached, word.bottom)
    if words[-1].bottom - reached > size:
        strips.append(_Strip(x0, x1, reached, words[-1].bottom))
    return strips


def _separates_columns(words: list[Word], strip: _Strip) -> bool:
    """Return whether prose is on both sides, or on one side with other text that is not level with it."""
    _, left, right, _ = _split_at(words, strip)
    if min(len(left), len(right)) < 2 or not (_has_letters(left) or _has_letters(right)):
        return False
    if min(left[-1].bottom, right[-1].bottom) <= max(left[0].top, right[0].top):
        return False  # one side is below the other
    beside = make_lines(left), make_lines(right)
    if _is_river(make_lines([*left, *right]), strip):
        return False
    prose = [_is_prose(lines) for lines in beside]
    if all(prose) or not any(prose):
        return all(prose) and not _has_leaders(beside[0])
    text, other = beside if prose[0] else beside[::-1]
    if not _fills_lines(text) or len(other) < 2:
        return False
    places = sorted(line.middle for line in text)
    in_line = sum(_is_near(line.middle, places, line.size / 4) for line in other)
    return in_line <= _IN_LINE * len(other)


def _is_river(lines: Sequence[Line], strip: _Strip) -> bool:
    """Return whether a strip is as narrow as the spaces between words on most lines. Then it is there by chance."""
    pairs = [pair for line in lines for pair in pairwise(line.words)]
    across = [after.x0 - before.x1 for before, after in pairs if before.x0 < strip.x1 - 0.2 <= after.x0]
    return bool(across) and median(across) < _WIDER * median(after.x0 - before.x1 for before, after in pairs)


def _are_sentences(words: list[Word], strip: _Strip) -> bool:
    """Return whether at least half of the lines on both sides begin within a sentence."""
    _, left, right, _ = _split_at(words, strip)
    sides = [make_lines(side)[1:] for side in (left, right)]
    return all(len(side) >= 2 and sum(line.text[0].islower() for line in side) * 2 >= len(side) for side in sides)


def _fills_lines(lines: Sequence[Line]) -> bool:
    """Return whether most lines reach the edge, as prose does, but not with the dots of a table."""
    left, right = min(line.x0 for line in lines), max(line.x1 for line in lines)
    full = sum(line.x1 >= right - 0.15 * (right - left) and "..." not in line.text for line in lines)
    return len(lines) >= _LINES_OF_A_GUTTER and full >= 0.6 * len(lines)


def _has_leaders(lines: Sequence[Line]) -> bool:
    """Return whether dots lead from these lines to the text next to them."""
    return sum(line.text.endswith(("..", ". .")) for line in lines) * 2 >= len(lines)


def _is_near(place: float, places: Sequence[float], distance: float) -> bool:
    found = bisect_left(places, place - distance)
    return found < len(places) and places[found] <= place + distance


def _is_prose(lines: Sequence[Line]) -> bool:
    """Return whether most lines are filled with words. Gaps in justified lines do not make cells."""
    if not _has_letters(word for line in lines for word in line.words):
        return False
    lengths = [
        10 * _PROSE if piece[0].text[0] == TABLE_MARK else sum([len(word.text) for word in piece])
        for line in lines
        for piece in line.split_at_gaps(_CELL_GAP)
    ]
    return len(lengths) >= 2 and median(lengths) >= _PROSE


def _has_letters(words: Iterable[Word]) -> bool:
    return sum([word.balance for word in words]) > 0


def find_gutters(pages: Iterable[Sequence[Word]]) -> set[int]:
    """Return where columns begin, in points, on several pages or on the only page."""
    found = [{round(start + 0.5) for start in _gutters(sorted(words, key=_middle))} for words in pages]
    count = Counter(start for page in found for start in page)
    return {
        start + near
        for start, pages_with in count.items()
        if pages_with >= min(2, len(found))
        for near in range(-_SAME_GUTTER, _SAME_GUTTER + 1)
    }
