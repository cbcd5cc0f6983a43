"""Hostile documents are read within limits, have their own status, and keep row and bytes (issue 10, spec 4.3)."""

import functools
import json
import re
import resource
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.core.settings import Settings
from headwater.extraction.article import BodyStatus
from tests.harness import open_harness
from tests.program import headwater
from tests.server import Answer, Site, page
from tests.unit.pdf_writer import pdf_file

MIB = 1024 * 1024
AS_PDF = {"Content-Type": "application/pdf"}
DOCS = (Path(__file__).parents[2] / "docs/pdf.md").read_text()
STATUSES = set(re.findall(r"(?m)^\| `(\w+)` \|", DOCS.partition("## Statuses")[2].partition("\n## ")[0])) - {
    "body_status"
}
LONGEST = 10.0  # seconds of CPU time of all processes


def worked() -> float:
    """Return the seconds of work of all processes that have been started here and have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def one_page(contents: bytes, resources: bytes = b"", catalog: bytes = b"", *more: bytes) -> bytes:
    """A PDF whose further objects have numbers from five on."""
    return pdf_file(
        [
            b"<< /Type /Catalog /Pages 2 0 R %b >>" % catalog,
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << %b >> >>" % resources,
            stream(contents),
            *more,
        ]
    )


def stream(content: bytes, words: bytes = b"") -> bytes:
    return b"<< /Length %d %b >>\nstream\n%b\nendstream" % (len(content), words, content)


def font_bomb() -> bytes:
    """A font of 700 MB, packed into less than one."""
    font = (
        b"<< /Type /Font /Subtype /TrueType /BaseFont /X /FirstChar 32 /LastChar 126 "
        b"/FontDescriptor << /Type /FontDescriptor /FontName /X /Flags 32 /FontFile2 6 0 R >> >>"
    )
    packed = packed_zeros(700)
    words = b"BT /F1 9 Tf 72 700 Td (words) Tj ET"
    return one_page(words, b"/Font << /F1 5 0 R >>", b"", font, stream(packed, b"/Filter /FlateDecode"))


def packed_zeros(megabytes: int) -> bytes:
    """Compressed zeros. Only the first two megabytes are computed, because all others equal the second."""
    packer = zlib.compressobj(9)
    first, next_one = (packer.compress(bytes(1_000_000)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    checksum = (megabytes * 1_000_000 % 65521 << 16) + 1
    return first + next_one * (megabytes - 1) + packer.flush()[:-4] + checksum.to_bytes(4, "big")


def forms(depth: int) -> bytes:
    """Forms that each show the next one twice."""
    words = b"/Type /XObject /Subtype /Form /BBox [0 0 9 9]"
    inner = [
        stream(b"/F Do /F Do", words + b" /Resources << /XObject << /F %d 0 R >> >>" % (6 + number))
        for number in range(depth)
    ]
    return one_page(b"/F Do", b"/XObject << /F 5 0 R >>", b"", *inner, stream(b"0 0 1 1 re f", words))


def many_pages(count: int) -> bytes:
    return pdf_file(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [%b] /Count %d >>" % (b"3 0 R " * count, count),
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] >>",
        ]
    )


def bill_of(version: str) -> bytes:
    padding = f"<title>Ferry Act</title><notes>{'x' * 200}</notes>"
    bill = f"<bill><number>7</number><type>HR</type><congress>119</congress>{padding}</bill>"
    return f"<billStatus><version>{version}</version>{bill}</billStatus>".encode()


NESTED = b"[" * MIB + b"]" * MIB
WORDS = b"BT /F1 9 Tf 72 700 Td (Ferries cross the river at noon.) Tj ET"
FONT = b"/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
# Each document with the reason of its URL and the status that `headwater normalize` shows.
BAD: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "a font bomb": (font_bomb, "sandbox_memory", "too_large"),
    "forms in forms": (lambda: forms(28), "sandbox_memory", "too_large"),
    "nested arrays": (lambda: one_page(WORDS, FONT, b"/X " + NESTED), "stored", "ok"),
    "nested arrays on a page": (lambda: one_page(WORDS + b" " + NESTED + b" TJ", FONT), "stored", "ok"),
    "nested arrays for pages": (
        lambda: pdf_file([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids %b /Count 1 >>" % NESTED]),
        "broken",
        "broken",
    ),
    "10,000 pages": (lambda: many_pages(10_000), "too_large", "too_large"),
    "a bill of an unknown schema": (lambda: bill_of("9.0.0"), "unknown_schema", "unknown_schema"),
}


@functools.cache
def body_of(name: str) -> bytes:
    return BAD[name][0]()


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_document_ends_with_its_reason_and_keeps_its_bytes(
    name: str, site: Site, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    _, reason, _ = BAD[name]
    body = body_of(name)
    bad, good = "http://a.test/report", "http://a.test/page"
    site.answers[bad] = Answer(body, headers=AS_PDF if body.startswith(b"%PDF") else {"Content-Type": "text/xml"})
    site.answers[good] = Answer(page("a matter"), headers={"Content-Type": "text/html"})
    settings = make_settings(connect_to=site.connect_to, max_retries=1, lease_seconds=60, sandbox_workers=1)
    async with open_harness(settings) as harness:
        assert await harness.fetch(bad) == {bad: reason}
        assert await harness.fetch(good) == {bad: reason, good: "stored"}
    kept = [path.read_bytes() for path in (tmp_path / "data/corpus").rglob("raw/**/*") if path.is_file()]
    assert body in kept


@pytest.mark.parametrize("name", BAD)
def test_normalize_shows_the_status_of_a_bad_document(name: str, tmp_path: Path) -> None:
    """Spec 8.2: the JSON has a status of docs/pdf.md, and the reason that ends the URL."""
    _, reason, status = BAD[name]
    (tmp_path / "file").write_bytes(body_of(name))
    before = worked()
    done = headwater("normalize", "file", "--json", cwd=tmp_path, started=True)
    assert 0.1 < worked() - before < LONGEST
    shown = json.loads(done.stdout)
    if status == "ok":
        assert (shown["status"], shown["reason"], shown["text"]) == ("ok", None, "Ferries cross the river at noon.")
    else:
        assert (shown["status"], shown["reason"], shown["text"]) == (status, reason, "")
        assert shown["message"].endswith((".", ")"))
    assert status in STATUSES or not body_of(name).startswith(b"%PDF")


async def test_a_timeout_of_a_document_is_not_reported_as_a_crash(
    site: Site, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    url, body = "http://a.test/report.pdf", forms(28)  # for which a second is not enough
    site.answers[url] = Answer(body, headers=AS_PDF)
    settings = make_settings(connect_to=site.connect_to, max_retries=1, sandbox_timeout_seconds=0.1)
    async with open_harness(settings) as harness:
        assert await harness.fetch(url) == {url: "sandbox_timeout"}
    assert [path.read_bytes() for path in (tmp_path / "data/corpus").rglob("raw/**/*") if path.is_file()] == [body]
    (tmp_path / "file.pdf").write_bytes(body)
    shown = json.loads(headwater("normalize", "file.pdf", "--json", cwd=tmp_path, sandbox_timeout_seconds=0.1).stdout)
    assert (shown["status"], shown["reason"]) == ("too_large", "sandbox_timeout")


def test_every_status_of_a_pdf_is_covered() -> None:
    assert set(map(str, BodyStatus)) <= STATUSES
