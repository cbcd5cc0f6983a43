"""PDF to Markdown (spec 1.6): the tests that a newer pdfplumber must pass."""

import gzip
import re
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater import BodyStatus, Reason, extract_pdf
from headwater.extraction.pdf import pdf_v1
from headwater.extraction.pdf.pdf_v1 import MAX_PAGES
from headwater.extraction.registry import normalize
from tests.refusals import refusal_of
from tests.unit.pdf_sheets import FOUND, OUTLAYS, REVIEW, SAMPLES
from tests.unit.pdf_writer import HEIGHT, WIDTH, Page, page_of, pdf, pdf_file

EXPECTED = Path(__file__).parent / "pdf_samples"
URL = "http://office.test/report.pdf"
TABLE = re.compile(r"(?m)^\| --- ")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_has_its_expected_markdown(name: str) -> None:
    """Spec 1.6: twelve samples, three of each style."""
    read = extract_pdf(SAMPLES[name]())
    assert read.status is BodyStatus.OK
    assert f"{read.markdown}\n" == (EXPECTED / f"{name}.md").read_text()


def test_the_samples_have_three_files_of_each_style() -> None:
    """Spec 1.6."""
    styles, sorts = zip(*(name.split("_") for name in SAMPLES), strict=True)
    assert Counter(styles) == {"cbo": 3, "gao": 3, "lda": 3, "hearing": 3}
    assert set(sorts) == {"simple", "tables", "columns", "complex"}
    assert {path.stem for path in EXPECTED.iterdir()} == set(SAMPLES)


def test_a_table_too_wide_for_markdown_is_an_artifact_and_its_words_stay() -> None:
    """Spec 1.6: over 20 columns."""
    read = extract_pdf(SAMPLES["lda_complex"]())
    (table,) = read.artifacts
    assert (table.name, table.page, table.why) == ("table-1", 1, "over 20 columns")
    assert [len(row) for row in table.rows] == [23] * 5
    assert table.rows[0][:3] == ("Name", "M1", "M2")
    assert not TABLE.search(read.markdown)
    assert "Baker 15 22 29" in read.markdown
    assert read.markdown.startswith("Issues related to freight rail safety")


def test_a_table_with_cells_that_span_others_is_an_artifact() -> None:
    """Spec 1.6: irregular spans."""
    read = extract_pdf(SAMPLES["gao_complex"]())
    (table,) = read.artifacts
    assert table.why == "cells that span others"
    assert table.rows[0] == ("Region", "Spent", None, "Left")
    assert not TABLE.search(read.markdown)


def test_twenty_columns_still_are_a_pipe_table() -> None:
    page = Page()
    across = [40 + 26 * number for number in range(21)]
    page.grid(across, [100, 120, 140, 160], [[str(row * 20 + number) for number in range(20)] for row in range(3)], 7)
    read = extract_pdf(pdf([page]))
    assert read.artifacts == ()
    assert read.markdown.splitlines()[2] == "| " + " | ".join(str(20 + number) for number in range(20)) + " |"


def test_a_scan_has_a_status_and_no_text() -> None:
    """Spec 1.6."""
    page = Page()
    page.picture(0, 0, WIDTH, HEIGHT)
    read = extract_pdf(pdf([page, page]))
    assert (read.markdown, read.status, read.page_count) == ("", "scanned_no_text", 2)


@pytest.mark.parametrize("y", [20, 400, 780])
def test_a_scan_with_a_stamp_is_a_scan(y: float) -> None:
    """Spec 1.6: the only text of the page is a stamp."""
    pages = []
    for number in range(3):
        page = Page()
        for strip in range(8):
            page.picture(0, strip * HEIGHT / 8, WIDTH, HEIGHT / 8)
        page.text(72, y, f"Case: 24-1187 Document: 31 Filed: 05/06/2024 Page: {number} of 3")
        pages.append(page)
    assert extract_pdf(pdf(pages)).status is BodyStatus.SCANNED_NO_TEXT


def test_a_page_of_text_before_a_picture_is_not_a_scan() -> None:
    page = page_of(REVIEW[:80], FOUND[:80])
    page.picture(0, 0, WIDTH, HEIGHT)
    page.prose(72, 200, f"{OUTLAYS} {REVIEW} {FOUND}", 80)
    assert extract_pdf(pdf([page])).status is BodyStatus.OK


def test_one_page_of_text_makes_a_document_of_scans_readable() -> None:
    scan, cover = Page(), Page()
    scan.picture(0, 0, WIDTH, HEIGHT)
    cover.prose(72, 80, f"{REVIEW} {FOUND}", 80)
    read = extract_pdf(pdf([scan, cover, scan]))
    assert read.status is BodyStatus.OK
    assert read.markdown == f"{REVIEW} {FOUND}"


LOCKED = pdf([page_of("Nobody may read this.")]).replace(
    b"/Root 1 0 R",
    b"/Root 1 0 R /ID [<00><00>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <%b> /U <%b> >>"
    % (b"5a" * 32, b"a5" * 32),
)
WHOLE = pdf([page_of(*REVIEW.split(". "))])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", "not_a_pdf"),
        (b"%PD", "not_a_pdf"),
        (b"<!doctype html><title>404</title><p>Page not found.</p>" * 20, "not_a_pdf"),
        (gzip.compress(b"<html><title>404</title></html>" * 20, mtime=0), "not_a_pdf"),
        (b"x" * 2000 + WHOLE, "not_a_pdf"),
        (b"%PDF-1.7\n", "broken"),
        (b"%PDF-1.7\n" + b"junk " * 500, "broken"),
        (pdf_file([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [] /Count 0 >>"]), "broken"),
        (pdf_file([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R] /Count 3 >>"]), "broken"),
        (LOCKED, "encrypted"),
        (pdf([page_of("7")]), "scanned_no_text"),
        (pdf([Page()] * 3), "empty_text"),
    ],
)
def test_each_unreadable_pdf_has_its_own_status(body: bytes, status: str) -> None:
    """Spec 1.6."""
    read = extract_pdf(body)
    assert (read.status, read.markdown, read.artifacts) == (status, "", ())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (LOCKED, Reason.ENCRYPTED),
        (b"%PDF-1.7\n" + b"junk " * 500, Reason.BROKEN),
        (pdf([Page()]), Reason.EMPTY_TEXT),
        (b"", Reason.NOT_A_PDF),
        (b"x" * 1100 + WHOLE + b"<p>" * 100, Reason.NOT_A_PDF),
        (gzip.compress(b"<html>" * 100, mtime=0), Reason.NOT_A_PDF),
    ],
)
def test_each_unreadable_fetched_pdf_ends_with_its_own_reason(body: bytes, reason: Reason) -> None:
    """Spec 1.6, 2.4."""
    assert refusal_of(body, URL, "application/pdf") is reason


def test_the_bytes_decide_what_is_a_pdf() -> None:
    """Spec 4.3: the name does not count."""
    for body in (WHOLE, b"\r\n\r\n" + WHOLE, b"\xef\xbb\xbf" + WHOLE, b" " * 1100 + WHOLE):
        page = normalize(body, "http://a.test/page.html", "text/html")
        assert page.normalizer == "pdf_v1"
        assert "nine regional offices" in page.article.text
    html = b"<!doctype html><html><p>A file begins with %PDF-1.4 and a line break.</p>" + b"<p>More.</p>" * 30
    assert normalize(html, URL, "application/pdf").normalizer == "html_v1"


def test_a_scan_is_an_article_without_text() -> None:
    """Spec 1.6: the document stays, with its status."""
    page = Page()
    page.picture(0, 0, WIDTH, HEIGHT)
    article = normalize(pdf([page], title="Order of the court"), URL, None).article
    assert (article.text, article.body_status, article.title) == ("", "scanned_no_text", "Order of the court")


def test_blank_pages_between_scanned_pages_are_part_of_a_scan() -> None:
    """Spec 1.6: only a file with empty pages alone is not a scan."""
    scan, drawn = Page(), Page()
    scan.picture(0, 0, WIDTH, HEIGHT)
    drawn.rule(72, 300, 300, 300)
    for pages in ([Page(), scan], [Page(), drawn, Page()]):
        assert extract_pdf(pdf(pages)).status is BodyStatus.SCANNED_NO_TEXT


def test_all_types_of_bytes_are_read_and_other_types_refused() -> None:
    for body in (bytearray(WHOLE), memoryview(WHOLE), memoryview(b"x" + WHOLE)[1:]):
        assert extract_pdf(body) == extract_pdf(WHOLE)
    for other in ("report.pdf", None, 7, Path("report.pdf")):
        with pytest.raises(TypeError, match="body must be bytes, not "):
            extract_pdf(other)  # type: ignore[arg-type]


def test_text_stays_text_in_markdown() -> None:
    """Spec 1.6: the content of a file is never markup."""
    page = Page()
    for number, line in enumerate(
        ("# one", "> two", "- three", "+ four", "5. five", "<script>6</script>", "*a* [x](y)")
    ):
        page.text(72, 80 + 40 * number, line)
    page.text(72, 400, "C #", 18)
    page.grid((72, 200, 300), (500, 518, 536), [("a|b", "`c`"), ("_d_", "<e>")])
    assert extract_pdf(pdf([page], title="A title")).markdown.split("\n\n") == [
        *("\\# one", "\\> two", "\\- three", "\\+ four", "5\\. five", "\\<script>6\\</script>"),
        *("\\*a\\* [x\\](y)", "# C \\#"),
        "| a\\|b | \\`c\\` |\n| --- | --- |\n| \\_d\\_ | \\<e> |",
    ]


def test_a_word_broken_at_the_end_of_a_line_is_joined() -> None:
    read = extract_pdf(pdf([page_of("The committee on inter-", "national trade met in a well-", "known place.")]))
    assert read.markdown == "The committee on international trade met in a wellknown place."


def test_rotated_text_is_read_like_other_text() -> None:
    page = Page(turned=True)
    page.prose(72, 80, REVIEW, 60)
    assert extract_pdf(pdf([page])).markdown == REVIEW


@pytest.mark.parametrize("lines", [["Exhibit {}"], ["Certificate", "Number {} is granted to the holder"]])
def test_pages_with_nearly_the_same_text_keep_it(lines: list[str]) -> None:
    """Spec 1.6: no page is only header and footer."""
    pages = []
    for number in range(1, 4):
        pages.append(Page())
        for place, line in enumerate(lines):
            pages[-1].text(72, 300 + 60 * place, line.format(number), 14)
    read = extract_pdf(pdf(pages))
    assert read.status is BodyStatus.OK
    assert all(line.format(number) in read.markdown for number in range(1, 4) for line in lines)


def test_ranks_in_a_table_are_not_line_numbers() -> None:
    page = Page()
    for number in range(12):
        for x, word in ((72, str(number + 1)), (160, f"Ward {number}"), (300, str(900 + number)), (400, "12.5")):
            page.text(x, 80 + 14 * number, word)
    assert extract_pdf(pdf([page])).markdown.splitlines()[3] == "| 2 | Ward 1 | 901 | 12.5 |"


def test_a_pdf_with_too_many_pages_has_its_own_status() -> None:
    """Spec 4.3: limits."""
    pages = MAX_PAGES + 1
    leaf = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>"
    kids = b" ".join(b"%d 0 R" % (number + 3) for number in range(pages))
    tree = b"<< /Type /Pages /Kids [%b] /Count %d >>" % (kids, pages)
    read = extract_pdf(pdf_file([b"<< /Type /Catalog /Pages 2 0 R >>", tree, *[leaf] * pages]))
    assert (read.status, read.page_count) == ("too_large", pages)
    assert Reason.of(read.status) is Reason.TOO_LARGE


def test_a_pdf_over_a_limit_has_the_text_of_its_first_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 24: too_large with the part that was read."""
    body = pdf([page_of(f"The first line of sheet {number}.") for number in range(5)])
    monkeypatch.setattr(pdf_v1, "MAX_WORDS", 14)
    read = extract_pdf(body)
    assert (read.status, read.page_count) == ("too_large", 5)
    assert read.markdown.count("The first line of sheet") == 2
    monkeypatch.undo()
    monkeypatch.setattr(pdf_v1, "MAX_PAGES", 3)
    assert extract_pdf(body).markdown.count("The first line of sheet") == 3


def test_a_drawing_of_many_lines_is_not_a_table() -> None:
    page = page_of("A grid of lines", "and a few words")
    for number in range(300):
        page.rule(2 * number, 0, 2 * number, HEIGHT)
        page.rule(0, 2.6 * number, WIDTH, 2.6 * number)
    assert extract_pdf(pdf([page])).markdown == "A grid of lines and a few words"


def test_nested_arrays_do_no_harm() -> None:
    body = WHOLE.replace(b"/Type /Catalog", b"/X " + b"[" * 50_000 + b"]" * 50_000 + b" /Type /Catalog")
    assert extract_pdf(body).status in BodyStatus


@settings(max_examples=60, deadline=None)
@given(start=st.integers(0, len(WHOLE) - 1), junk=st.binary(max_size=40))
def test_damage_anywhere_gives_a_status_and_never_an_error(start: int, junk: bytes) -> None:
    for body in (WHOLE[:start] + junk + WHOLE[start + len(junk) :], WHOLE[:start], WHOLE[:start] + WHOLE[start + 1 :]):
        read = extract_pdf(body)
        assert (read.status is BodyStatus.OK) == bool(read.markdown)


PLACES = st.floats(-900, 900)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(-900, 900), st.floats(-900, 900), st.text("ab1.-$% ", min_size=1, max_size=9), st.floats(0.1, 90)
        ),
        min_size=1,
        max_size=40,
    )
)
def test_words_at_random_positions_are_all_read(words: list[tuple[float, float, str, float]]) -> None:
    page = page_of("A line to begin with")
    for x, y, text, size in words:
        page.text(x, y, text, size)
    body = pdf([page])
    read = extract_pdf(body)
    assert read.status is BodyStatus.OK
    assert Counter("".join(read.markdown.split())) >= Counter("Alinetobeginwith")


def test_a_page_that_unpacks_to_too_much_text_is_too_large() -> None:
    """Spec 4.3: the limits also count unpacked text."""
    content = zlib.compress(b"BT /F1 9 Tf 12 TL 72 700 Td " + b"(a few words) Tj T* " * 40_000 + b"ET", 9)
    leaf = (
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R /Resources << /Font << /F1 3 0 R >> >>"
    )
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        leaf + b" >> >>",
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(content), content),
    ]
    read = extract_pdf(pdf_file(objects))
    assert (read.status, read.markdown) == ("too_large", "")


def test_a_small_ruled_table_right_above_another_stays_one() -> None:
    page = Page()
    for top in (100, 160):
        page.grid((72, 200, 300), (top, top + 18, top + 36), [("Name", "Figure"), ("Row", "12")])
    read = extract_pdf(pdf([page]))
    assert read.markdown == "\n\n".join(["| Name | Figure |\n| --- | --- |\n| Row | 12 |"] * 2)


def test_a_ruled_head_and_the_rows_below_it_are_one_table() -> None:
    page = Page()
    page.grid((72, 200, 300, 400), (100, 118), [("Item", "2023", "2022")])
    for number, words in enumerate((("Loans", "10,438", "154"), ("Other", "611", "551"), ("Net", "9,827", "-397"))):
        for x, word in zip((76, 204, 304), words, strict=True):
            page.text(x, 130 + 13 * number, word, 9)
    assert extract_pdf(pdf([page])).markdown.splitlines()[:3] == [
        "| Item | 2023 | 2022 |",
        "| --- | --- | --- |",
        "| Loans | 10,438 | 154 |",
    ]


def test_threads_may_read_at_the_same_time() -> None:
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(extract_pdf, [WHOLE] * 16))
    assert {document.markdown for document in read} == {extract_pdf(WHOLE).markdown}
