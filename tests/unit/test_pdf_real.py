"""Real PDFs (spec 1.6). The tests run if their folder exists."""

import functools
import os
from pathlib import Path

import pytest
from bench.pdf_words import broken_joints, missing_words

from headwater import BodyStatus, PdfDocument, extract_pdf

CORPORA = Path(os.environ.get("HEADWATER_CORPORA", Path(__file__).parents[3] / "shared" / "corpora"))
PDFS = Path(os.environ.get("HEADWATER_PDFS", CORPORA.parent / "pdfs"))
ENOUGH = 0.98  # of the words that pdfium sees

needs_pdfs = pytest.mark.skipif(not PDFS.is_dir(), reason="no real PDFs: set HEADWATER_PDFS")
REAL = sorted(PDFS.rglob("*.pdf"))
ADVERSARIAL = {
    "gzip-html-404": "not_a_pdf",
    "horrors_corruptionOneByteMissing": "ok",
    "horrors_encryption_notextaccess": "ok",
    "horrors_encryption_openpassword": "encrypted",
    "malformed-from-issue-932": "scanned_no_text",
    "ocrmypdf_invalid_header-only": "broken",
    "ocrmypdf_truetype_font_nomapping": "scanned_no_text",
    "password-example": "encrypted",
    "zero-bytes": "not_a_pdf",
}


@functools.cache
def read_once(file: Path) -> PdfDocument:
    return extract_pdf(file.read_bytes())


@needs_pdfs
@pytest.mark.parametrize("file", REAL, ids=lambda file: file.stem)
def test_a_real_file_keeps_its_words(file: Path) -> None:
    """Spec 1.6: 98 % of the words that pdfium sees are in the text, except headers, footers and line numbers."""
    read = read_once(file)
    if file.parent.name == "scanned":
        assert (read.status, read.markdown) == ("scanned_no_text", "")
    if file.parent.name == "adversarial":
        assert [read.status] == [status for name, status in ADVERSARIAL.items() if file.name.startswith(name)]
    if read.status is not BodyStatus.OK:
        return
    missing, wanted = missing_words(file.read_bytes(), read.markdown)
    assert missing.total() <= (1 - ENOUGH) * wanted, missing.most_common(9)


COLUMNS = [file for file in REAL if file.parent.name == "multi-column"]


@needs_pdfs
@pytest.mark.parametrize("file", COLUMNS, ids=lambda file: file.stem)
def test_columns_of_a_real_file_are_not_interleaved(file: Path) -> None:
    """Spec 1.6: successive lines of a column are successive in the text, except next to notes or figures."""
    broken, joints = broken_joints(file.read_bytes(), read_once(file).markdown)
    assert joints > 100
    assert len(broken) <= 0.04 * joints, broken[:9]


@needs_pdfs
@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("icdar-us-017", "| 1996 | 51,544 | 37,481 | 14,062 | 45,611 | 32,762 | 12,849 | 5,933 | 4,719 | 1,213 |"),
        (
            "icdar-us-017",
            "| Year | Total PK\u201312 | Total PK\u20138 | Total 9\u201312 | Public PK\u201312",
        ),
        ("icdar-us-020", "| Austria | 100 | 5 | 100 | 100 | 98 | 98 |"),
        (
            "census-stat-abstract-s22_govdocs268346",
            "| Sewing, needlework, & piece goods stores | 45113 | 6,590",
        ),
        ("fed-report-to-congress-2023", "| SOMA interest income | 164,087 | 169,979 |"),
        # The heads and rows below were compared with rendered pages (issue 24).
        (
            "icdar-us-020",
            "| National desired population overall exclusion rate | Weighted school participation rate before",
        ),
        ("icdar-us-017", "| Year | Total | PK | K | 1 | 2 | 3 | 4 | 5 | 6 |"),
        (
            "census-stat-abstract-s22_govdocs268346",
            "| Clothing and accessories (NAICS 448) | Sporting goods, hobby, book, & music stores (NAICS 451) |",
        ),
        (
            "census-stat-abstract-s22_govdocs268346",
            "| Sales Per paid employee (dol.) | Annual payroll Total (mil. dol.) | Annual payroll Per paid",
        ),
        (
            "census-stat-abstract-s22_govdocs268346",
            "| Shipments (mil. dol.) 2000 | Quantity (mil.) 1995 | Quantity (mil.) 1998 |",
        ),
        ("census-stat-abstract-s22_govdocs268346", "| WY | 6,083 | 6,565 | 1,804 | 114 | 96 | 587 | 947 | 114 |"),
        (
            "fed-report-to-congress-2023",
            "| Variance 2023 actual to 2023 budget Amount | Variance 2023 actual to 2023 budget Percent |",
        ),
        (
            "fed-report-to-congress-2023",
            "| Consumer Financial Protection Bureau5 | 720,500 | 30,737 | 251,488 | 25,725 | 72,033 | 144,244 |",
        ),
        ("icdar-us-036-ed-student-loans", "| Tuition | The cost of taking a course varies from school to school."),
    ],
)
def test_rows_of_real_tables_are_rows(name: str, row: str) -> None:
    """Spec 1.6: tables as GFM pipe tables."""
    (file,) = (file for file in REAL if file.stem == name)
    assert row in read_once(file).markdown


@needs_pdfs
@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("cfr-21-pt1308-2000_govdocs303226", "PART 1308\u2014SCHEDULES OF CONTROLLED SUBSTANCES"),
        ("scotus-transcript-p1", "IN THE SUPREME COURT OF THE UNITED STATES"),
        ("loc-law-library-iraq-2004_govdocs504076", "IRAQ: LEGAL HISTORY AND TRADITIONS"),
        ("gpo-billstatus-slides-2016", "Bulk Data Task Force Meeting April 27, 2016"),
        ("fed-report-to-congress-2023", "Annual Report, 2023"),
    ],
)
def test_real_titles_are_found(name: str, title: str) -> None:
    (file,) = (file for file in REAL if file.stem == name)
    assert read_once(file).title == title
