"""Find tables without ruling lines: words that are aligned in columns."""

import itertools
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headwater.extraction.pdf.drawings import RulingLine
from headwater.extraction.pdf.lines import Line
from headwater.extraction.pdf.page_content import Word
from headwater.extraction.pdf.table_check import FIGURE, YEAR, find_flaw, is_row_of_figures
from headwater.extraction.pdf.tables import PdfTable, cell_text

_MIN_ROWS = 3
_LINES_BETWEEN = 3  # lines without columns between two rows, at most
_MAX_DISTANCE = 3.0  # times the height of a line, from one row to the next
_CROSSING = 0.12  # the share of rows that may cross a gap between columns
_MOST_ROWS = 0.7  # of the rows
_SPACE = 0.5  # of the letter size; a space between words is narrower
_DOUBLE = 3.0  # points between the lines of a double line, at most
_WIDE_RULE = 0.75  # of the table's width
_TITLE = 0.5  # of the table's width; a wider piece is not a cell of the head
_TOO_WIDE = 0.6  # of the width of all lines; a wider piece is not a cell
_MAX_CELL_LENGTH = 45
_MAX_HEAD_LINES = 12  # lines
_AT_EDGE = 1.0  # points between the right sides of a word and of a column
_CENTERED = 2.0  # points between the middles of the lines of one head
_LABEL_LINES = 3  # lines of a row whose label is wrapped, on average at most
_HEAD_LINES = 2.0  # times the size of a head, which may have two lines above the line drawn below it
_MAX_COLUMNS = 100  # tables with more are drawings


@dataclass(frozen=True, slots=True)
class Column:
    """The horizontal extent of a column."""

    x0: float
    x1: float


def find_aligned_tables(lines: Sequence[Line], rules: Sequence[RulingLine]) -> Iterator[tuple[int, int, PdfTable]]:
    """Yield each table with the number of its first line and the number after its last line."""
    taken = 0
    for start, end in _find_runs(lines):
        columns = _columns(lines[start:end])
        if _is_table(lines[start:end], columns):
            start, first_row = _find_head(lines, start, end, columns, rules)
            start, end = max(start, taken), _trim_notes(lines, first_row, end, columns)
            yield start, end, _table(lines[start:end], max(1, first_row - start), columns, rules)
            taken = end


def _trim_notes(lines: Sequence[Line], first_row: int, end: int, columns: Sequence[Column]) -> int:
    """Return the end of a table without the notes below it. Tables of words have no known end."""
    rows = [number for number in range(first_row, end) if _is_row(lines[number], columns)]
    return rows[-1] + 1 if len(rows) >= _MIN_ROWS else end


def _find_runs(lines: Sequence[Line]) -> Iterator[tuple[int, int]]:
    """Yield the first and last + 1 of successive lines that consist of several pieces."""
    wide = _TOO_WIDE * (max((line.x1 for line in lines), default=0) - min((line.x0 for line in lines), default=0))
    start = last = -1
    for number, line in enumerate(lines):
        is_prose = not _has_figures(line) and any(piece.x1 - piece.x0 > wide for piece in line.segments)
        if start >= 0 and (is_prose or number - last > _LINES_BETWEEN + 1 or _is_far(lines[number - 1], line)):
            yield start, last + 1
            start = -1
        if line.table_number is None and len(line.segments) >= 2 and not is_prose:
            start = number if start < 0 else start
            last = number
    if start >= 0:
        yield start, last + 1


def _has_figures(line: Line) -> bool:
    return any(map(_is_figure, line.segments[1:]))


def _is_far(before: Line, line: Line) -> bool:
    return line.table_number is not None or line.top - before.bottom > _MAX_DISTANCE * max(line.size, 1.0)


def _columns(lines: Sequence[Line]) -> list[Column]:
    """Return the columns. At most a small share of the rows crosses a gap between two columns."""
    rows = [line for line in lines if _has_figures(line)]
    if len(rows) < _MIN_ROWS:
        rows = [line for line in lines if len(line.segments) >= 2]
    ends = sorted((x, step) for row in rows for piece in row.segments for x, step in ((piece.x0, 1), (piece.x1, -1)))
    allowed = int(_CROSSING * len(rows))
    gap = 0.5 * min(row.size for row in rows)
    columns: list[Column] = []
    depth, begun = 0, 0.0
    for x, step in ends:
        if step == 1 and depth == allowed:
            begun = x
        depth += step
        if step == -1 and depth == allowed:
            if columns and begun - columns[-1].x1 < gap:
                columns[-1] = Column(columns[-1].x0, x)
            elif x > begun:
                columns.append(Column(begun, x))
    if len(columns) > _MAX_COLUMNS:
        return []
    return [part for column in columns for part in _split_column(column, rows)]


def _split_column(column: Column, rows: Sequence[Line]) -> list[Column]:
    """Split a column whose cells end in the same number of figures, with gaps that are too small to see."""
    pieces = [piece for row in rows for piece in row.segments if column.x0 <= (piece.x0 + piece.x1) / 2 <= column.x1]
    tails = [_figures_at_end(piece) for piece in pieces]
    count, often = Counter(map(len, tails)).most_common(1)[0] if tails else (0, 0)
    is_whole = sum(len(tail) == len(piece.words) for tail, piece in zip(tails, pieces, strict=True)) > len(pieces) / 2
    if count < (2 if is_whole else 1) or often < _MIN_ROWS or often < _MOST_ROWS * len(pieces):
        return [column]
    tails = [tail for tail in tails if len(tail) == count]
    parts = [
        Column(min(tail[number].x0 for tail in tails), max(tail[number].x1 for tail in tails))
        for number in range(count)
    ]
    if not is_whole:
        if sum(_has_leader(piece, count) for piece in pieces) * 2 < len(pieces):
            return [column]
        heads = [piece.words[-count - 1].x1 for piece in pieces if len(piece.words) > count]
        parts.insert(0, Column(column.x0, min(max(heads), parts[0].x0)))
    apart = all(left.x1 <= right.x0 for left, right in itertools.pairwise(parts))
    return parts if apart else [column]


def _has_leader(piece: Line, figures: int) -> bool:
    """Return whether dots or a gap separate the figures at the end of a piece from its words."""
    if len(piece.words) <= figures:
        return False
    before, first = piece.words[-figures - 1 : len(piece.words) - figures + 1]
    return before.text.endswith("..") or not before.text.strip(".") or first.x0 - before.x1 > _SPACE * piece.size


def _figures_at_end(piece: Line) -> list[Word]:
    figures: list[Word] = []
    for word in reversed(piece.words):
        if not FIGURE.fullmatch(word.text):
            break
        figures.insert(0, word)
    return figures


def _is_table(lines: Sequence[Line], columns: Sequence[Column]) -> bool:
    rows = [line for line in lines if len(line.segments) >= 2]
    if len(rows) < _MIN_ROWS or len(columns) < 2:
        return False
    pieces = [piece for row in rows for piece in row.segments[1:]]
    figures = sum(all(FIGURE.fullmatch(word.text) for word in piece.words) for piece in pieces)
    filled_columns = [column for column in columns if _has_text(column, rows)]
    if len(filled_columns) == 2:
        return figures >= _MOST_ROWS * len(pieces) and len(rows) * 2 >= len(lines)
    filled = sum(len(_split_cells(row, columns)) for row in rows) / (len(rows) * len(columns))
    is_short = sum(len(piece.text) <= _MAX_CELL_LENGTH for piece in pieces) >= 0.8 * len(pieces)
    is_dense = figures >= 0.4 * len(pieces) or len(rows) >= _MOST_ROWS * len(lines)
    return len(filled_columns) > 2 and filled >= 0.6 and is_short and is_dense


def _has_text(column: Column, rows: Sequence[Line]) -> bool:
    pieces = [piece for row in rows for piece in row.segments if piece.x0 < column.x1 and column.x0 < piece.x1]
    return sum(any(map(str.isalnum, piece.text)) for piece in pieces) * 2 > len(pieces)


def _find_head(
    lines: Sequence[Line], start: int, end: int, columns: Sequence[Column], rules: Sequence[RulingLine]
) -> tuple[int, int]:
    """Return the first line of the table's head, and its first row.

    Ruling lines above and below the head decide. Without them, the head is the lines without figures below the title.
    """
    rows = [number for number in range(start, end) if _is_row(lines[number], columns)]
    if not rows:
        return start, start + 1
    first, second = rows[0], rows[min(1, len(rows) - 1)]
    highest = max(0, first - _MAX_HEAD_LINES)
    tops = sorted(rule.top for rule in rules if rule.is_flat and _underlines(rule, columns))
    drawn = [top for before, top in zip((-math.inf, *tops), tops, strict=False) if top - before > _DOUBLE]
    near = [top for top in drawn if lines[highest].top - lines[highest].size <= top < lines[second].middle]
    below = [next(number for number in range(highest, end) if lines[number].middle > top) for top in near]
    are_ruled = len(rows) > 2 and any(lines[second].middle < top < lines[rows[2]].middle for top in drawn)
    if not are_ruled and len(below) >= 2 and below[-2] < below[-1]:
        return _first_of_head(lines, below[-2], below[-2], below[-1], columns), below[-1]
    if not are_ruled and below and any(len(line.segments) >= 2 for line in lines[below[-1] : first]):
        return _first_of_head(lines, below[-1], below[-1], first, columns), first
    heads = [number for number in range(start, first) if len(lines[number].segments) >= 2]
    body = heads[-1] + 1 if heads else max(first, start + 1)
    return _first_of_head(lines, start, highest, body, columns), body


def _first_of_head(lines: Sequence[Line], start: int, highest: int, body: int, columns: Sequence[Column]) -> int:
    """Return the first line above the rows that is not a title. Lines above `start` must be close to the columns."""
    head = body
    while head > highest and not _is_title(lines[head - 1], columns):
        if head <= start and not _is_part_of_head(lines[head - 1], lines[head], columns):
            break
        head -= 1
    return head


def _is_row(line: Line, columns: Sequence[Column]) -> bool:
    """Return whether a line has figures in its columns. A head may have single figures or only years."""
    figures = [piece.text for piece in line.segments[1:] if _is_figure(piece)]
    return len(figures) >= max(1, 0.4 * (len(columns) - 1)) and not all(map(YEAR.fullmatch, figures))


def _underlines(rule: RulingLine, columns: Sequence[Column]) -> bool:
    x0, x1 = columns[0].x0, columns[-1].x1
    return min(rule.x1, x1) - max(rule.x0, x0) >= _WIDE_RULE * (x1 - x0)


def _is_title(line: Line, columns: Sequence[Column]) -> bool:
    """Return whether a line is a title: one piece of it is half as wide as the table."""
    wide = _TITLE * (columns[-1].x1 - columns[0].x0)
    return line.table_number is not None or any(
        piece.x1 - piece.x0 > wide and not _is_a_word_each(piece, columns) for piece in line.segments
    )


def _is_a_word_each(piece: Line, columns: Sequence[Column]) -> bool:
    under = sum(piece.x0 < column.x1 and column.x0 < piece.x1 for column in columns)
    return under > 2 and len(piece.words) <= 1.2 * under


def _is_part_of_head(line: Line, below: Line, columns: Sequence[Column]) -> bool:
    return line.x0 >= columns[0].x1 and below.top - line.bottom <= 0.5 * line.size


def _is_figure(piece: Line) -> bool:
    return any(map(str.isdigit, piece.text)) and all(FIGURE.fullmatch(word.text) for word in piece.words)


def _table(lines: Sequence[Line], heads: int, columns: Sequence[Column], rules: Sequence[RulingLine]) -> PdfTable:
    lines_of_head = [_split_cells(line, columns) for line in lines[:heads]]
    if _run_together(lines_of_head, columns, rules):
        lines_of_head = [
            [part for piece in line for part in _cut_at_edges(piece, columns, rules)] for line in lines_of_head
        ]
    of_head = [piece for line in lines_of_head for piece in line]
    head = _row(of_head, columns, lambda piece: _columns_of_head_piece(piece, of_head, columns, rules))
    if heads == 1 and is_row_of_figures(head):  # there is no head, and this is the first row
        head, heads = ("",) * len(columns), 0
    of_rows = [_split_cells(line, columns) for line in lines[heads:]]
    body = [_row(row, columns, lambda piece: [_column_of(piece, columns)]) for row in of_rows]
    rows = _join_continued_rows(body, _find_drawn_rows(lines[heads:], columns, rules))
    words = frozenset(id(word) for line in lines for word in line.words)
    box = (columns[0].x0, lines[0].top, columns[-1].x1, lines[-1].bottom)
    pieces = [(piece, piece.text) for row in of_rows for piece in row]
    flaw = find_flaw(head, rows, columns, pieces)
    if not flaw and any(_is_phrase(piece, columns) for line in lines[:heads] for piece in line.segments):
        flaw = "a head over several columns"
    if not flaw and heads and _run_together(lines_of_head, columns, rules):
        flaw = "heads that run together"
    return PdfTable((head, *rows), words, box, tuple(line.text for line in lines), flaw)


def _is_phrase(piece: Line, columns: Sequence[Column]) -> bool:
    """Return whether a piece of the head was cut between words that are no further apart than in a sentence."""
    cut = [before for before, word in itertools.pairwise(piece.words) if _crosses_border(before, word, columns)]
    return _is_a_word_each(piece, columns) and any(before.text.isalpha() for before in cut)


def _cut_at_edges(piece: Line, columns: Sequence[Column], rules: Sequence[RulingLine]) -> list[Line]:
    """Cut a piece of the head after each word that ends where the figures of a column end."""
    if _is_drawn(piece, columns, rules):
        return [piece]
    parts: list[Line] = []
    part: list[Word] = []
    for word in piece.words:
        if part and any(abs(part[-1].x1 - column.x1) <= _AT_EDGE for column in columns):
            parts.append(Line(tuple(part)))
            part = []
        part.append(word)
    return [*parts, Line(tuple(part))]


def _is_drawn(piece: Line, columns: Sequence[Column], rules: Sequence[RulingLine]) -> bool:
    """Return whether a line is drawn below a piece of the head, but not below the whole head."""
    return any(
        rule.is_flat and rule.x0 < piece.x1 and piece.x0 < rule.x1 and _is_above(piece, rule)
        for rule in rules
        if not _underlines(rule, columns)
    )


def _run_together(lines: Sequence[Sequence[Line]], columns: Sequence[Column], rules: Sequence[RulingLine]) -> bool:
    """Return whether a piece without a line below it is under the head of one column, and over another column too."""
    begun: set[int] = set()
    for line in lines:
        for piece in line:
            overlapped = [
                number for number, column in enumerate(columns) if piece.x0 < column.x1 and column.x0 < piece.x1
            ]
            if len(overlapped) > 1 and not begun.isdisjoint(overlapped) and not _is_drawn(piece, columns, rules):
                return True
            if len(overlapped) == 1:
                begun.update(overlapped)
    return False


def _split_cells(line: Line, columns: Sequence[Column]) -> list[Line]:
    """Split a line into cells. A figure is a cell of its own column even after a small gap."""
    pieces = []
    for piece in line.segments:
        if len(piece.words) == 1:
            pieces.append(piece)
            continue
        part: list[Word] = []
        each = _is_a_word_each(piece, columns)
        for word in piece.words:
            if part and (each or FIGURE.fullmatch(word.text)) and _crosses_border(part[-1], word, columns):
                pieces.append(Line(tuple(part)))
                part = []
            part.append(word)
        pieces.append(Line(tuple(part)))
    return pieces


def _crosses_border(before: Word, word: Word, columns: Sequence[Column]) -> bool:
    return any(
        before.x0 < left.x1 and before.x1 <= right.x0 + 1 and word.x0 >= left.x1 - 1 and word.x1 > right.x0
        for left, right in itertools.pairwise(columns)
    )


def _column_of(piece: Line, columns: Sequence[Column]) -> int:
    shared = [min(piece.x1, column.x1) - max(piece.x0, column.x0) for column in columns]
    return shared.index(max(shared))


def _row(
    pieces: Sequence[Line], columns: Sequence[Column], columns_of: Callable[[Line], Sequence[int]]
) -> tuple[str, ...]:
    """Join pieces by column. A piece over several columns belongs to each of them."""
    cells: list[list[Word]] = [[] for _ in columns]
    for piece in pieces:
        for number in columns_of(piece):
            cells[number] += piece.words
    return tuple(cell_text(cell) for cell in cells)


def _columns_of_head_piece(
    piece: Line, of_head: Sequence[Line], columns: Sequence[Column], rules: Sequence[RulingLine]
) -> list[int]:
    """Return the columns of a piece of the head: all columns of the line drawn below it, or the columns it overlaps.

    If a line is drawn below several pieces, each has the part that is nearer to it. A piece above the middle of another
    piece belongs to the same head, and has its columns too.
    """
    x0, x1 = piece.x0, piece.x1
    middle = _middle(piece)
    for rule in rules:
        is_under = rule.is_flat and -0.3 * piece.size <= rule.top - piece.bottom <= piece.size
        if is_under and not _underlines(rule, columns) and rule.x0 - 2 <= middle <= rule.x1 + 2:
            above = (other for other in of_head if rule.x0 <= _middle(other) <= rule.x1 and _is_above(other, rule))
            others = [_middle(other) for other in above if other.x1 < piece.x0 or other.x0 > piece.x1]
            left = max((other for other in others if other < middle), default=2 * rule.x0 - middle)
            right = min((other for other in others if other > middle), default=2 * rule.x1 - middle)
            half = min(middle - left, right - middle) / 2  # the head of several columns is above their middle
            x0 = min(x0, middle - half if others else rule.x0)
            x1 = max(x1, middle + half if others else rule.x1)
    spanned = [number for number, column in enumerate(columns) if min(x1, column.x1) - max(x0, column.x0) > 0]
    for below in of_head:
        is_next = piece.middle < below.middle and below.top - piece.bottom <= 0.5 * piece.size
        if is_next and abs(_middle(below) - middle) <= _CENTERED:
            wider = _columns_of_head_piece(below, of_head, columns, rules)
            spanned = wider if set(spanned) < set(wider) else spanned
    return spanned or [_column_of(piece, columns)]


def _is_above(piece: Line, rule: RulingLine) -> bool:
    return -0.3 * piece.size <= rule.top - piece.bottom <= _HEAD_LINES * piece.size


def _middle(piece: Line) -> float:
    return (piece.x0 + piece.x1) / 2


def _find_drawn_rows(lines: Sequence[Line], columns: Sequence[Column], rules: Sequence[RulingLine]) -> list[int]:
    """Return the number of the drawn row of each line. Return none if rows are not drawn."""
    tops = sorted(rule.top for rule in rules if rule.is_flat and _underlines(rule, columns))
    drawn = [bisect_left(tops, line.middle) for line in lines]
    return drawn if len(set(drawn)) * _LABEL_LINES >= len(lines) else []


def _join_continued_rows(rows: Sequence[tuple[str, ...]], drawn: Sequence[int]) -> list[tuple[str, ...]]:
    """Join a row to the line above it if its first cell continues that line. `drawn` are the numbers of drawn rows."""
    joined: list[tuple[str, ...]] = []
    for number, row in enumerate(rows):
        before = joined[-1] if joined else None
        is_same = drawn[number - 1 : number] == drawn[number : number + 1] if drawn else row[0][:1].islower()
        if before and before[0] and not any(before[1:]) and row[0] and is_same:
            joined[-1] = (f"{before[0]} {row[0]}", *row[1:])
        else:
            joined.append(row)
    return joined
