"""The reading order of PDF pages (spec 1.6): line numbers, columns, broken words."""

from textwrap import wrap

import pytest

from headwater import extract_pdf
from tests.unit.pdf_sheets import ADVICE, BILL, FOUND, METHOD, OUTLAYS, REVENUES, REVIEW
from tests.unit.pdf_writer import Page, pdf, pdf_file

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


def with_glyph(page: Page, difference: bytes) -> bytes:
    """Return a PDF of the page with another glyph at a code of its encoding."""
    encoding = b"<< /Type /Encoding /BaseEncoding /WinAnsiEncoding /Differences [%b] >>" % difference
    return pdf([page]).replace(b"/WinAnsiEncoding", encoding)


@pytest.mark.parametrize("items", [TOWNS, CARGO, [f"{town} has grown since the last census" for town in TOWNS]])
@pytest.mark.parametrize("pages", [1, 3])
def test_the_ranks_of_a_list_stay(items: list[str], pages: int) -> None:
    """Spec 1.6: only line numbers are removed. A list may begin again on every page."""
    words = words_of(*[numbered([*items[page:], *items[:page]]) for page in range(pages)])
    assert [words.count(str(number)) for number in range(1, 11)] == [pages] * 10


def test_the_ranks_of_a_list_that_continues_on_the_next_page_stay() -> None:
    words = words_of(numbered([f"{town} Harbor" for town in TOWNS]), numbered(list(TOWNS), first=11))
    assert [number for number in range(1, 21) if str(number) in words] == list(range(1, 21))


def test_numbers_of_paragraphs_that_continue_below_them_stay() -> None:
    page = Page()
    for number, text in enumerate((REVIEW, FOUND, ADVICE, METHOD, OUTLAYS, REVENUES)):
        page.text(90, 80 + 60 * number, str(number + 1), right=True)
        page.prose(110, 80 + 60 * number, text, 70)
    words = words_of(page)
    assert all(str(number) in words for number in range(1, 7))


@pytest.mark.parametrize("texts", [[BILL], [BILL, f"{FOUND} {ADVICE} {REVIEW}"]])
def test_the_line_numbers_of_a_bill_are_removed(texts: list[str]) -> None:
    """Spec 1.6: the line numbers of transcripts are removed, also from a single page."""
    read = extract_pdf(pdf([numbered(wrap(text, 60), leading=24) for text in texts]))
    assert read.markdown.replace("\n\n", " ") == " ".join(texts)


def test_line_numbers_are_removed_if_most_lines_are_empty_or_short() -> None:
    answers = ["", "Q. Was it deep?", "A. It was.", "", "Q. How deep?", "A. Forty feet.", "", "Q. Thank you.", "", ""]
    read = extract_pdf(pdf([numbered(answers, leading=24) for _ in range(3)]))
    assert not any(word.isdigit() for word in read.markdown.split())


@pytest.mark.parametrize("lines", [3, 4, 5])
@pytest.mark.parametrize("alone", [True, False])
def test_two_columns_of_a_few_lines_are_not_interleaved(lines: int, alone: bool) -> None:
    """Spec 1.6: columns are read one after the other, also short ones."""
    page = Page()
    texts = [" ".join(wrap(text, 40)[:lines]) for text in (REVIEW, ADVICE)]
    for x, text in zip((72, 320), texts, strict=True):
        page.prose(x, 300, text, 40)
    if not alone:
        page.prose(72, 80, f"{OUTLAYS} {REVENUES}", 88)
    read = extract_pdf(pdf([page])).markdown
    assert [text in read for text in texts] == [True, True]


def test_a_table_below_two_columns_follows_both() -> None:
    """Spec 1.6: text below columns is read after them."""
    page = Page()
    for x, text in ((72, f"{REVIEW} {FOUND}"), (320, f"{ADVICE} {METHOD}")):
        page.lines(x, 80, wrap(text, 40)[:8])
    page.grid((72, 120, 170, 220), (188, 204, 220), (("State", "2025", "2026"), ("Ohio", "1", "2")))
    read = extract_pdf(pdf([page])).markdown
    assert read.index(" ".join(wrap(f"{ADVICE} {METHOD}", 40)[7].split()[:3])) < read.index("| State")


def test_text_above_and_to_the_right_is_read_first() -> None:
    """Spec 1.6: a letterhead comes before the address."""
    page = Page()
    page.text(244, 40, "Office of Harbors and Ports", 14, bold=True)
    page.text(254, 56, "Washington, DC 20510", 9)
    page.text(460, 86, "March 3, 2026")
    page.lines(72, 112, ("The Honorable Jane Doe", "Administrator of Harbors", "Washington, DC 20460"), leading=14)
    page.text(72, 182, "Dear Administrator Doe:")
    page.prose(72, 210, f"{REVIEW} {FOUND}", 90)
    read = extract_pdf(pdf([page])).markdown
    assert (
        read.index("Ports") < read.index("20510") < read.index("March") < read.index("Honorable") < read.index("Dear")
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("TO: Members of the Committee", "FROM: Committee Staff", "DATE: March 3, 2026", "RE: Pipes and pumps"),
        ("1 Several offices were closed.", "2 Utilities took up loans.", "3 Laws were passed in May."),
        (
            "Ms. ALVAREZ. I would be happy to yield to my friend.",
            "Mr. SMITH. How many of them have had an engineer?",
            "The CHAIRMAN. The time has expired, and we go on.",
        ),
    ],
)
def test_each_label_item_or_speaker_begins_a_paragraph(lines: tuple[str, ...]) -> None:
    """Spec 1.6: labels of memoranda, lists and speakers."""
    page = Page()
    page.lines(72, 80, lines)
    assert extract_pdf(pdf([page])).markdown.split("\n\n") == list(lines)


def test_aligned_spaces_between_words_are_not_a_gutter() -> None:
    """Spec 1.6: the wide lines of a typewriter are read from side to side."""
    page = Page()
    lines = (
        "estimates regional many states lack spending of money",
        "infrastructure and the funding regional loans apply",
    )
    lines += (
        "increase issued infrastructure rural small considered",
        "that the agency and after that would consider them",
    )
    page.lines(72, 80, lines, leading=26)
    typed = pdf([page]).replace(b"/BaseFont /Helvetica ", b"/BaseFont /Courier ")
    assert extract_pdf(typed).markdown == " ".join(lines)


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
def test_an_address_broken_over_lines_is_joined(lines: tuple[str, str], text: str) -> None:
    page = Page()
    page.lines(72, 80, lines)
    assert text in extract_pdf(pdf([page])).markdown


BROKEN = (
    "the officials of the regional offices spoke about the inter-",
    "national trade that passes through all of them",
)


def test_a_word_broken_at_the_end_of_a_page_is_joined() -> None:
    pages = [Page(), Page()]
    pages[0].lines(72, 700, ("In the reports of the last year and of the year before it", BROKEN[0]))
    pages[1].lines(72, 80, (BROKEN[1], "in the spring of the year."))
    assert "about the international trade" in extract_pdf(pdf(pages)).markdown


def test_a_word_broken_at_the_end_of_a_column_is_joined() -> None:
    page = Page()
    page.lines(72, 80, [*wrap(REVIEW, 40), "trade with other nations or the inter-"])
    page.lines(320, 80, ["national trade of the offices and ports.", *wrap(FOUND, 40)])
    assert "or the international trade" in extract_pdf(pdf([page])).markdown


def test_a_short_line_with_a_broken_word_continues_on_the_next_page() -> None:
    pages = [Page(), Page()]
    pages[0].prose(72, 80, REVIEW, 80)
    pages[0].text(72, 740, "On inter-")
    pages[1].text(72, 80, "national trade they said nothing.")
    assert "On international trade they" in extract_pdf(pdf(pages)).markdown


def test_words_outside_of_the_visible_page_come_last_and_are_not_a_title() -> None:
    """Spec 1.6: no text is lost, but the marks of printers do not come first."""
    page = Page()
    page.text(72, -40, "printed on Tuesday", 20)
    page.text(-900, 300, "far away", 20)
    page.text(72, 80, "The Depth of Harbors", 16)
    page.prose(72, 120, REVIEW, 80)
    read = extract_pdf(pdf([page]))
    assert read.markdown == f"# The Depth of Harbors\n\n{REVIEW}\n\nprinted on Tuesday far away"
    assert read.title == "The Depth of Harbors"


def test_words_along_the_margin_are_not_a_heading() -> None:
    page = Page(turned=True)
    page.text(300, 40, "Along the margin", 20)
    page.turned = False
    page.prose(72, 120, f"{REVIEW} {FOUND}", 80)
    assert extract_pdf(pdf([page])).markdown == f"{REVIEW} {FOUND}\n\nAlong the margin"


def test_large_lines_that_count_are_not_headers() -> None:
    """Spec 1.6: titles of slides stay."""
    pages = [Page() for _ in range(4)]
    for number, page in enumerate(pages, start=1):
        page.text(60, 60, f"Part {number}: Harbors", 28)
        page.text(60, 140, ("Depth", "Ships", "Tons", "Costs")[number - 1], 14)
        page.prose(60, 200, (REVIEW, FOUND, ADVICE, METHOD)[number - 1], 60)
        page.text(60, 770, "Office of Harbors", 8)
    read = extract_pdf(pdf(pages))
    assert [f"# Part {number}: Harbors" in read.markdown for number in range(1, 5)] == [True] * 4
    assert "Office of Harbors" not in read.markdown


@pytest.mark.parametrize("is_repeated", [True, False])
def test_a_table_that_continues_on_the_next_page_has_one_head(is_repeated: bool) -> None:
    """Spec 1.6: if every page has the head, it is one table a page. Without it, the rows continue one table."""
    pages = [Page() for _ in range(3)]
    head = ("Port", "Ships", "Tons")
    for number, page in enumerate(pages):
        cells = [(f"Port {row + 30 * number}", str(7 * row), str(11 * row + number)) for row in range(30)]
        cells = [head, *cells] if is_repeated or number == 0 else cells
        page.grid((72, 200, 300, 400), [60 + 18 * row for row in range(len(cells) + 1)], cells)
    read = extract_pdf(pdf(pages)).markdown.splitlines()
    assert read[:3] == ["| Port | Ships | Tons |", "| --- | --- | --- |", "| Port 0 | 0 | 0 |"]
    rows = [line.split(" | ")[0] for line in read if line.startswith("| Port ") and "Ships" not in line]
    assert rows == [f"| Port {number}" for number in range(90)]
    assert [read.count(line) for line in read[:2]] == ([3, 3] if is_repeated else [1, 1])


def test_a_table_after_another_on_the_next_page_stays_its_own() -> None:
    pages = [Page(), Page()]
    pages[0].grid((72, 200, 300), (700, 718, 736), [("Name", "Figure"), ("Row", "12")])
    pages[1].grid((72, 250, 400), (60, 78, 96), [("Town", "Height"), ("Row", "13")])
    assert extract_pdf(pdf(pages)).markdown.count("| --- | --- |") == 2


def test_invisible_hyphens_are_removed() -> None:
    """Spec 1.6: a soft hyphen does not split a word."""
    page = Page()
    page.lines(72, 80, ["The soft\u00adened inter\u00adnational law of the har\u00ad", "bor."])
    body = with_glyph(page, b"173 /uni00AD")
    assert extract_pdf(body).markdown == "The softened international law of the harbor."


def test_a_letter_spaced_word_is_one_word() -> None:
    page = Page()
    page.drawn.append(b"5 Tc")
    page.text(72, 80, "HARBORS", 12)
    page.drawn.append(b"0 Tc")
    page.prose(72, 120, REVIEW, 80)
    assert "HARBORS" in extract_pdf(pdf([page])).markdown


def test_a_transcription_behind_the_picture_of_a_page_is_text() -> None:
    """Spec 1.6: the text that a scanner has read is not a stamp, even if it is short."""
    page = Page()
    page.picture(0, 0, 612, 792)
    page.drawn.append(b"3 Tr")
    page.lines(72, 300, ["We thank you for your letter.", "It has been filed."])
    read = extract_pdf(pdf([page]))
    assert (read.status, read.markdown) == ("ok", "We thank you for your letter. It has been filed.")


def test_a_page_with_all_words_outside_is_read_like_others() -> None:
    page = Page()
    page.text(1072, 80, "The Depth of Harbors", 16)
    page.prose(1072, 120, REVIEW, 80)
    assert extract_pdf(pdf([page])).markdown == f"# The Depth of Harbors\n\n{REVIEW}"


def test_the_value_of_a_form_field_follows_its_label() -> None:
    """Spec 1.6: the text contains the values of a form."""
    page = Page()
    page.text(72, 100, "Name of the applicant:")
    look = b"BT /F1 10 Tf 2 4 Td (Ada Wendham) Tj ET"
    fonts = b"<< /Font << /F1 3 0 R >> >>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [6 0 R] >> >>",
        b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R /Resources %b /Annots [6 0 R] >>"
        % fonts,
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(page.drawn[0]), page.drawn[0]),
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Ada Wendham) /F 4 /Rect [182 688 320 704] /P 4 0 R "
        b"/AP << /N 7 0 R >> >>",
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 138 16] /Resources %b /Length %d >>\nstream\n%b\nendstream"
        % (fonts, len(look), look),
    ]
    assert extract_pdf(pdf_file(objects)).markdown == "Name of the applicant: Ada Wendham"


ALEF, BET, GIMEL = "\u05d0", "\u05d1", "\u05d2"


def test_hebrew_and_arabic_words_are_read_from_the_right() -> None:
    """Spec 1.6: names and figures within Hebrew and Arabic keep their order."""
    page = Page()
    for x, letters in ((72, "aa"), (100, "New"), (130, "York"), (170, "bb"), (200, "cc")):
        page.text(x, 80, letters)
    encoding = b"<< /Type /Encoding /BaseEncoding /WinAnsiEncoding /Differences [97 /uni05D0 /uni05D1 /uni05D2] >>"
    read = extract_pdf(pdf([page]).replace(b"/WinAnsiEncoding", encoding))
    assert read.markdown == f"{2 * GIMEL} {2 * BET} New York {2 * ALEF}"


@pytest.mark.parametrize("lines", [2, 3, 4])
def test_a_drop_cap_next_to_several_lines_begins_the_first(lines: int) -> None:
    """Spec 1.6: a drop cap belongs to its word."""
    page = Page()
    size = 12 * lines + 2
    text = f"{REVIEW} {FOUND} {ADVICE}"
    page.text(72, 80 + 12 * (lines - 1), text[0], size)
    beside = wrap(text[1:], 60)
    page.lines(72 + size, 80, beside[:lines])
    page.lines(72, 80 + 12 * lines, wrap(" ".join(beside[lines:]), 68))
    assert extract_pdf(pdf([page])).markdown == text


def test_a_drop_cap_on_the_line_of_its_word_begins_the_word() -> None:
    page = Page()
    page.text(72, 80, REVIEW[0], 24)
    page.lines(72 + 23, 80, [REVIEW[1:60]])
    assert extract_pdf(pdf([page])).markdown == REVIEW[:60].strip()


def test_lines_of_chinese_are_joined_without_a_space() -> None:
    page = Page()
    page.lines(72, 80, ["aaaa", "aaaa"])
    assert extract_pdf(with_glyph(page, b"97 /uni6C34")).markdown == "\u6c34" * 8


def test_a_hyphen_that_breaks_a_word_is_removed() -> None:
    page = Page()
    page.lines(72, 80, ["The depth of the har\u00ad", "bor."])
    body = with_glyph(page, b"173 /uni2010")
    assert extract_pdf(body).markdown == "The depth of the harbor."
