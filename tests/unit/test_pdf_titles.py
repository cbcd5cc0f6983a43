"""The titles of PDFs (spec 1.6)."""

import pytest

from headwater import extract_pdf
from tests.unit.pdf_sheets import FOUND, REVIEW
from tests.unit.pdf_writer import Page, page_of, pdf

PROGRAMS_TITLES = [
    *("", "Document", "Document1", "Microsoft Word - draft3.doc", "PowerPoint Presentation", "Layout 1", "untitled-1"),
    *(
        "report_final.qxd",
        "10811.exe",
        "Final Report v2.docx",
        "C:\\Temp\\a b.pdf",
        "D2004_208",
        "Slide 1",
        "(anonymous)",
    ),
    "The Law Library serves the needs of the U",
]


def test_the_title_comes_from_the_file() -> None:
    page = page_of("nothing large")
    page.text(72, 60, "The Larger Line", 20)
    names = ("What it is called", "Vitamin D", "Exhibit A", "Order filed: a", "COVID-19", "Form 1040 Instructions")
    for title in (*names, "Page One of Many", "Annual Report, 2023"):
        assert extract_pdf(pdf([page], title=title)).title == title


@pytest.mark.parametrize("name", PROGRAMS_TITLES)
def test_a_title_that_a_program_gave_is_ignored(name: str) -> None:
    page = page_of("nothing large")
    page.text(72, 60, "The Larger Line", 20)
    assert extract_pdf(pdf([page], title=name)).title == "The Larger Line"


def test_the_title_is_all_lines_in_the_largest_letters() -> None:
    page = Page()
    page.text(400, 50, "Office of Reports", 14)
    for number, line in enumerate(("HARBORS:", "THEIR DEPTH AND", "THE SHIPS THAT USE THEM")):
        page.text(150, 120 + 30 * number, line, 24, bold=True)
    page.prose(72, 260, f"{REVIEW} {FOUND}", 80)
    assert extract_pdf(pdf([page])).title == "HARBORS: THEIR DEPTH AND THE SHIPS THAT USE THEM"


def test_several_large_words_are_a_better_title_than_one_larger_word() -> None:
    page = Page()
    page.lines(100, 80, ["CONGRATULATING THE HARBOR ON ITS", "ANNIVERSARY"], 15, 17)
    page.text(250, 160, "MARKUP", 18)
    page.prose(72, 260, f"{REVIEW} {FOUND}", 80)
    assert extract_pdf(pdf([page])).title == "CONGRATULATING THE HARBOR ON ITS ANNIVERSARY"


def test_heads_in_two_corners_and_blank_pages_have_no_title() -> None:
    empty, page = Page(), Page()
    empty.text(200, 400, "This page intentionally left blank.", 14, bold=True)
    page.text(45, 60, "Proposed Rules", 18)
    page.text(400, 60, "The Register", 18)
    page.text(72, 100, "Airworthiness of Harbor Planes", 10, bold=True)
    page.prose(72, 130, f"{REVIEW} {FOUND}", 80)
    assert extract_pdf(pdf([empty, page])).title == "Airworthiness of Harbor Planes"


def test_the_title_of_plain_text_is_its_first_line_unless_that_is_small_print() -> None:
    page = Page()
    page.text(250, 40, "Official - Subject to Review", 8)
    page.text(150, 80, "IN THE COURT OF THE HARBOR", 10)
    page.prose(72, 130, f"{REVIEW} {FOUND}", 80)
    assert extract_pdf(pdf([page])).title == "IN THE COURT OF THE HARBOR"


def test_a_title_has_no_backslashes() -> None:
    page = page_of(*REVIEW.split(". "), top=200)
    page.text(72, 80, "1. *Harbors* of [the](West)", 20)
    page.text(72, 102, "and of the _East_", 20)
    assert "\\" not in (extract_pdf(pdf([page])).title or "\\")
