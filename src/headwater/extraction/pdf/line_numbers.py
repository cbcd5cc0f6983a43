"""The numbers beside the lines of transcripts and bills, which are no part of the text."""

import itertools
from collections.abc import Sequence
from statistics import median

from headwater.extraction.pdf.lines import lines_of
from headwater.extraction.pdf.page_content import Look, Word

_MOST_LINES = 60  # that a numbered page has
_FEWEST_LINES = 5
_MARGIN = 3.0  # points by which numbers in a column may stray
_UNEVEN = 0.25  # of the usual step from number to number
_EXCEPTIONS = 0.15  # of the lines
_TELLING = 0.2  # of the numbered lines, on all pages together
_FULL = 0.7  # of the longest line
_PROSE = 25  # letters


def remove_line_numbers(pages: Sequence[Look]) -> None:
    """Take away the numbers that count lines; those that count the items of a list stay."""
    found = {number: numbers for number, page in enumerate(pages) if (numbers := _line_numbers(page))}
    telling = sum(_telling_lines(numbers, pages[number].words) for number, numbers in found.items())
    if telling < _TELLING * sum(map(len, found.values())):
        return
    columns = [_middle(numbers) for numbers in found.values()]
    for number, page in enumerate(pages):
        numbers = found.get(number) or _line_numbers_near(page, columns)
        doomed = set(map(id, numbers))
        page.words = [word for word in page.words if id(word) not in doomed]


def _line_numbers(page: Look) -> list[Word]:
    """Return the words that count the lines of a page from 1, in a column outside the text."""
    for column in _columns_of_numbers(page.words):
        counted = _counted(column)
        if (
            len(counted) >= _FEWEST_LINES
            and _is_even(counted)
            and _is_outside(counted, page.words)
            and not _has_cells(counted, page.words)
            and _is_on_every_line(counted, page.words)
        ):
            return counted
    return []


def _is_even(numbers: Sequence[Word]) -> bool:
    steps = [below.middle - above.middle for above, below in itertools.pairwise(numbers)]
    usual = median(steps)
    return sum(abs(step - usual) > _UNEVEN * usual for step in steps) <= _EXCEPTIONS * len(steps)


def _is_on_every_line(numbers: Sequence[Word], words: Sequence[Word]) -> bool:
    """Tell whether hardly a line between the first and the last number has none: paragraphs have one each."""
    ours = set(map(id, numbers))
    lines = lines_of(word for word in words if numbers[0].top <= word.middle <= numbers[-1].bottom)
    bare = sum(not any(id(word) in ours for word in line.words) for line in lines)
    return bare <= _EXCEPTIONS * len(lines)


def _telling_lines(numbers: Sequence[Word], words: Sequence[Word]) -> int:
    """Count the lines that no list has: without text, or within a sentence that fills the line above."""
    ours = set(map(id, numbers))
    lines = [
        [word for word in line.words if id(word) not in ours]
        for line in lines_of(words)
        if any(id(word) in ours for word in line.words)
    ]
    longest = max((line[-1].x1 - line[0].x0 for line in lines if line), default=0.0)
    within = sum(
        _fills(above, longest) and bool(line) and line[0].text[:1].islower()
        for above, line in itertools.pairwise(lines)
    )
    return within + sum(not line for line in lines)


def _fills(line: Sequence[Word], longest: float) -> bool:
    """Tell whether a line is long enough to go on in the next one."""
    letters = sum(len(word.text) for word in line)
    return letters >= _PROSE and line[-1].x1 - line[0].x0 >= _FULL * longest


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
