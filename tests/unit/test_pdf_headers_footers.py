"""Which lines are headers and footers of PDF pages, and which are text (spec 1.6)."""

from collections.abc import Callable

import pytest

from headwater import extract_pdf
from tests.unit.pdf_sheets import ADVICE, FOUND, METHOD, REVENUES, REVIEW
from tests.unit.pdf_writer import Page, pdf

TEXTS = (REVIEW, FOUND, ADVICE, METHOD, REVENUES)


def pages_with(draw: Callable[[Page, int], object]) -> str:
    pages = [Page() for _ in TEXTS]
    for number, (page, text) in enumerate(zip(pages, TEXTS, strict=True)):
        page.prose(72, 120, text, 80)
        draw(page, number)
    return extract_pdf(pdf(pages)).markdown


@pytest.mark.parametrize("y", [60, 740])
@pytest.mark.parametrize(
    "line", ["Grant number: G-000{0}7", "Paid on March {0}, 2026", "Chapter {0}", "Lot {0}{0} sold"]
)
def test_lines_that_differ_by_a_number_are_data(line: str, y: float) -> None:
    read = pages_with(lambda page, number: page.text(72, y, line.format(number + 1)))
    assert [line.format(number) in read for number in range(1, 6)] == [True] * 5


def test_the_last_row_of_a_table_is_data() -> None:
    def row(page: Page, number: int) -> None:
        page.text(72, 700, f"Subtotal for county {number + 1}", bold=True)
        page.text(400, 700, f"{3683 - 100 * number}.00", bold=True)

    read = pages_with(row)
    assert [f"{3683 - 100 * number}.00" in read for number in range(5)] == [True] * 5


@pytest.mark.parametrize("size", [12, 14, 16])
def test_larger_lines_that_count_are_headings(size: float) -> None:
    read = pages_with(lambda page, number: page.text(72, 60, f"Chapter - {number + 1}", size, bold=True))
    assert [f"# Chapter - {number}" in read for number in range(1, 6)] == [True] * 5


@pytest.mark.parametrize(
    "foot",
    [
        "Harbors | {0}",
        "Harbors - Page {0} of 9",
        "{0} | Harbors",
        "Office of Harbors {0}",
        "Harbors, March 3, 2026",
        "{0}",
        "Page {0}",
    ],
)
def test_lines_that_number_the_pages_are_removed(foot: str) -> None:
    read = pages_with(lambda page, number: page.text(72, 740, foot.format(number + 4)))
    assert read == "\n\n".join(TEXTS)


def test_a_header_with_the_page_number_in_its_corner_is_removed() -> None:
    def head(page: Page, number: int) -> None:
        page.text(72, 60, "Harbors in 2026")
        page.text(500, 60, str(number + 11))

    assert pages_with(head) == "\n\n".join(TEXTS)


def test_a_footer_in_small_print_that_counts_is_removed() -> None:
    read = pages_with(lambda page, number: page.text(72, 760, f"Jkt 030 PO 0000 Frm 0000{number} Fmt 6633 Sfmt 60", 6))
    assert read == "\n\n".join(TEXTS)


def test_copies_of_one_page_keep_their_last_paragraph() -> None:
    pages = [Page() for _ in range(4)]
    for page in pages:
        page.prose(72, 80, REVIEW, 80)
        page.prose(72, 400, ADVICE, 80)
    assert extract_pdf(pdf(pages)).markdown.count(ADVICE) == 4


def test_a_watermark_appears_once_and_is_not_a_heading() -> None:
    def mark(page: Page, _number: int) -> None:
        page.text(137, 400, "DRAFT", 90, bold=True)

    read = pages_with(mark)
    assert [read.count("DRAFT"), read.count("#")] == [1, 0]
    assert [text in read for text in TEXTS] == [True] * 5


def test_a_page_number_close_above_the_first_line_is_removed() -> None:
    read = pages_with(lambda page, number: page.text(520, 104.5, str(number + 1)))
    assert read == "\n\n".join(TEXTS)


@pytest.mark.parametrize(
    "head", ["Register of Harbors, Vol. 85 of 2020 {0}", "{0} Register of Harbors, Vol. 85 of 2020"]
)
def test_a_header_of_many_words_that_ends_in_the_page_number_is_removed(head: str) -> None:
    assert pages_with(lambda page, number: page.text(72, 60, head.format(number + 47))) == "\n\n".join(TEXTS)


def test_a_header_that_names_the_section_of_a_law_is_removed() -> None:
    read = pages_with(lambda page, number: page.text(72, 60, f"Office of Harbors \u00a7 1308.{11 + number // 2}"))
    assert read == "\n\n".join(TEXTS)
