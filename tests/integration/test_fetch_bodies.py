"""The type of a page's bytes, and their limit (spec 4.3)."""

import codecs
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.canonical.operations import code_of
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from tests.harness import AppHarness, open_harness
from tests.interstitial_pages import interstitials
from tests.server import Answer, Site, page
from tests.short_articles import articles

HTML = {"Content-Type": "text/html; charset=utf-8"}
PAGE = "http://news.test/a"
INTERSTITIALS = {Reason.CHALLENGE, Reason.SOFT_404, Reason.LOGIN_WALL, Reason.COOKIE_WALL}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
POLISH = "Zażółć gęślą jaźń"


def in_polish(meta: str = "") -> str:
    return page(POLISH).replace("<head>", f"<head>{meta}")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (codecs.BOM_UTF16_LE + in_polish().encode("utf-16-le"), "text/html; charset=iso-8859-1"),
        (in_polish('<meta charset="utf-8">').encode("iso8859-2"), "text/html; charset=iso-8859-2"),
        (in_polish('<meta charset="windows-1250">').encode("cp1250"), "text/html"),
        (in_polish().encode(), "text/html"),
    ],
    ids=["byte order mark before header", "header before meta", "meta", "none of them"],
)
async def test_the_charset_is_the_marks_else_the_headers_else_the_pages_own(
    body: bytes, content_type: str, site: Site, harness: AppHarness
) -> None:
    site.answers[PAGE] = Answer(body, headers={"Content-Type": content_type})
    assert await harness.fetch(PAGE) == {PAGE: "stored"}
    document = await harness.document()
    assert document.title == POLISH
    assert POLISH in document.text


async def test_a_page_is_a_page_whatever_it_is_called(site: Site, harness: AppHarness) -> None:
    for number, content_type in enumerate(("image/png", "application/pdf", "application/octet-stream", "nonsense")):
        name = f"http://news.test/{number}.pdf"
        site.answers[name] = Answer(page(f"misnamed {number}"), headers={"Content-Type": content_type})
    assert await harness.fetch(*site.answers) == dict.fromkeys(site.answers, "stored")


NO_PAGES = {
    "png.html": (PNG, {"unsupported_type"}),
    "pdf.html": (b"%PDF-1.7\n" + b"x" * 500, {"broken"}),
    "gzip.html": (gzip.compress(page("twice packed").encode()), {"unsupported_type"}),
    "json.html": (b'{"title": "%s"}' % (b"x" * 500), {"unsupported_type"}),
    "binary.html": (bytes(range(256)) * 10, {"unsupported_type", "bad_html"}),
    "short.html": (b"<html>hi</html>", {"bad_html"}),
    "empty.html": (f"<html><body>{'<div></div>' * 100}</body></html>".encode(), {"empty_text"}),
}


async def test_an_unreadable_body_is_kept_and_ends_with_its_reason(
    site: Site, harness: AppHarness, tmp_path: Path
) -> None:
    """Spec 4.2: raw is stored first. Spec 5.3."""
    for name, (body, _) in NO_PAGES.items():
        site.answers[f"http://news.test/{name}"] = Answer(body, headers=HTML)
    outcomes = await harness.fetch(*site.answers)
    for name, (_, reasons) in NO_PAGES.items():
        assert outcomes[f"http://news.test/{name}"] in reasons
    assert await harness.operations.documents.count() == (0, 0)
    kept = [path.read_bytes() for path in (tmp_path / "data/corpus").rglob("raw/**/*") if path.is_file()]
    assert sorted(kept) == sorted(body for body, _ in NO_PAGES.values())


async def test_each_interstitial_is_recognized_and_an_article_about_one_is_kept(
    site: Site, harness: AppHarness
) -> None:
    """Issue 8, spec 5.3: an interstitial page is a reason, not a document."""
    expected = {f"http://wall{number}.test/": wall for number, wall in enumerate(list(interstitials())[::7])}
    assert {reason for _, reason, _ in expected.values()} == INTERSTITIALS
    site.answers |= {url: Answer(body, headers=HTML) for url, (_, _, body) in expected.items()}
    kept = {f"http://article{number}.test/": body for number, (_, body) in enumerate(list(articles())[::12])}
    site.answers |= {url: Answer(body, headers=HTML) for url, body in kept.items()}
    outcomes = await harness.fetch(*site.answers)
    seen = {url: (await harness.operations.why(url)).fetches for url in expected}
    assert {url: next(one.reason for one in fetches if one.attempt == 1) for url, fetches in seen.items()} == {
        url: reason for url, (_, reason, _) in expected.items()
    }
    # articles of the same text are one document
    assert {outcomes[url] for url in kept} <= {"stored", "linked"}


STORY = page("the flood").partition("<article>")[2]
HEAP_OF_MARKS = "\u0301\u0316" * 900_000
HOSTILE = {
    "deep": (b"<html><body>" + b"<div>" * 100_000 + STORY.encode(), "parse_failed", "FAIL_PARSE"),
    "fifty-megabytes": (b"<html><body><p>" + b"word " * 10_000_000, "body_too_large", "FAIL_BAD_HTML"),
    "jpeg": (b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(range(256)) * 40, "unsupported_type", "FAIL_BAD_HTML"),
    "iframes": (b"<html><body>" + b"<iframe src=/a></iframe>" * 10_000, "empty_text", "FAIL_EMPTY"),
    "nuls": (page("NULs").replace("report", "re\0port").encode(), "stored", None),
    "surrogates": (page("surrogates").replace("report", "re\ud800port").encode(errors="surrogatepass"), "stored", None),
    "charset": (page("Häfen").encode("cp1252"), "stored", None),
    "title": (f"<title>{'a - b | ' * 1_000_000}</title>{STORY.replace('flood', 'title')}".encode(), "stored", None),
    "marks": (f"<p>e{HEAP_OF_MARKS}{STORY}".encode(), "stored", None),
    "iframes-and-a-story": (f"<html><body>{'<iframe></iframe>' * 10_000}<p>{STORY}".encode(), "stored", None),
}


async def test_hostile_pages_end_with_their_reason_and_code_and_the_next_page_is_read(
    site: Site, harness: AppHarness
) -> None:
    """Issue 8, spec 5.3: by one and the same crew and its children."""
    for name, (body, _, _) in HOSTILE.items():
        site.answers[f"http://{name}.test/a"] = Answer(body, headers=HTML)
    outcomes = await harness.fetch(*site.answers)
    assert outcomes == {f"http://{name}.test/a": reason for name, (_, reason, _) in HOSTILE.items()}
    for _, reason, code in HOSTILE.values():
        assert code is None or code_of(Reason(reason)) == code
    texts = [document.text for document in (await harness.documents()).values()]
    assert all(line.isprintable() for text in texts for line in text.split("\n"))
    site.answers[PAGE] = Answer(page("all is well"), headers=HTML)
    assert (await harness.fetch(PAGE))[PAGE] == "stored"


async def test_a_body_over_the_cap_is_not_taken(
    site: Site, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    """Neither as it is sent nor as it is unpacked."""
    fits = page("it fits", extra=f"<!-- {'x' * 900_000} -->").encode()
    huge = fits + b"x" * 200_000
    packed = {**HTML, "Content-Encoding": "gzip"}
    site.answers["http://news.test/huge"] = Answer(huge, headers=HTML)
    site.answers["http://news.test/bomb"] = Answer(gzip.compress(huge), headers=packed)
    site.answers["http://news.test/fits"] = Answer(gzip.compress(fits), headers=packed)
    async with open_harness(make_settings(connect_to=site.connect_to, max_body_mb=1)) as harness:
        assert await harness.fetch(*site.answers) == {
            "http://news.test/huge": "body_too_large",
            "http://news.test/bomb": "body_too_large",
            "http://news.test/fits": "stored",
        }
    assert len([path for path in (tmp_path / "data/corpus").rglob("raw/**/*") if path.is_file()]) == 1


async def test_a_body_that_cannot_be_unpacked_ends_the_url(site: Site, harness: AppHarness) -> None:
    site.answers[PAGE] = Answer(b"not gzip at all", headers={**HTML, "Content-Encoding": "gzip"})
    assert await harness.fetch(PAGE) == {PAGE: "bad_encoding"}


@pytest.mark.both_servers
async def test_a_huge_or_hostile_text_is_stored_and_searchable(site: Site, harness: AppHarness) -> None:
    """No character of a text breaks the write of it."""
    words = " ".join(f"w{number:x}ord" for number in range(300_000))
    site.answers[PAGE] = Answer(
        f"<html><body><article><h1>Huge</h1><p>{words}</p><p>nul \0 &#0; &#xD800; end.</p></article></body></html>",
        headers=HTML,
    )
    assert await harness.fetch(PAGE) == {PAGE: "stored"}
    assert len((await harness.operations.search.find("w1ord")).hits) == 1
