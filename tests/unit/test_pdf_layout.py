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


@pytest.mark.parametrize("lines", [3, 4, 5])
@pytest.mark.parametrize("alone", [True, False])
def test_two_columns_of_a_few_lines_are_not_interleaved(lines: int, alone: bool) -> None:
    """Spec 1.6: columns are read one after the other, however short."""
    page = Page()
    texts = [" ".join(wrap(text, 40)[:lines]) for text in (REVIEW, ADVICE)]
    for x, text in zip((72, 320), texts, strict=True):
        page.prose(x, 300, text, 40)
    if not alone:
        page.prose(72, 80, f"{OUTLAYS} {REVENUES}", 88)
    read = extract_pdf(pdf([page])).markdown
    assert [text in read for text in texts] == [True, True]


def test_three_rows_of_two_cells_are_read_row_by_row() -> None:
    page = Page()
    rows = [("Depth of the channel", "Surveyed in the spring"), ("Ships that passed it", "Counted by the pilots")]
    rows.append(("Tons that they carried", "Reported by the owners"))
    for number, row in enumerate(rows):
        for x, cell in zip((72, 320), row, strict=True):
            page.text(x, 100 + 12 * number, cell)
    assert " ".join(f"{one} {other}" for one, other in rows) in " ".join(extract_pdf(pdf([page])).markdown.split())


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (
            ("See https://www.office.test/reports/", "harbor-2024_final.pdf for more."),
            "reports/harbor-2024_final.pdf for",
        ),
        (("See https://www.office.test/harbor-", "depth/2024 for more."), "office.test/harbor-depth/2024 for"),
        (("See https://", "www.office.test/depth for more."), "See https://www.office.test/depth for"),
        (("See www.office.test/list?year=", "2024&page=1 for more."), "list?year=2024&page=1 for"),
        (("See https://www.office.", "test/reports/2024 for more."), "https://www.office.test/reports/2024 for"),
        (("It is at https://www.office.test/a.htm", "11/27/2023 and later."), "a.htm 11/27/2023 and"),
        (("It is at https://www.office.test/", "for all who want it."), "https://www.office.test/ for all"),
        (("It is at https://www.office.test.", "The rest is elsewhere."), "https://www.office.test. The"),
        (("It is at https://www.office.test", "and/or in the library."), "https://www.office.test and/or"),
        (("It is at https://www.office.test/a", "https://www.office.test/b"), "test/a https://www.office.test/b"),
    ],
)
def test_an_address_broken_over_lines_is_one_again(lines: tuple[str, str], text: str) -> None:
    page = Page()
    page.lines(72, 80, lines)
    assert text in extract_pdf(pdf([page])).markdown


BROKEN = (
    "the officials of the regional offices spoke about the inter-",
    "national trade that passes through all of them",
)


def test_a_word_broken_at_the_end_of_a_page_is_whole_again() -> None:
    pages = [Page(), Page()]
    pages[0].lines(72, 700, ("In the reports of the last year and of the year before it", BROKEN[0]))
    pages[1].lines(72, 80, (BROKEN[1], "in the spring of the year."))
    assert "about the international trade" in extract_pdf(pdf(pages)).markdown


def test_a_word_broken_at_the_end_of_a_column_is_whole_again() -> None:
    page = Page()
    page.lines(72, 80, [*wrap(REVIEW, 40), "trade with other nations or the inter-"])
    page.lines(320, 80, ["national trade of the offices and ports.", *wrap(FOUND, 40)])
    assert "or the international trade" in extract_pdf(pdf([page])).markdown


def test_a_short_line_with_a_broken_word_goes_on_on_the_next_page() -> None:
    pages = [Page(), Page()]
    pages[0].prose(72, 80, REVIEW, 80)
    pages[0].text(72, 740, "On inter-")
    pages[1].text(72, 80, "national trade they said nothing.")
    assert "On international trade they" in extract_pdf(pdf(pages)).markdown
