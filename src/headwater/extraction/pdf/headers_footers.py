"""Remove headers, footers, page numbers and line numbers from pages."""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from operator import attrgetter
from statistics import median

from headwater.extraction.pdf.lines import Line, make_lines
from headwater.extraction.pdf.page_content import PageContent, Word

_EDGE_LINES = 3  # from the top and from the bottom, that may be a header or a footer
_SAME_PLACE = 8.0  # points
_APART, _NUMBER_APART = 0.7, 0.5  # of the letter size; the gap between a header and the text
_EVENLY = 1.3  # times the distance of rows
_LARGER, _SMALLER = 1.15, 0.9  # than most letters
_WORDS_OF_A_FOOT, _WORDS_OF_A_HEAD = 3, 5  # at least, besides a number
_HUGE = 3.0  # times most letters
_A_NUMBER = "#"
_MAX_DIGITS = 9  # digits
_PAGES_TO_BELIEVE = 3
_MAX_PAGE_NUMBER_LENGTH = 40  # characters; matching a longer text takes long
_NUMBER = re.compile(r"\d+")
_SECTION = re.compile(r"\u00a7\s?\d[\d.]*")  # a page of law begins or ends with its section
_AFTER_A_SIGN = re.compile(
    r"(?:[|\u2022\u00b7\u2013\u2014-]|\bpage) ?#(?: of #)?$|^# ?[|\u2022\u00b7\u2013\u2014-]", re.IGNORECASE
)
_PAGE_NUMBER = re.compile(r"\W*(?:page\W*)?(?:[A-Z]{1,2}[-\u2013])?(?:#|[ivxlc]{1,7})(?:\W*of\W*#)?\W*", re.IGNORECASE)


def remove_headers_and_footers(pages: Sequence[PageContent]) -> None:
    """Remove text that repeats at the edges of pages, and the numbers of lines."""
    remove_line_numbers(pages)
    _set_watermarks_aside(pages)
    _remove_repeated_lines(pages)
    _remove_repeated_asides(pages)


@dataclass(slots=True)
class _LinePosition:
    """The lines of all pages that have the same height and the same text except numbers."""

    pages: list[int] = field(default_factory=list)
    numbers: list[tuple[int, ...]] = field(default_factory=list)  # in the line on each of those pages
    kinds: set[int] = field(default_factory=set)  # of pages; pages with the same text except numbers are one kind


_Places = dict[tuple[str, int], _LinePosition]


def _remove_repeated_lines(pages: Sequence[PageContent]) -> None:
    """Remove lines that repeat at the same position of several pages and have no other line outside of them.

    Lines that differ by a number are data, unless the number is that of the page.
    """
    edges = []
    alike: _Places = defaultdict(_LinePosition)  # by the text without numbers, and the height
    same: _Places = defaultdict(_LinePosition)  # by the exact text, and the height
    kinds: dict[str, int] = {}
    for number, page in enumerate(pages):
        lines = make_lines(page.words)
        edges.append((lines[: _EDGE_LINES + 1], lines[: -_EDGE_LINES - 2 : -1]))
        kind = kinds.setdefault(_NUMBER.sub("#", "\n".join(line.text for line in lines)), number)
        outer = {id(line): line for edge in edges[-1] for line in edge[:_EDGE_LINES]}
        for line in outer.values():
            figures = tuple(int(found[-_MAX_DIGITS:]) for found in _NUMBER.findall(line.text))
            for places, text in ((alike, _signature(line.text)), (same, _SECTION.sub("\u00a7", line.text))):
                place = places[text, round(line.top / _SAME_PLACE)]
                place.pages.append(number)
                place.numbers.append(figures)
                place.kinds.add(kind)
    repeated = _RepeatedLines(alike, same, min(_PAGES_TO_BELIEVE, max(2, len(pages))))
    usual = median([word.size for page in pages for word in page.words] or [0.0])
    for page, sides in zip(pages, edges, strict=True):
        removed = {id(word) for edge in sides for line in _repeated_edge(edge, repeated, usual) for word in line.words}
        # If nothing else is on a page, this is its text. Certificates, slides and exhibits are alike.
        page.words = [word for word in page.words if id(word) not in removed] or [
            word for line in make_lines(page.words) if _signature(line.text) != _A_NUMBER for word in line.words
        ]


@dataclass(frozen=True, slots=True)
class _RepeatedLines:
    alike: _Places
    same: _Places
    believed: int  # the number of pages on which a line must repeat

    def contains(self, line: Line, usual: float, is_foot: bool) -> bool:
        """Return whether a line repeats. `usual` is the size of most letters."""
        signature = _signature(line.text)
        if signature == _A_NUMBER:
            return len({page for place in _positions_near(self.alike, signature, line) for page in place.pages}) >= 2
        if not signature:
            return False
        if self._on_several(_positions_near(self.same, _SECTION.sub("\u00a7", line.text), line)):
            return True
        places = _positions_near(self.alike, signature, line)
        counting = _counting_numbers(places)
        if not counting or not self._on_several(places) or line.size > _LARGER * usual:
            return False
        return _has_page_number(line, counting, usual) or _has_page_at_end(line, counting, is_foot)

    def differs_below(self, line: Line) -> bool:
        """Return whether the other lines of the pages with this line differ."""
        places = _positions_near(self.alike, _signature(line.text), line)
        return len({kind for place in places for kind in place.kinds}) > 1

    def _on_several(self, places: Sequence[_LinePosition]) -> bool:
        return len({page for place in places for page in place.pages}) >= self.believed


def _counting_numbers(places: Sequence[_LinePosition]) -> set[int]:
    found = sorted(chain(*(zip(place.pages, place.numbers, strict=True) for place in places)))
    steps = [(after - before, one, other) for (before, one), (after, other) in pairwise(found)]
    return {
        which
        for which in range(len(found[0][1]))
        if sum(other[which] - one[which] == step for step, one, other in steps) * 2 > len(steps)
    }


def _positions_near(places: _Places, text: str, line: Line) -> list[_LinePosition]:
    level = round(line.top / _SAME_PLACE)
    return [places[text, level + near] for near in (-1, 0, 1) if (text, level + near) in places]


def _has_page_at_end(line: Line, counting: set[int], is_foot: bool) -> bool:
    """Return whether a line of several words begins or ends with the number that counts pages."""
    first, last = line.words[0].text, line.words[-1].text
    final = len(_NUMBER.findall(line.text)) - 1
    is_there = (first.isdigit() and 0 in counting) or (last.isdigit() and final in counting)
    return is_there and len(line.words) > (_WORDS_OF_A_FOOT if is_foot else _WORDS_OF_A_HEAD)


def _has_page_number(line: Line, counting: set[int], usual: float) -> bool:
    """Return whether a number that counts pages is alone, after a sign, or in small print."""
    if line.size < _SMALLER * usual:
        return True
    seen = 0
    for piece in line.segments:
        signature = _NUMBER.sub("#", piece.text)
        numbers = signature.count("#")
        is_alone = numbers == 1 and len(line.segments) > 1 and bool(_PAGE_NUMBER.fullmatch(signature))
        if (is_alone or _AFTER_A_SIGN.search(signature)) and not counting.isdisjoint(range(seen, seen + numbers)):
            return True
        seen += numbers
    return False


def _repeated_edge(edge: Sequence[Line], repeated: _RepeatedLines, usual: float) -> Sequence[Line]:
    """Return the lines of an edge, from the outermost, that repeat and are apart from the text."""
    count = 0
    is_foot = len(edge) > 1 and edge[1].top < edge[0].top
    for number, line in enumerate(edge[:_EDGE_LINES]):
        is_number = _signature(line.text) == _A_NUMBER
        is_inner = number > 0 and count == number and not is_number
        if is_inner or not repeated.contains(line, usual, is_foot) or _is_head(edge[number:]):
            break
        if len(edge) <= _EDGE_LINES and not is_number and not repeated.differs_below(line):
            break  # these pages have few other lines, so they are certificates
        if (
            number + 1 == len(edge)
            or _gap(line, edge[number + 1]) >= (_NUMBER_APART if is_number else _APART) * line.size
        ):
            count = number + 1
        elif not repeated.differs_below(line):
            break  # the line is part of a paragraph on copies of one page
    return edge[:count]


def _is_head(lines: Sequence[Line]) -> bool:
    """Return whether a line is the head of a table: its pieces are above those of the next line, as near as a row."""
    if len(lines) < 3 or len(lines[0].segments) < 2 or len(lines[0].segments) != len(lines[1].segments):
        return False
    pairs = zip(lines[0].segments, lines[1].segments, strict=True)
    are_over = all(one.x0 < other.x1 and other.x0 < one.x1 for one, other in pairs)
    return are_over and _gap(lines[0], lines[1]) <= _EVENLY * max(0.0, _gap(lines[1], lines[2]))


def _gap(one: Line, other: Line) -> float:
    return max(one.top - other.bottom, other.top - one.bottom)


def _signature(text: str) -> str:
    """Return the text that is the same on every page. A row of numbers has none, because tables have such rows too."""
    signature = _NUMBER.sub("#", text).strip()
    if len(signature) <= _MAX_PAGE_NUMBER_LENGTH and _PAGE_NUMBER.fullmatch(signature):
        return _A_NUMBER
    letters = sum(map(str.isalpha, signature))
    return signature if letters >= 2 and signature.count("#") <= letters else ""


def _set_watermarks_aside(pages: Sequence[PageContent]) -> None:
    """Keep a huge word at the same position of several pages once, as an aside of the first page."""
    marks: dict[tuple[str, int, int], list[tuple[PageContent, Word]]] = defaultdict(list)
    for page in pages:
        huge = _HUGE * median(word.size for word in page.words) if page.words else 0.0
        for word in page.words:
            if word.size > huge:
                marks[word.text, round(word.x0), round(word.top)].append((page, word))
    for found in marks.values():
        if len(found) >= _PAGES_TO_BELIEVE:
            for page, mark in found:
                page.words.remove(mark)
            found[0][0].aside.append(found[0][1])


def _remove_repeated_asides(pages: Sequence[PageContent]) -> None:
    count: dict[str, int] = defaultdict(int)
    texts = [_NUMBER.sub("#", " ".join(word.text for word in page.aside)) for page in pages]
    for text in texts:
        count[text] += 1
    for page, text in zip(pages, texts, strict=True):
        if count[text] >= _PAGES_TO_BELIEVE or (len(pages) > 1 and _signature(text) == _A_NUMBER):
            page.aside = []


_MAX_LINES = 60  # of a numbered page
_MIN_LINES = 5
_MARGIN = 3.0  # points between numbers of one column
_UNEVEN = 0.25  # of the usual step from number to number
_EXCEPTIONS = 0.15  # of the lines
_TELLING = 0.2  # of the numbered lines of all pages
_FULL = 0.7  # of the longest line
_PROSE = 25  # letters


def remove_line_numbers(pages: Sequence[PageContent]) -> None:
    """Remove the numbers that count lines. The numbers of list items stay."""
    found = {number: numbers for number, page in enumerate(pages) if (numbers := _find_line_numbers(page))}
    unlike_list = sum(_count_lines_unlike_list(numbers, pages[number].words) for number, numbers in found.items())
    if unlike_list < _TELLING * sum(map(len, found.values())):
        return
    columns = [_middle(numbers) for numbers in found.values()]
    for number, page in enumerate(pages):
        numbers = found.get(number) or _find_known_line_numbers(page, columns)
        removed = set(map(id, numbers))
        page.words = [word for word in page.words if id(word) not in removed]


def _find_line_numbers(page: PageContent) -> list[Word]:
    """Return the words that count the lines of a page from 1, in a column outside the text."""
    for column in _columns_of_numbers(page.words):
        counted = _count_from_one(column)
        if (
            len(counted) >= _MIN_LINES
            and _is_even(counted)
            and _is_outside(counted, page.words)
            and not _has_cells(counted, page.words)
            and _is_on_every_line(counted, page.words)
        ):
            return counted
    return []


def _is_even(numbers: Sequence[Word]) -> bool:
    steps = [below.middle - above.middle for above, below in pairwise(numbers)]
    usual = median(steps)
    return sum(abs(step - usual) > _UNEVEN * usual for step in steps) <= _EXCEPTIONS * len(steps)


def _is_on_every_line(numbers: Sequence[Word], words: Sequence[Word]) -> bool:
    """Return whether almost every line has a number. In a list, only the first line of a paragraph has one."""
    ours = set(map(id, numbers))
    lines = make_lines(word for word in words if numbers[0].top <= word.middle <= numbers[-1].bottom)
    bare = sum(not any(id(word) in ours for word in line.words) for line in lines)
    return bare <= _EXCEPTIONS * len(lines)


def _count_lines_unlike_list(numbers: Sequence[Word], words: Sequence[Word]) -> int:
    """Count the lines that a list does not have: empty ones, and those that continue a full line."""
    ours = set(map(id, numbers))
    lines = [
        [word for word in line.words if id(word) not in ours]
        for line in make_lines(words)
        if any(id(word) in ours for word in line.words)
    ]
    longest = max((line[-1].x1 - line[0].x0 for line in lines if line), default=0.0)
    within = sum(
        _fills(above, longest) and bool(line) and line[0].text[:1].islower() for above, line in pairwise(lines)
    )
    return within + sum(not line for line in lines)


def _fills(line: Sequence[Word], longest: float) -> bool:
    """Return whether a sentence may continue on the next line."""
    letters = sum(len(word.text) for word in line)
    return letters >= _PROSE and line[-1].x1 - line[0].x0 >= _FULL * longest


def _find_known_line_numbers(page: PageContent, columns: Sequence[float]) -> list[Word]:
    """Return the line numbers of a page with too few lines to detect them by themselves."""
    for column in _columns_of_numbers(page.words):
        counted = _count_from_one(column)
        if any(abs(_middle(counted) - known) <= 3 * _MARGIN for known in columns) and _is_outside(counted, page.words):
            return counted
    return []


def _columns_of_numbers(words: Sequence[Word]) -> list[list[Word]]:
    """Group small numbers that are above each other. The column with most numbers comes first."""
    numbers = [
        word for word in words if word.text.isascii() and word.text.isdigit() and 0 < int(word.text[:4]) <= _MAX_LINES
    ]
    columns: list[list[Word]] = []
    # Left-aligned numbers of one and of two digits end at different positions.
    for edge in (attrgetter("x1"), attrgetter("x0")):
        place = -math.inf
        for word in sorted(numbers, key=edge):
            if edge(word) - place > _MARGIN:
                columns.append([])
            columns[-1].append(word)
            place = edge(word)
    return sorted(columns, key=len, reverse=True)[:4]


def _count_from_one(column: Sequence[Word]) -> list[Word]:
    counted: list[Word] = []
    for word in sorted(column, key=lambda word: word.top):
        if int(word.text) == len(counted) + 1:
            counted.append(word)
    return counted


def _middle(words: Sequence[Word]) -> float:
    return sum((word.x0 + word.x1) / 2 for word in words) / len(words) if words else -1e9


def _is_outside(numbers: Sequence[Word], words: Sequence[Word]) -> bool:
    """Return whether almost no text is outside of the numbers or close to them on the inner side."""
    if not numbers:
        return False
    ours = set(map(id, numbers))
    left, right = min(word.x0 for word in numbers), max(word.x1 for word in numbers)
    top, bottom = numbers[0].top, numbers[-1].bottom
    others = [word for word in words if id(word) not in ours and top <= word.middle <= bottom]
    outer = min(sum(word.x0 < left for word in others), sum(word.x1 > right for word in others))
    touching = sum(word.x0 < right + numbers[0].size / 2 and word.x1 > left - numbers[0].size / 2 for word in others)
    return outer <= len(others) // 50 and touching <= len(numbers) // 5


def _has_cells(numbers: Sequence[Word], words: Sequence[Word]) -> bool:
    """Return whether most lines next to the numbers are rows of a table. Then the numbers are ranks."""
    ours = set(map(id, numbers))
    lines = make_lines(
        word for word in words if numbers[0].top <= word.middle <= numbers[-1].bottom and id(word) not in ours
    )
    return sum(len(line.segments) >= 3 for line in lines) * 2 > len(lines)
