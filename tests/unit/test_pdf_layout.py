"""How what stands on the pages of a PDF is put in order (spec 1.6): numbers of lines, columns, what is broken off."""

from textwrap import wrap

import pytest

from headwater import extract_pdf
from tests.unit.pdf_sheets import ADVICE, BILL, FOUND, METHOD, OUTLAYS, REVENUES, REVIEW
from tests.unit.pdf_writer import Page, pdf

TOWNS = ("Albany", "Boston", "Chester", "Dover", "Exeter", "Fargo", "Groton", "Hudson", "Ithaca", "Juneau")
CARGO = ("coal and coke", "timber", "salt", "sand and gravel", "grain", "iron ore", "paper", "cement", "oil", "wool")


def numbered(lines: list[str], first: int = 1, leading: float = 20) -> Page:
    page = Page()
    for number, line in enumerate(lines):
        page.text(90, 80 + leading * number, str(first + number), right=True)
        if line:
            page.text(110, 80 + leading * number, line)
    return page


def words_of(*pages: Page) -> list[str]:
    return extract_pdf(pdf(pages)).markdown.replace("|", " ").split()


@pytest.mark.parametrize("items", [TOWNS, CARGO, [f"{town} has grown since the last census" for town in TOWNS]])
@pytest.mark.parametrize("pages", [1, 3])
def test_the_ranks_of_a_list_stay(items: list[str], pages: int) -> None:
    """Spec 1.6: only the numbers of lines are removed; a list may begin anew on every page."""
    words = words_of(*[numbered([*items[page:], *items[:page]]) for page in range(pages)])
    assert [words.count(str(number)) for number in range(1, 11)] == [pages] * 10


def test_the_ranks_of_a_list_that_goes_on_on_the_next_page_stay() -> None:
    words = words_of(numbered([f"{town} Harbor" for town in TOWNS]), numbered(list(TOWNS), first=11))
    assert [number for number in range(1, 21) if str(number) in words] == list(range(1, 21))


def test_numbers_of_paragraphs_that_go_on_below_them_stay() -> None:
    page = Page()
    for number, text in enumerate((REVIEW, FOUND, ADVICE, METHOD, OUTLAYS, REVENUES)):
        page.text(90, 80 + 60 * number, str(number + 1), right=True)
        page.prose(110, 80 + 60 * number, text, 70)
    words = words_of(page)
    assert all(str(number) in words for number in range(1, 7))


@pytest.mark.parametrize("texts", [[BILL], [BILL, f"{FOUND} {ADVICE} {REVIEW}"]])
def test_the_numbers_of_the_lines_of_a_bill_go(texts: list[str]) -> None:
    """Spec 1.6: line numbers of transcripts removed, from a single page too."""
    read = extract_pdf(pdf([numbered(wrap(text, 60), leading=24) for text in texts]))
    assert read.markdown.replace("\n\n", " ") == " ".join(texts)


def test_the_numbers_of_lines_go_though_most_lines_are_empty_or_short() -> None:
    answers = ["", "Q. Was it deep?", "A. It was.", "", "Q. How deep?", "A. Forty feet.", "", "Q. Thank you.", "", ""]
    read = extract_pdf(pdf([numbered(answers, leading=24) for _ in range(3)]))
    assert not any(word.isdigit() for word in read.markdown.split())
