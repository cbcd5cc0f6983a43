"""Twelve sample PDFs in four styles, three each: the estimate (CBO), the report (GAO), the filing (LDA), the hearing.

They cover simple text, tables, columns and complex layouts. pdf_samples/ has their expected Markdown.
"""

from collections.abc import Sequence
from textwrap import wrap

from tests.unit.pdf_writer import Page, pdf

OUTLAYS = (
    "Outlays for the programs in this account rise each year of the projection period because more people take part "
    "and because the cost for each of them grows faster than prices in general."
)
REVENUES = (
    "Revenues follow the path of wages and profits. The largest source is the tax on income, which brings about half "
    "of all receipts; payroll taxes bring most of the rest."
)
METHOD = (
    "The estimate compares what would be spent under the bill with what would be spent without it. It does not count "
    "effects on the economy as a whole, which would be small and uncertain."
)
REVIEW = (
    "We reviewed the agency's records for five years and spoke with officials in nine regional offices. We also "
    "compared its practice with the standards for internal control that apply to all federal agencies."
)
FOUND = (
    "The agency keeps track of contracts in three systems that do not exchange data. Officials said that work on a "
    "common system began last year, but no date for its completion has been set."
)
ADVICE = (
    "The Administrator should set milestones for the common system and report on them each quarter. The agency "
    "agreed with this recommendation and described the steps that it plans to take."
)
BILL = (
    "This Act may be cited as the Harbor Depth Act. "
    "The Secretary shall restore the depth of each channel that has lost more than three feet of it since the survey "
    "of 2015, in the order of the tonnage that passes through it, and shall report to the Congress every year on the "
    "work that was done, the work that remains, and the sums that both of them have cost or are going to cost. "
    "Nothing in this Act changes what a harbor may charge to the ships that use it."
)
LOBBIED = (
    "Issues related to freight rail safety, including the inspection of tank cars, staffing of trains, and the "
    "reporting of blocked crossings. Appropriations for grants to short lines."
)
SPOKEN = (
    ("The committee will come to order. Today we will hear about the state of the harbor and its dredging.", "CHAIR"),
    (
        "Thank you. The channel has lost four feet of its depth since the last survey, and large ships now wait.",
        "WITNESS",
    ),
    ("How long would it take to restore the depth, and what would it cost each year to keep it?", "CHAIR"),
)


def _paged(pages: Sequence[Page], head: str, foot: str) -> bytes:
    for number, page in enumerate(pages, start=1):
        page.text(72, 40, head, 8)
        page.text(300, 765, foot.replace("#", str(number)), 8)
    return pdf(pages)


def _estimate(page: Page, y: float, title: str) -> float:
    page.text(72, y, title, 16, bold=True)
    return y + 30


def _figures(page: Page, y: float, rows: Sequence[Sequence[str]], ends: Sequence[float], size: float = 9) -> float:
    for label, *figures in rows:
        page.text(72, y, label, size)
        for x, figure in zip(ends, figures, strict=True):
            page.text(x, y, figure, size, right=True)
        y += 13
    return y


def cbo_simple() -> bytes:
    pages = [Page() for _ in range(3)]
    y = _estimate(pages[0], 90, "Cost Estimate for the Harbor Maintenance Act")
    for page in pages:
        for paragraph in (OUTLAYS, REVENUES, METHOD):
            y = page.prose(72, y, paragraph, 88)
        y = 90
    return _paged(pages, "CBO ESTIMATE", "Page # of 3")


def cbo_tables() -> bytes:
    page = Page()
    y = page.prose(72, 80, OUTLAYS, 88) + 10
    page.text(72, y, "Table 1. Estimated Budgetary Effects", 11, bold=True)
    ends = (300, 360, 420, 480, 540)
    page.rule(72, y + 8, 540, y + 8)
    page.text(360, y + 20, "By Fiscal Year, Millions of Dollars", 9)
    _figures(page, y + 33, [("", "2025", "2026", "2027", "2028", "2029")], ends)
    page.rule(72, y + 38, 540, y + 38)
    rows = [
        ("Budget authority . . . . . . . .", "1,204", "1,250", "1,301", "1,355", "1,412"),
        ("Estimated outlays . . . . . . .", "960", "1,190", "1,277", "1,333", "1,390"),
        ("Revenues . . . . . . . . . . . .", "0", "-12", "-24", "-25", "-27"),
        ("Net effect on the deficit . . . .", "960", "1,202", "1,301", "1,358", "1,417"),
    ]
    y = _figures(page, y + 51, rows, ends)
    page.rule(72, y - 8, 540, y - 8)
    page.text(72, y + 4, "Components may not sum to totals because of rounding.", 8)
    page.prose(72, y + 30, METHOD, 88)
    return pdf([page])


def cbo_complex() -> bytes:
    pages = [Page(), Page(), Page()]
    for page in pages:
        page.text(72, 80, "The Budget Outlook in Two Columns", 15, bold=True)
        y = page.prose(72, 110, OUTLAYS, 40, 9, 11)
        page.prose(72, y, REVENUES, 40, 9, 11)
        y = page.prose(320, 110, METHOD, 40, 9, 11)
        for number, year in enumerate(("2000", "2010", "2020")):
            page.text(340 + 70 * number, 330, year, 7)
        for number in range(4):
            page.text(322, 320 - 13.7 * number, str(10 * number), 7)
        page.rule(335, 270, 335, 322)
        page.rule(335, 322, 530, 322)
        page.text(320, 262, "Figure 1. Spending, Percentage of GDP", 9, bold=True)
        page.text(72, 700, "1. Years are fiscal years, which end on September 30 of the year that names them.", 7)
    return _paged(pages, "THE BUDGET OUTLOOK", "#")


def gao_columns() -> bytes:
    pages = [Page(), Page(), Page()]
    for page in pages:
        page.text(72, 80, "Contract Oversight Needs a Common System", 16, bold=True)
        for x, paragraphs in ((72, (REVIEW, FOUND)), (322, (ADVICE, REVIEW))):
            y = 110.0
            for paragraph in paragraphs:
                y = page.prose(x, y, paragraph, 42)
    return _paged(pages, "GAO REPORT ON CONTRACTS", "Page #")


def gao_tables() -> bytes:
    page = Page()
    y = page.prose(72, 80, REVIEW, 88) + 20
    page.text(72, y - 6, "Table 2: Offices and Contracts Reviewed", 10, bold=True)
    across, down = (72, 200, 300, 400, 540), (y, y + 18, y + 47, y + 65, y + 94)
    cells = [
        ("Office", "Contracts", "Value", "Finding"),
        ("Northeast", "41", "$12.4", "No common file\nof inspections"),
        ("Midwest", "38", "$9.7", "None"),
        ("West and\nPacific", "57", "$20.1", "Late closing\nof contracts"),
    ]
    page.grid(across, down, cells)
    page.prose(72, y + 120, FOUND, 88)
    return pdf([page])


def gao_complex() -> bytes:
    page = Page()
    page.text(72, 80, "Highlights", 18, bold=True)
    page.prose(72, 110, ADVICE, 30)
    page.prose(280, 110, f"{REVIEW} {FOUND}", 50)
    page.text(72, 318, "Spending by region, with parts that span", 10, bold=True)
    across, down = (72, 200, 300, 400, 500), (330, 350, 370, 390)
    for x in (72, 200, 400, 500):
        page.rule(x, 330, x, 390)
    page.rule(300, 350, 300, 390)
    for y in down:
        page.rule(72, y, 500, y)
    for row, y in zip(
        (("Region", "Spent", "", "Left"), ("North", "4", "5", "6"), ("South", "7", "8", "9")), down, strict=False
    ):
        for x, cell in zip(across, row, strict=False):
            page.text(x + 4, y + 13, cell, 9)
    page.prose(72, 420, FOUND, 88)
    return pdf([page])


def lda_simple() -> bytes:
    page = Page()
    page.text(72, 80, "LOBBYING REPORT", 16, bold=True)
    page.lines(
        72, 110, ["1. Registrant Name: Weir & Lock Partners", "2. Address: 14 Canal Street, Albany, NY"], leading=20
    )
    page.text(72, 170, "16. Specific lobbying issues", 10, bold=True)
    y = page.prose(72, 190, LOBBIED, 88)
    page.text(72, y + 10, "17. House(s) of Congress and Federal agencies", 10, bold=True)
    page.text(72, y + 30, "U.S. SENATE, U.S. HOUSE OF REPRESENTATIVES, Federal Railroad Administration", 10)
    return pdf([page], title="LD-2 Disclosure Form")


def lda_tables() -> bytes:
    pages = [Page(), Page()]
    people = [
        ("Ada", "Wendham", "Legislative Counsel, Rep. Mill"),
        ("Ben", "Ashford", ""),
        ("Cora", "Lint", "Clerk | Page"),
    ]
    for page in pages:
        page.text(72, 80, "18. Name of each individual who acted as a lobbyist", 10, bold=True)
        down = [95 + 18 * number for number in range(5)]
        page.grid((72, 180, 300, 520), down, [("First Name", "Last Name", "Covered Official Position"), *people])
        page.prose(72, 200, LOBBIED, 88)
    return _paged(pages, "LD-2 REPORT OF Weir & Lock Partners", "v7.0 page #")


def lda_complex() -> bytes:
    page = Page()
    y = page.prose(72, 80, LOBBIED, 88)
    page.text(72, y + 12, "Contributions by month and recipient", 10, bold=True)
    rows = [
        [name, *(str((number * 7 + len(name)) % 90 + 10) for number in range(22))]
        for name in ("Able", "Baker", "Cole", "Dunn")
    ]
    head = ["Name", *(f"M{number}" for number in range(1, 23))]
    for row, words in enumerate([head, *rows]):
        for column, word in enumerate(words):
            page.text(72 + (46 if column else 0) + 19 * max(0, column - 1), y + 32 + 12 * row, word, 7)
    page.prose(72, y + 110, LOBBIED.replace("Issues", "Other issues"), 88)
    return pdf([page])


def _transcript(page: Page, first_line: int, lines: Sequence[str]) -> None:
    for number in range(25):
        page.text(90, 80 + 24 * number, str(number + 1), 11, right=True)
    for number, line in enumerate(lines):
        page.text(110, 80 + 24 * (first_line + number), line, 11)


def hearing_simple() -> bytes:
    pages = [Page() for _ in range(3)]
    for page, (words, who) in zip(pages, SPOKEN, strict=True):
        middle = words.index(" ", len(words) // 2)
        _transcript(page, 3, [f"{who}: {words[:middle]}", words[middle + 1 :]])
    return _paged(pages, "Official - Subject to Final Review", "Tidewater Reporting Company #")


def hearing_columns() -> bytes:
    pages = [Page(), Page()]
    for page in pages:
        page.text(200, 80, "COMMITTEE ON HARBORS", 14, bold=True)
        page.rule(72, 92, 540, 92)
        for x, paragraphs in ((60, (FOUND, REVIEW)), (232, (ADVICE, METHOD)), (404, (OUTLAYS, REVENUES))):
            y = 112.0
            for paragraph in paragraphs:
                y = page.prose(x, y, paragraph, 32, 9, 11)
    return _paged(pages, "HEARING BEFORE THE COMMITTEE", "(#)")


def hearing_complex() -> bytes:
    contents, bill, table = Page(), Page(), Page(turned=True)
    contents.text(250, 80, "CONTENTS", 14, bold=True)
    for number, (name, place) in enumerate(
        (("Opening statement of the Chair", 1), ("Statement of the harbor pilot", 4))
    ):
        contents.text(72, 120 + 14 * number, f"{name} {'.' * 60} {place}", 10)
    _transcript(
        bill, 2, ["SECTION 1. SHORT TITLE.", *wrap(f"This Act may be cited as the Harbor Depth Act. {BILL}", 62)]
    )
    for column, words in enumerate(
        (("Year", "2019", "2020", "2021"), ("Depth", "41.2", "39.8", "37.4"), ("Ships", "812", "790", "655"))
    ):
        for row, word in enumerate(words):
            table.text(150 + 90 * column, 200 + 16 * row, word, 10)
    return _paged([contents, bill, table], "HARBOR HEARING", "#")


SAMPLES = {
    make.__name__: make
    for make in (
        *(cbo_simple, cbo_tables, cbo_complex, gao_columns, gao_tables, gao_complex),
        *(lda_simple, lda_tables, lda_complex, hearing_simple, hearing_columns, hearing_complex),
    )
}
