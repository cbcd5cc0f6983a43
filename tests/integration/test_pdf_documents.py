"""Fetched PDFs (spec 1.6, 4.2), and `headwater normalize` (spec 8.2)."""

import gzip
import json
import os
import signal
from pathlib import Path

import pytest

from headwater.db.documents import Document
from tests.harness import AppHarness
from tests.integration.test_verify import verify
from tests.program import forked, headwater
from tests.server import Answer, Site, page
from tests.unit.pdf_sheets import REVIEW, SAMPLES
from tests.unit.pdf_writer import HEIGHT, WIDTH, Page, page_of, pdf
from tests.unit.test_pdf_v1 import LOCKED

AS_PDF = {"Content-Type": "application/pdf"}


async def documents_of(harness: AppHarness) -> list[Document]:
    operations = harness.operations.documents
    return [await operations.get(line.id) for line in (await operations.list_page()).documents]


def scan(stamp: str = "") -> bytes:
    sheet = Page()
    sheet.picture(0, 0, WIDTH, HEIGHT)
    if stamp:
        sheet.text(72, 30, stamp)
    return pdf([sheet], title=f"Order {stamp}")


async def test_a_fetched_pdf_becomes_a_document(site: Site, harness: AppHarness) -> None:
    """Spec 1.6."""
    site.answers["http://a.test/report"] = Answer(SAMPLES["gao_columns"](), headers=AS_PDF)
    assert await harness.fetch("http://a.test/report") == {"http://a.test/report": "stored"}
    (document,) = await documents_of(harness)
    assert document.title == "Contract Oversight Needs a Common System"
    assert (document.body_status, document.normalizer, document.artifacts) == ("ok", "pdf_v1", [])
    assert REVIEW in document.text
    (hit,) = (await harness.operations.search.find("internal control")).hits
    assert hit.url == "http://a.test/report"


async def test_artifacts_are_kept_with_their_document(site: Site, harness: AppHarness) -> None:
    """Spec 1.6."""
    site.answers["http://a.test/ld"] = Answer(SAMPLES["lda_complex"](), headers=AS_PDF)
    await harness.fetch("http://a.test/ld")
    (document,) = await documents_of(harness)
    (table,) = document.artifacts
    assert (table["name"], table["page"], table["why"]) == ("table-1", 1, "over 20 columns")
    assert table["rows"][0][:2] == ["Name", "M1"]


async def test_a_pdf_that_is_too_large_is_a_document_of_its_first_pages(site: Site, harness: AppHarness) -> None:
    """Issue 24: the text of the pages before the limit is stored, and verify derives it again."""
    url = "http://a.test/long"
    site.answers[url] = Answer(pdf([page_of(f"This is sheet {number}.") for number in range(1, 1502)]), headers=AS_PDF)
    assert await harness.fetch(url) == {url: "stored"}
    (document,) = await documents_of(harness)
    assert document.body_status == "too_large"
    assert "This is sheet 1500." in document.text
    assert "This is sheet 1501." not in document.text
    assert (await verify(harness)).wrong == 0


async def test_a_scan_is_a_document_with_its_status(site: Site, harness: AppHarness) -> None:
    """Spec 1.6: many scans are one empty text, but a document each."""
    urls = [f"http://{name}.test/order.pdf" for name in "ab"]
    for url in urls:
        site.answers[url] = Answer(scan(f"Filed: {url[7]}"), headers=AS_PDF)
    assert await harness.fetch(*urls) == dict.fromkeys(urls, "scanned_no_text")
    found = [(one.title, one.text, one.body_status, one.normalizer) for one in await documents_of(harness)]
    assert sorted(found) == [(f"Order Filed: {name}", "", "scanned_no_text", "pdf_v1") for name in "ab"]
    assert (await verify(harness)).findings == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (LOCKED, "encrypted"),
        (b"%PDF-1.7\n" + b"x" * 500, "broken"),
        (b"", "not_a_pdf"),
        (gzip.compress(page("gone").encode(), mtime=0), "not_a_pdf"),
    ],
)
async def test_an_unreadable_pdf_keeps_its_raw_file_and_ends_with_its_reason(
    body: bytes, reason: str, site: Site, harness: AppHarness, tmp_path: Path
) -> None:
    """Spec 1.6, 4.2."""
    url = "http://a.test/report.pdf"
    site.answers[url] = Answer(body, headers=AS_PDF)
    assert await harness.fetch(url) == {url: reason}
    kept = [path.read_bytes() for path in (tmp_path / "data/corpus").rglob("raw/**/*") if path.is_file()]
    assert kept == [body]


async def test_a_text_that_becomes_a_scan_stays_as_a_revision(site: Site, harness: AppHarness) -> None:
    """Spec 4.4."""
    url = "http://a.test/report.pdf"
    site.answers[url] = Answer(SAMPLES["cbo_simple"](), headers=AS_PDF)
    await harness.fetch(url)
    site.answers[url] = Answer(scan(), headers=AS_PDF)
    await harness.operations.frontier.retry([url])
    await harness.work()
    assert await harness.outcomes() == {url: "scanned_no_text"}
    (document,) = await documents_of(harness)
    assert (document.revision, document.body_status) == (2, "scanned_no_text")


def normalized(file: Path, *words: str) -> tuple[int, dict[str, object]]:
    done = headwater("normalize", str(file), "--json", *words, cwd=file.parent)
    return done.returncode, json.loads(done.stdout)


def test_normalize_shows_a_pdf_without_a_database(tmp_path: Path) -> None:
    """Spec 8.2."""
    file = tmp_path / "report"
    file.write_bytes(SAMPLES["lda_complex"]())
    code, shown = normalized(file)
    assert (code, shown["normalizer"], shown["status"], shown["page_count"]) == (0, "pdf_v1", "ok", 1)
    assert str(shown["markdown"]).startswith("Issues related to")
    assert len(shown["artifacts"]) == 1  # type: ignore[arg-type]
    told = headwater("normalize", str(file), cwd=tmp_path)
    assert told.returncode == 0
    assert "Issues related to freight rail safety" in told.stdout
    assert "table-1 (page 1: over 20 columns)" in told.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report"]


def test_normalize_shows_a_page(tmp_path: Path) -> None:
    """Spec 8.2."""
    file = tmp_path / "page.pdf"
    file.write_text(page("a matter"))
    code, shown = normalized(file, "--url", "http://a.test/x")
    assert (code, shown["normalizer"], shown["status"]) == (0, "html_v1", "ok")
    assert "a matter" in str(shown["text"])


def test_normalize_prints_only_the_markdown_of_a_page(tmp_path: Path) -> None:
    """Issue 8."""
    file = tmp_path / "page"
    file.write_text(page("a matter", extra="<h2>What is next</h2><ul><li>A hearing in the old hall.</li></ul>"))
    done = headwater("normalize", "page", "--markdown", cwd=tmp_path)
    assert done.stdout.startswith("The report on a matter was")
    assert done.stdout.endswith("## What is next\n\n- A hearing in the old hall.\n")
    assert "## What is next" in json.loads(headwater("normalize", "page", "--json", cwd=tmp_path).stdout)["markdown"]


@pytest.mark.parametrize(("body", "status", "code"), [(scan(), "scanned_no_text", 0), (b"nothing", "bad_html", 1)])
def test_normalize_reports_on_stderr_why_there_is_no_markdown(
    body: bytes, status: str, code: int, tmp_path: Path
) -> None:
    """Spec 8.2: a script that redirects the output gets Markdown or an empty file."""
    (tmp_path / "page").write_bytes(body)
    done = headwater("normalize", "page", "--markdown", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert f"status   {status}" in done.stderr


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [(LOCKED, "encrypted", 1), (b"%PDF-1.7 x", "broken", 1), (b"", "not_a_pdf", 1), (scan(), "scanned_no_text", 0)],
)
def test_normalize_reports_why_there_is_no_text(body: bytes, status: str, code: int, tmp_path: Path) -> None:
    """Spec 1.6, 8.2."""
    file = tmp_path / "file.pdf"
    file.write_bytes(body)
    ended, shown = normalized(file)
    assert (ended, shown["status"], shown["markdown"]) == (code, status, "")
    assert shown["message"]


SHAPE = {
    *("file", "normalizer", "status", "reason", "message", "page_count", "text", "markdown", "title", "byline"),
    *("published_at", "updated_at", "language", "region", "image", "abstract", "canonical_url", "artifacts"),
    *("provenance", "confidence", "body_status", "page_kind"),
}


@pytest.mark.parametrize(
    "body",
    [
        SAMPLES["cbo_simple"](),
        scan(),
        LOCKED,
        page("a matter").encode(),
        b"<NOTICE><SUBJECT>Locks</SUBJECT><P>They open at six.</P></NOTICE>",
        b"<billStatus><version>9.0.0</version></billStatus>",
        b"\x89PNG, and nothing to read",
    ],
    ids=["a PDF", "a scan", "a locked PDF", "a page", "XML", "XML of an unknown schema", "a picture"],
)
def test_normalize_prints_the_same_json_fields_for_every_file(body: bytes, tmp_path: Path) -> None:
    """Spec 8.2."""
    file = tmp_path / "file"
    file.write_bytes(body)
    done = headwater("normalize", str(file), "--json", cwd=tmp_path)
    shown = json.loads(done.stdout)
    assert shown.keys() == SHAPE
    assert bool(shown["text"]) == bool(shown["markdown"]) == (shown["reason"] is None) == (shown["status"] == "ok")


def test_normalize_reads_standard_input_and_pipes_to_their_end(tmp_path: Path) -> None:
    """Spec 8.2."""
    given = headwater("normalize", "-", "--json", cwd=tmp_path, given=page("a matter").encode())
    shown = json.loads(given.stdout)
    assert (given.returncode, shown["file"], shown["status"]) == (0, "standard input", "ok")
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    with forked("normalize", str(fifo), "--json", cwd=tmp_path) as process:
        fifo.write_bytes(page("another matter").encode())
        said, _ = process.communicate(timeout=60)
    assert "another matter" in json.loads(said)["text"]


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_normalize_of_a_silent_pipe_ends_on_a_signal(stop: signal.Signals, tmp_path: Path) -> None:
    """Spec 8.2: at once, and by one signal."""
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    with forked("normalize", str(fifo), cwd=tmp_path) as process, fifo.open("wb"):  # opening waits for a reader
        process.send_signal(stop)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (128 + stop, "headwater: stopped.\n")


@pytest.mark.parametrize("url", ["not an address", "http://[", "ftp://a.test/x", "http://a.test:0x/"])
def test_normalize_refuses_an_invalid_address_and_names_the_option(url: str, tmp_path: Path) -> None:
    """Spec 8.2."""
    (tmp_path / "page").write_text(page("a matter"))
    done = headwater("normalize", "page", "--url", url, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("headwater: --url: ")


def test_normalize_refuses_an_endless_device(tmp_path: Path) -> None:
    """Spec 8.2."""
    done = headwater("normalize", "/dev/zero", cwd=tmp_path, max_body_mb=1)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "headwater: /dev/zero has over 1 MB; the setting max_body_mb allows no more.\n"


def test_normalize_reports_the_problem_of_a_file_name(tmp_path: Path) -> None:
    missing = headwater("normalize", "nowhere.pdf", cwd=tmp_path)
    words = "headwater: nowhere.pdf cannot be read: No such file or directory.\n"
    assert (missing.returncode, missing.stderr) == (2, words)
    folder = headwater("normalize", str(tmp_path), cwd=tmp_path)
    assert (folder.returncode, "Is a directory" in folder.stderr) == (2, True)
