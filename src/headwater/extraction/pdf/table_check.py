"""Check a table without ruling lines: it is right in every cell, or it is an artifact (issue 24).

The check compares the cells with the figures of each line and with the horizontal extents of the columns. In doubt a
table is not shown as one, because a figure below the wrong head is worse than a line of words.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

FIGURE = re.compile(
    r"[($\u2212\u2013\u2014+*-]*[$\u20ac\u00a3]?[.,]*\d[\d.,:/\u2013-]*[%)*a-z\u2020\u2021]{0,3}"
    r"|[-\u2013\u2014\u2212*]+|\(?(?:NA|N/A|n\.a\.|X|Z|D|S|B)\)?|\$"
)
YEAR = re.compile(r"(?:19|20)\d\d(?:[-\u2013/]\d\d(?:\d\d)?)?")
_OF_FIGURES = 0.7  # of the filled cells of a column of figures
_SQUEEZED = 3  # rows with several figures after their label
_RAGGED = 0.1  # of the cells of a table without figures
_OVER_BORDER = 1.0  # points


class HasExtent(Protocol):
    """Something with a left and a right side: a column, or a piece of a line."""

    @property
    def x0(self) -> float: ...  # noqa: D102
    @property
    def x1(self) -> float: ...  # noqa: D102


def find_flaw(
    head: Sequence[str],
    body: Sequence[Sequence[str]],
    columns: Sequence[HasExtent],
    pieces: Sequence[tuple[HasExtent, str]],
) -> str:
    """Return why the cells may be wrong, or an empty text. `pieces` are the parts of the lines of the body."""
    of_figures = [number for number in range(1, len(head)) if _is_of_figures([row[number] for row in body])]
    if not of_figures and _share_of_empty(body) > _RAGGED:
        return "columns of words"
    if any(_count_figures(row[number]) > 1 for row in body for number in of_figures):
        return "several figures in a cell"
    if sum(_count_figures_at_end(row[0]) > 1 for row in body) >= _SQUEEZED:
        return "several figures in a cell"
    if any(_is_misplaced(piece, text, columns) for piece, text in pieces):
        return "words between the columns"
    if not any(head) and not body[0][0]:
        return "a head that is not known"
    heads = [head[number] for number in of_figures if number < _find_period(head)]
    if any(heads) and not all(heads):
        return "a column of figures without a head"
    if any(count > 1 for name, count in Counter(heads).items() if name):
        return "columns with the same head"
    return ""


def _find_period(head: Sequence[str]) -> int:
    """Return the number of columns of the first of the blocks that stand side by side, each with the same head."""
    count = len(head)
    return next(
        (
            size
            for size in range(2, count // 2 + 1)
            if count % size == 0 and all(head[number] == head[number % size] for number in range(count))
        ),
        count,
    )


def is_row_of_figures(cells: Sequence[str]) -> bool:
    """Return whether most cells after the first are figures, so that a row is no head. Years and counts may be one."""
    filled = [cell for cell in cells[1:] if cell]
    figures = [cell for cell in filled if _has_digit(cell) and _is_figures(cell) and not YEAR.fullmatch(cell)]
    if len(figures) > 2 and all(figure.isdecimal() for figure in figures):
        first = int(figures[0])
        if [int(figure) for figure in figures] == list(range(first, first + len(figures))):
            return False
    return len(figures) * 2 > len(filled)


def _share_of_empty(body: Sequence[Sequence[str]]) -> float:
    cells = [cell for row in body for cell in row]
    return sum(not cell for cell in cells) / max(len(cells), 1)


def _is_of_figures(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell]
    return bool(filled) and sum(map(_is_figures, filled)) >= _OF_FIGURES * len(filled)


def _is_figures(text: str) -> bool:
    return all(map(FIGURE.fullmatch, text.split()))


def _count_figures(text: str) -> int:
    """Return the number of figures in a cell. Figures with a comma between them are one list."""
    words = text.split()
    lists = sum(word.endswith(",") for word in words[:-1])
    return sum(_has_digit(word) and FIGURE.fullmatch(word) is not None for word in words) - lists


def _count_figures_at_end(text: str) -> int:
    words = text.split()
    count = 0
    while count < len(words) and _has_digit(words[-1 - count]) and FIGURE.fullmatch(words[-1 - count]):
        count += 1
    return count


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _is_misplaced(piece: HasExtent, text: str, columns: Sequence[HasExtent]) -> bool:
    """Return whether a piece is in no column, or a figure in two."""
    shared = [min(piece.x1, column.x1) - max(piece.x0, column.x0) for column in columns]
    if max(shared) <= 0:
        return True
    return _is_figures(text) and _has_digit(text) and sum(width > _OVER_BORDER for width in shared) > 1
