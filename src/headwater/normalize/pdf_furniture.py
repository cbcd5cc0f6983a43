"""What stands around the text of every page: running heads and feet, page numbers, the numbers of lines."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from headwater.normalize.pdf_line_numbers import remove_line_numbers
from headwater.normalize.pdf_lines import Line, lines_of
from headwater.normalize.pdf_look import Look, Word

_EDGE_LINES = 3  # how many lines from the top and from the bottom may be furniture
_SAME_PLACE = 8.0  # points
_APART = 0.7  # of the size of the letters: the gap between furniture and text
_EVENLY = 1.3  # times the distance of rows
_LARGER = 1.5  # than most letters
_A_NUMBER = "#"
_PAGES_TO_BELIEVE = 3
_LONGEST_PAGE_NUMBER = 40  # characters: to match what is longer takes long, and it is none
_NUMBER = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(r"\W*(?:page\W*)?(?:[A-Z]{1,2}[-\u2013])?(?:#|[ivxlc]{1,7})(?:\W*of\W*#)?\W*", re.IGNORECASE)


def remove_furniture(pages: Sequence[Look]) -> None:
    """Take away what is repeated at the edges of pages, and the numbers beside lines."""
    remove_line_numbers(pages)
    _remove_running_lines(pages)
    _remove_repeated_asides(pages)


def _remove_running_lines(pages: Sequence[Look]) -> None:
    """Take away lines that stand at the same place, numbers aside, on several pages, with nothing further out."""
    edges = []
    seen: dict[tuple[str, int], set[int]] = defaultdict(set)  # by what and where, on which pages
    texts: Counter[str] = Counter()
    for number, page in enumerate(pages):
        lines = lines_of(page.words)
        edges.append((lines[: _EDGE_LINES + 1], lines[: -_EDGE_LINES - 2 : -1]))
        for line in (*edges[-1][0][:_EDGE_LINES], *edges[-1][1][:_EDGE_LINES]):
            seen[_signature(line.text), round(line.top / _SAME_PLACE)].add(number)
            texts[line.text] += 1
    believed = min(_PAGES_TO_BELIEVE, max(2, len(pages)))
    for page, sides in zip(pages, edges, strict=True):
        doomed = {
            id(word)
            for edge in sides
            for line in _outside(edge, lambda line: _is_repeated(line, seen, believed))
            if texts[line.text] > 1 or not _is_counted_title(line, page)
            for word in line.words
        }
        # Where nothing else stands on a page, that is its text: certificates, slides and exhibits are alike.
        page.words = [word for word in page.words if id(word) not in doomed] or _without_page_numbers(page.words)


def _without_page_numbers(words: Sequence[Word]) -> list[Word]:
    return [word for line in lines_of(words) if _signature(line.text) != _A_NUMBER for word in line.words]


def _is_repeated(line: Line, seen: Mapping[tuple[str, int], set[int]], believed: int) -> bool:
    signature, place = _signature(line.text), round(line.top / _SAME_PLACE)
    pages = set[int]().union(*(seen.get((signature, place + near), ()) for near in (-1, 0, 1)))
    return bool(signature) and len(pages) >= (2 if signature == _A_NUMBER else believed)


def _outside(edge: Sequence[Line], is_repeated: Callable[[Line], bool]) -> Sequence[Line]:
    """Return the lines of an edge, from the outermost, that are repeated and stand apart from the text."""
    count = 0
    for number, line in enumerate(edge[:_EDGE_LINES]):
        is_number = _signature(line.text) == _A_NUMBER
        if not is_repeated(line) or (number and count == number and not is_number) or _is_head(edge[number:]):
            break
        if number + 1 == len(edge) or _gap(line, edge[number + 1]) >= _APART * line.size:
            count = number + 1
    return edge[:count]


def _is_head(lines: Sequence[Line]) -> bool:
    """Tell whether a line is the head of a table: its pieces stand over those of the next, as far as rows are apart."""
    if len(lines) < 3 or len(lines[0].segments) < 2 or len(lines[0].segments) != len(lines[1].segments):
        return False
    pairs = zip(lines[0].segments, lines[1].segments, strict=True)
    are_over = all(one.x0 < other.x1 and other.x0 < one.x1 for one, other in pairs)
    return are_over and _gap(lines[0], lines[1]) <= _EVENLY * max(0.0, _gap(lines[1], lines[2]))


def _is_counted_title(line: Line, page: Look) -> bool:
    """Tell whether a line that differs by a number is in larger letters, as slides and parts of a report have it."""
    return _signature(line.text) != _A_NUMBER and line.size > _LARGER * median(word.size for word in page.words)


def _gap(one: Line, other: Line) -> float:
    return max(one.top - other.bottom, other.top - one.bottom)


def _signature(text: str) -> str:
    """Return what is the same on every page; nothing for rows of numbers, which tables have too."""
    signature = _NUMBER.sub("#", text).strip()
    if len(signature) <= _LONGEST_PAGE_NUMBER and _PAGE_NUMBER.fullmatch(signature):
        return _A_NUMBER
    letters = sum(map(str.isalpha, signature))
    return signature if letters >= 2 and signature.count("#") <= letters else ""


def _remove_repeated_asides(pages: Sequence[Look]) -> None:
    """Words up and down the margin that stand on several pages are of no page, nor are numbers of pages."""
    count: dict[str, int] = defaultdict(int)
    texts = [_NUMBER.sub("#", " ".join(word.text for word in page.aside)) for page in pages]
    for text in texts:
        count[text] += 1
    for page, text in zip(pages, texts, strict=True):
        if count[text] >= _PAGES_TO_BELIEVE or (len(pages) > 1 and _signature(text) == _A_NUMBER):
            page.aside = []
