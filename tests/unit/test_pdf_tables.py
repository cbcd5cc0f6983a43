"""Tables without cells of lines: right in every cell, or an artifact (issue 24)."""

from collections.abc import Sequence

import pytest

from headwater import extract_pdf
from headwater.extraction.article import PdfDocument
from tests.unit.pdf_writer import Page, pdf

LABELS = ("Ferries", "Trams", "Buses", "Taxis", "Trains")
Row = Sequence[tuple[float, str]]


def figures(row: int, *places: float) -> Row:
    """Return a row with a label, and with a figure that ends at each place."""
    return [(0, LABELS[row % 5]), *((x, f"{row + 1},{100 + 7 * number}") for number, x in enumerate(places))]


def read(rows: Sequence[Row], *, top: float = 100, page: Page | None = None, leading: float = 14) -> PdfDocument:
    """Read a page with rows. A piece at 0 is a label on the left, and each other piece ends at its place."""
    page = page or Page()
    for number, row in enumerate(rows):
        for x, text in row:
            page.text(x or 72, top + leading * number, text, right=x > 0)
    return extract_pdf(pdf([page]))


def cells(document: PdfDocument) -> list[list[str]]:
    lines = [line for line in document.markdown.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("| ---")]


HEAD: Row = [(0, "Line"), (220, "North"), (300, "South"), (380, "Total")]


def test_a_table_without_a_head_has_an_empty_head() -> None:
    table = cells(read([figures(row, 220, 300, 380) for row in range(5)]))
    assert table[0] == ["", "", "", ""]
    assert table[1] == ["Ferries", "1,100", "1,107", "1,114"]
    assert len(table) == 6


def test_figures_that_count_are_a_head() -> None:
    head: Row = [(0, "Line"), (220, "1"), (300, "2"), (380, "3")]
    assert cells(read([head, *(figures(row, 220, 300, 380) for row in range(5))]))[0] == ["Line", "1", "2", "3"]


def test_notes_below_a_table_are_no_rows() -> None:
    note: Row = [(0, "1 Without the night boats."), (380, "2 Since March, with the new quay.")]
    found = read([HEAD, *(figures(row, 220, 300, 380) for row in range(5)), note])
    assert len(cells(found)) == 6
    assert "2 Since March, with the new quay." in found.markdown


def test_a_line_below_two_heads_is_divided_between_them() -> None:
    page = Page()
    page.rule(72, 88, 460, 88)
    page.rule(195, 104, 460, 104)
    page.rule(72, 122, 460, 122)
    tops: Row = [(274, "Passengers"), (422, "Boats")]
    heads: Row = [(0, "Line"), (220, "2024"), (300, "2025"), (380, "2024"), (460, "2025")]
    table = cells(read([tops, heads, *(figures(row, 220, 300, 380, 460) for row in range(5))], page=page, leading=17))
    assert table[0] == ["Line", "Passengers 2024", "Passengers 2025", "Boats 2024", "Boats 2025"]


def test_lines_between_rows_show_which_labels_are_wrapped() -> None:
    page = Page()
    rows: list[Row] = [HEAD]
    for row in range(4):
        rows += [[(0, "Ferries of the line")], [(0, "Number"), *figures(row, 220, 300, 380)[1:]]]
    for y in (88, 104, *(104 + 28 * (row + 1) for row in range(4))):
        page.rule(72, y, 380, y)
    table = cells(read(rows, page=page))
    assert [row[0] for row in table[1:]] == ["Ferries of the line Number"] * 4
    assert all(row[1:] and all(row[1:]) for row in table[1:])


def test_blocks_side_by_side_may_have_the_same_heads() -> None:
    head: Row = [(0, "Line"), (200, "Boats"), (300, "Place"), (400, "Boats")]
    # the second label column ends at its place too, because it holds words
    rows: list[Row] = [[(0, "Line"), (200, "Boats"), (300, "Line"), (400, "Boats")]]
    rows += [[(0, LABELS[row]), (200, f"{row}1"), (300, LABELS[4 - row]), (400, f"{row}2")] for row in range(5)]
    assert cells(read(rows))[0] == ["Line", "Boats", "Line", "Boats"]
    assert cells(read([head, *rows[1:]])) == []


@pytest.mark.parametrize(
    ("why", "head", "rows"),
    [
        (
            "several figures in a cell",
            HEAD,
            [[(0, LABELS[row]), (220, "16 0.5"), (300, f"{row}"), (380, "7")] for row in range(2)]
            + [[(0, LABELS[row]), (220, f"{row}6"), (300, f"{row}"), (380, "7")] for row in range(2, 5)],
        ),
        (
            "columns with the same head",
            [(0, "Line"), (220, "Boats"), (300, "Boats"), (380, "Total")],
            [figures(row, 220, 300, 380) for row in range(5)],
        ),
        (
            "a column of figures without a head",
            [(0, "Line"), (220, "North"), (300, "South")],
            [figures(row, 220, 300, 380) for row in range(5)],
        ),
    ],
)
def test_a_table_that_may_be_wrong_is_an_artifact_of_its_lines(why: str, head: Row, rows: list[Row]) -> None:
    found = read([head, *rows])
    assert cells(found) == []
    assert [artifact.why for artifact in found.artifacts] == [why]
    (artifact,) = found.artifacts
    assert all(len(row) == 1 for row in artifact.rows)
    words = " ".join(str(row[0]) for row in artifact.rows).split()
    assert words == [word for row in [head, *rows] for _, text in row for word in text.split()]
    assert all(word in found.markdown for word in words)


def test_columns_of_names_are_no_table() -> None:
    rows: list[Row] = []
    for number in range(6):
        rows.append(
            [(0, f"Ann Mason {number}"), (300, f"Ben Hale {number}"), *([(430, "Eve Low")] if number % 2 else [])]
        )
    found = read(rows)
    assert cells(found) == []
    assert "Ben Hale 5" in found.markdown
