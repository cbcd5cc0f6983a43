"""The pages of a document: text, fields, revisions, differences and raw file (spec 4.4, 8.4)."""

from collections.abc import AsyncIterator, Callable

import pytest

from headwater.core.settings import Settings
from tests.api import TOKEN, Api
from tests.harness import open_harness
from tests.integration.test_pages import check_page
from tests.pages import Page, Reader, open_reader
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
URL = "http://news.test/a"
HTML = {"Content-Type": "text/html"}
COSTS = (
    "<p>The weir costs {} million &lt;script&gt;, which the council takes from its savings of the last "
    "ten years and from a grant of the region, as it reported in the spring.</p>"
)


@pytest.fixture
async def page_settings(site: Site, make_settings: Callable[..., Settings]) -> Settings:
    """Settings of a database with a document of two revisions."""
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    site.answers[FEED] = rss(URL)
    site.answers[URL] = Answer(page("river", extra=COSTS.format(12)), headers=HTML)
    async with open_harness(settings) as harness:
        await harness.operations.sources.add(FEED)
        await harness.work()
        site.answers[URL] = Answer(page("river", extra=COSTS.format(15)), headers=HTML)
        await harness.operations.frontier.retry([URL])
        await harness.work()
        await harness.execute("UPDATE documents SET image = 'javascript:alert(1)', byline = E'A \\u202e<b>'")
    return settings


@pytest.fixture
async def reader(page_settings: Settings) -> AsyncIterator[Reader]:
    async with open_reader(page_settings) as opened:
        yield opened


async def open_document(reader: Reader) -> Page:
    """Follow the first line of Today."""
    day = await reader.get("/ui/days/2026-03-12")
    (path, *_) = day.links(".lines a").values()
    return await reader.get(path)


async def test_a_document_shows_its_text_as_markdown_and_the_origin_of_its_fields(reader: Reader) -> None:
    shown = await open_document(reader)
    while "shown without its form" in shown.text:  # the first child process of a busy machine starts slowly
        shown = await open_document(reader)
    check_page(shown)
    assert shown.texts("h1") == ["river"]
    assert any("15 million <script>, which" in text for text in shown.texts(".text p"))
    fields = {row.css_first("th").text(): row.css("td")[-1].text() for row in shown.tree.css("tbody tr")}
    assert fields["Title"].endswith("%")
    assert "A <b>" in shown.texts(".document-meta bdi")
    assert shown.links("aside a")["Original page"] == URL
    assert "Lead picture" not in shown.links()
    assert shown.texts("aside .plain-list bdi") == ["news.test"]


async def test_a_document_leads_to_what_changed(reader: Reader) -> None:
    shown = await open_document(reader)
    shown = await reader.get(shown.links("aside a")["What changed"])
    check_page(shown)
    assert "12" in shown.texts("del")[0]
    assert "15" in shown.texts("ins")[0]
    assert shown.texts("select[name=to] option[selected]") == ["2"]


async def test_a_raw_file_is_only_a_download(reader: Reader) -> None:
    """The bytes are from outside: no browser may show or run them as a page of ours."""
    path = (await open_document(reader)).links("aside a")
    (raw,) = [address for label, address in path.items() if label.startswith("Raw file")]
    for address in (raw, raw.removeprefix("/ui")):
        async with reader.session.get(reader.base + address) as response:
            assert response.headers["Content-Type"] == "application/octet-stream"
            assert response.headers["Content-Disposition"].startswith('attachment; filename="document-')
            assert response.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert b"15 million" in await response.read()


async def test_the_api_returns_the_trace_of_a_document(reader: Reader) -> None:
    api = Api(reader.session, reader.base)
    number = (await open_document(reader)).links("aside a")["JSON"].rpartition("/")[2]
    status, trace = await api.get(f"/documents/{number}/trace")
    assert status == 200
    assert [sighting["source"] for sighting in trace["sightings"]] == ["news.test"]
    assert (await api.get("/documents/999/trace"))[0] == 404
    assert (await api.get("/documents/999/raw"))[0] == 404


async def test_a_document_without_its_raw_file_shows_its_stored_text(reader: Reader, page_settings: Settings) -> None:
    for path in (page_settings.data_dir / "corpus").rglob("*"):
        if path.is_file():
            path.write_bytes(b"another")
    shown = await open_document(reader)
    assert shown.status == 200
    assert any("15 million <script>, which" in text for text in shown.texts(".text p"))
    assert (await reader.get(shown.links("aside a")["JSON"] + "/raw")).status == 500


async def test_a_long_document_has_parts_that_fit_a_page(reader: Reader, page_settings: Settings) -> None:
    async with open_harness(page_settings) as harness:
        await harness.execute("UPDATE texts SET body = repeat('<b>&\"word\"' || chr(10), 100000)")
        await harness.execute("UPDATE documents SET normalizer = 'pdf_v1', artifacts = $1", ARTIFACTS)
    shown = await open_document(reader)
    check_page(shown)
    check_page(await reader.get("/ui/documents/1" + shown.links()["Next part"]))
    last = await reader.get("/ui/documents/1?part=99999")
    check_page(last)
    assert last.texts("article h2") == ["Table <1>"]


ARTIFACTS = [{"name": "Table <1>", "page": 3, "why": "wide", "rows": [["<i>", None, "x" * 5000]] * 1000}]


async def test_an_unknown_document_is_a_page_of_404(reader: Reader) -> None:
    for path in ("/ui/documents/999", "/ui/documents/999/diff", "/ui/documents/999/raw"):
        shown = await reader.get(path)
        assert shown.status == 404
        check_page(shown)
    assert (await reader.get("/ui/documents/0")).status == 422
    assert (await reader.get("/ui/documents/1/diff?from=7")).status == 404
