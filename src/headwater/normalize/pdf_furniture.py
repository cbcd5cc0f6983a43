"""What stands around the text of every page: running heads and feet, page numbers, the numbers of lines."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from headwater.normalize.pdf_lines import Line, lines_of
from headwater.normalize.pdf_look import Look, Word

_EDGE_LINES = 3  # how many lines from the top and from the bottom may be furniture
_SAME_PLACE = 8.0  # points
_APART = 0.7  # of the size of the letters: the gap between furniture and text
_A_NUMBER = "#"
_PAGES_TO_BELIEVE = 3
_NUMBER = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(r"\W*(?:page\W*)?(?:[A-Z]{1,2}[-\u2013])?(?:#|[ivxlc]{1,7})(?:\W*of\W*#)?\W*", re.IGNORECASE)
_MOST_LINES = 60  # that a numbered page has
_FEWEST_LINES = 5
_MARGIN = 3.0  # points by which numbers in a column may stray


def remove_furniture(pages: Sequence[Look]) -> None:
    """Take away what is repeated at the edges of pages, and the numbers beside lines."""
    _remove_line_numbers(pages)
    _remove_running_lines(pages)
    _remove_repeated_asides(pages)


def _remove_running_lines(pages: Sequence[Look]) -> None:
    """Take away lines that stand at the same place, numbers aside, on several pages, with nothing further out."""
    edges = []
    seen: dict[tuple[str, int], set[int]] = defaultdict(set)  # by what and where, on which pages
    for number, page in enumerate(pages):
        lines = lines_of(page.words)
        edges.append((lines[: _EDGE_LINES + 1], lines[: -_EDGE_LINES - 2 : -1]))
        for line in (*edges[-1][0][:_EDGE_LINES], *edges[-1][1][:_EDGE_LINES]):
            seen[_signature(line.text), round(line.top / _SAME_PLACE)].add(number)
    believed = min(_PAGES_TO_BELIEVE, max(2, len(pages)))
    for page, sides in zip(pages, edges, strict=True):
        doomed = {
            id(word)
            for edge in sides
            for line in _outside(edge, lambda line: _is_repeated(line, seen, believed))
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
        if not is_repeated(line) or (number and count == number and not is_number):
            break
        if number + 1 == len(edge) or _gap(line, edge[number + 1]) >= _APART * line.size:
            count = number + 1
    return edge[:count]


def _gap(one: Line, other: Line) -> float:
    return max(one.top - other.bottom, other.top - one.bottom)


def _signature(text: str) -> str:
    """Return what is the same on every page; nothing for rows of numbers, which tables have too."""
    signature = _NUMBER.sub("#", text).strip()
    if _PAGE_NUMBER.fullmatch(signature):
        return _A_NUMBER
    letters = sum(map(str.isalpha, signature))
    return signature if letters >= 2 and signature.count("#") <= letters else ""


def _remove_line_numbers(pages: Sequence[Look]) -> None:
    found = {number: numbers for number, page in enumerate(pages) if (numbers := _line_numbers(page))}
    columns = [_middle(numbers) for numbers in found.values()]
    for number, page in enumerate(pages):
        numbers = found.get(number) or _line_numbers_near(page, columns)
        doomed = set(map(id, numbers))
        page.words = [word for word in page.words if id(word) not in doomed]


def _line_numbers(page: Look) -> list[Word]:
    """Return the words that count the lines of a page from 1, in a column outside the text."""
    for column in _columns_of_numbers(page.words):
        counted = _counted(column)
        if len(counted) >= _FEWEST_LINES and _is_outside(counted, page.words) and not _has_cells(counted, page.words):
            return counted
    return []


def _line_numbers_near(page: Look, columns: Sequence[float]) -> list[Word]:
    """Return those of a page that has too few lines to tell by itself."""
    for column in _columns_of_numbers(page.words):
        counted = _counted(column)
        if any(abs(_middle(counted) - known) <= 3 * _MARGIN for known in columns) and _is_outside(counted, page.words):
            return counted
    return []


def _columns_of_numbers(words: Sequence[Word]) -> list[list[Word]]:
    """Gather small numbers that stand above each other, the column furthest out first."""
    numbers = sorted(
        (
            word
            for word in words
            if word.text.isascii() and word.text.isdigit() and 0 < int(word.text[:4]) <= _MOST_LINES
        ),
        key=lambda word: word.x1,
    )
    columns: list[list[Word]] = []
    for word in numbers:
        if columns and word.x1 - columns[-1][-1].x1 <= _MARGIN:
            columns[-1].append(word)
        else:
            columns.append([word])
    # numbers that are flush left end at two places, those of one digit and those of two
    by_start: list[list[Word]] = []
    for word in sorted(numbers, key=lambda word: word.x0):
        if by_start and word.x0 - by_start[-1][-1].x0 <= _MARGIN:
            by_start[-1].append(word)
        else:
            by_start.append([word])
    return sorted(columns + by_start, key=len, reverse=True)[:4]


def _counted(column: Sequence[Word]) -> list[Word]:
    """Return the words that count on from 1, from top to bottom."""
    counted: list[Word] = []
    for word in sorted(column, key=lambda word: word.top):
        if int(word.text) == len(counted) + 1:
            counted.append(word)
    return counted


def _middle(words: Sequence[Word]) -> float:
    return sum((word.x0 + word.x1) / 2 for word in words) / len(words) if words else -1e9


def _is_outside(numbers: Sequence[Word], words: Sequence[Word]) -> bool:
    """Tell whether hardly anything stands on the outer side of the numbers, or close to them on the inner side."""
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
    """Tell whether most of the lines beside the numbers are rows of a table, in which the numbers are ranks."""
    ours = set(map(id, numbers))
    lines = lines_of(
        word for word in words if numbers[0].top <= word.middle <= numbers[-1].bottom and id(word) not in ours
    )
    return sum(len(line.segments) >= 3 for line in lines) * 2 > len(lines)


def _remove_repeated_asides(pages: Sequence[Look]) -> None:
    """Words up and down the margin that stand on several pages are of no page."""
    count: dict[str, int] = defaultdict(int)
    texts = [_NUMBER.sub("#", " ".join(word.text for word in page.aside)) for page in pages]
    for text in texts:
        count[text] += 1
    for page, text in zip(pages, texts, strict=True):
        if count[text] >= _PAGES_TO_BELIEVE:
            page.aside = []
