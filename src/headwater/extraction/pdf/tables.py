"""Find tables with ruling lines. Tables become Markdown, or artifacts if Markdown cannot show them."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from pdfplumber.table import cells_to_tables, edges_to_intersections, intersections_to_cells, merge_edges

from headwater.core.json_values import JsonObject
from headwater.extraction import markdown_escape
from headwater.extraction.article import Artifact
from headwater.extraction.pdf.dehyphenation import join_lines
from headwater.extraction.pdf.drawings import RulingLine
from headwater.extraction.pdf.lines import Line, make_lines
from headwater.extraction.pdf.page_content import Word
from headwater.extraction.pdf.pdf_blocks import shorten_leaders

MAX_COLUMNS = 20
_MAX_RULES, _MAX_EDGES = 6000, 600  # drawn and joined lines of one page; more of them are a drawing
_NEAR = 3.0  # points within which lines meet
_MAX_FIGURE_LENGTH = 14  # characters
_MAX_HEAD_ROWS = 4
_BELOW = 48.0  # points below a head, where its first row begins
_LEADERS = re.compile(r"(?<![\s.\u2026])(?:\s*[.\u2026]){3,}\s*$")
_middle = attrgetter("middle")

Cells = tuple[tuple[str | None, ...], ...]
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class PdfTable:
    """A table on a page. A cell that another cell spans is None."""

    cells: Cells
    words: frozenset[int]  # the ids of the words
    box: Box
    lines: tuple[str, ...]  # the text as it is on the page
    flaw: str = ""  # why the cells may be wrong

    @property
    def why_artifact(self) -> str:
        """Why Markdown cannot show the table, or an empty text."""
        if self.flaw:
            return self.flaw
        if len(self.cells[0]) > MAX_COLUMNS:
            return f"over {MAX_COLUMNS} columns"
        return "cells that span others" if any(None in row for row in self.cells) else ""

    def markdown(self) -> str:
        """Return a pipe table. The first row is its head."""
        return markdown_escape.format_table([[cell or "" for cell in row] for row in self.cells])

    def join_rest(self, rest: "PdfTable") -> "PdfTable | None":
        """Join the table with its continuation on the next page. Return None if that is another table."""
        is_alike = len(self.cells[0]) == len(rest.cells[0]) and all(
            abs(self.box[side] - rest.box[side]) <= _NEAR for side in (0, 2)
        )
        if not is_alike or self.cells[0] == rest.cells[0] or self.why_artifact or rest.why_artifact:
            return None
        rows = rest.cells if any(rest.cells[0]) else rest.cells[1:]  # the rest may have an empty head
        return replace(self, cells=self.cells + rows, lines=self.lines + rest.lines)

    def artifact(self, name: str, page: int) -> Artifact:
        """Return the whole table as an artifact. If its cells may be wrong, its rows are its lines."""
        rows = tuple((line,) for line in self.lines) if self.flaw else self.cells
        return Artifact(name, page, self.why_artifact, rows)


def artifact_text(name: str, lines: Iterable[str]) -> str:
    """Return the words of an artifact for the text, so that a search finds them."""
    return "\n".join([f"```{name}", *(line.replace("```", "'''") for line in lines), "```"])


def cell_text(words: Sequence[Word]) -> str:
    """Return the text of a cell without leader dots."""
    text = words[0].text if len(words) == 1 else join_lines(line.text for line in make_lines(words))
    return _LEADERS.sub("", shorten_leaders(text)).strip()


def join_rules(rules: Sequence[RulingLine]) -> list[RulingLine]:
    """Join ruling lines that were drawn in pieces. Return none if so many lines are a drawing."""
    if not rules or len(rules) > _MAX_RULES:
        return []
    edges = merge_edges([_edge(rule) for rule in rules], _NEAR, _NEAR, _NEAR, _NEAR)
    return [RulingLine(edge["x0"], edge["top"], edge["x1"], edge["bottom"]) for edge in edges]


def find_ruled_tables(rules: Sequence[RulingLine], words: Sequence[Word]) -> list[PdfTable]:
    """Find the tables whose cells have joined ruling lines around them."""
    edges = [_edge(rule) for rule in rules]
    if len(edges) > _MAX_EDGES or not {"h", "v"} <= {edge["orientation"] for edge in edges}:
        return []
    cells = intersections_to_cells(edges_to_intersections(edges, _NEAR, _NEAR))
    tables = (_ruled_table(found, words) for found in cells_to_tables(cells))
    return [table for table in tables if table]


def _edge(rule: RulingLine) -> JsonObject:
    across, down = (rule.x0 + rule.x1) / 2, (rule.top + rule.bottom) / 2
    if rule.is_flat:
        length = {"x0": rule.x0, "x1": rule.x1, "top": down, "bottom": down}
    else:
        length = {"x0": across, "x1": across, "top": rule.top, "bottom": rule.bottom}
    sides = {"width": length["x1"] - length["x0"], "height": length["bottom"] - length["top"]}
    return {**length, **sides, "orientation": "h" if rule.is_flat else "v"}


def _ruled_table(cells: Sequence[Box], words: Sequence[Word]) -> PdfTable | None:
    """Fill the grid of cells with words. Return None if it is not a table."""
    across = sorted({x for cell in cells for x in (cell[0], cell[2])})
    down = sorted({y for cell in cells for y in (cell[1], cell[3])})
    if len(across) < 3 or len(down) < 3:
        return None
    box = (across[0], down[0], across[-1], down[-1])
    inside = [word for word in words if _is_in(word, box)]
    grid: list[list[str | None]] = [[None] * (len(across) - 1) for _ in range(len(down) - 1)]
    words_by_cell = _words_by_cell(cells, inside)
    filled = {id(word) for words in words_by_cell.values() for word in words}
    row_of, column_of = ({place: number for number, place in enumerate(places)} for places in (down, across))
    for cell, words_of_cell in words_by_cell.items():
        grid[row_of[cell[1]]][column_of[cell[0]]] = cell_text(words_of_cell)
    if len(filled) < len(inside) or not _is_table(grid) or _rows_are_not_ruled(words_by_cell):
        return None
    if _is_only_a_head(len(grid), box, words):
        return None
    for row in grid:
        if row[0] is not None and all(cell is None for cell in row[1:]):  # one cell from side to side
            row[1:] = [""] * (len(row) - 1)
    rows = _drop_empty(grid)
    if len(rows) < 2 or len(rows[0]) < 2:
        return None
    return PdfTable(rows, frozenset(filled), box, tuple(line.text for line in make_lines(inside)))


def _words_by_cell(cells: Sequence[Box], words: Sequence[Word]) -> dict[Box, list[Word]]:
    by_height = sorted(words, key=_middle)
    words_by_cell = {}
    for cell in cells:
        start, end = bisect_left(by_height, cell[1], key=_middle), bisect_right(by_height, cell[3], key=_middle)
        words_by_cell[cell] = [word for word in by_height[start:end] if _is_in(word, cell)]
    return words_by_cell


def _is_in(word: Word, box: Box) -> bool:
    return box[0] <= (word.x0 + word.x1) / 2 <= box[2] and box[1] <= word.middle <= box[3]


def _is_table(grid: Sequence[Sequence[str | None]]) -> bool:
    """Return whether several columns and rows have words. A frame around a text has not."""
    columns = sum(any(row[number] for row in grid) for number in range(len(grid[0])))
    return columns >= 2 and sum(any(row) for row in grid) >= 2


def _rows_are_not_ruled(words_by_cell: Mapping[Box, Sequence[Word]]) -> bool:
    """Return whether a row of cells contains several rows: each cell has lines, and some cells one figure per line."""
    rows: dict[float, list[list[Line]]] = {}
    for cell, words in words_by_cell.items():
        if lines := make_lines(words):
            rows.setdefault(cell[1], []).append(lines)
    return any(
        len(row) >= 2 and all(len(lines) >= 2 for lines in row) and any(map(_are_figures, row[1:]))
        for row in rows.values()
    )


def _are_figures(lines: Sequence[Line]) -> bool:
    return all(any(map(str.isdigit, line.text)) and len(line.text.rstrip(" .")) <= _MAX_FIGURE_LENGTH for line in lines)


def _is_only_a_head(rows: int, box: Box, words: Sequence[Word]) -> bool:
    """Return whether rows without ruling lines follow. Then this is only the head of a larger table."""
    if rows > _MAX_HEAD_ROWS:
        return False
    reached = box[3]
    for line in make_lines(word for word in words if _is_in(word, (box[0], box[3], box[2], box[3] + _BELOW))):
        if line.top - reached > line.size:
            return False
        if len(line.segments) >= 2:
            return _are_figures(line.segments[1:])
        reached = line.bottom
    return False


def _drop_empty(grid: list[list[str | None]]) -> Cells:
    """Remove empty rows and columns, such as those between double lines."""
    rows = [row for row in grid if any(row)]
    kept = [number for number in range(len(rows[0])) if any(row[number] for row in rows)] if rows else []
    return tuple(tuple(row[number] for number in kept) for row in rows)
