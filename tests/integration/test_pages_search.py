"""The pages Search and Why (spec 8.3, 8.4)."""

from collections.abc import AsyncIterator, Callable

import pytest

from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from tests.api import TOKEN
from tests.harness import open_harness
from tests.integration.test_pages import CALM_TITLE, HOSTILE_TITLE, check_page
from tests.pages import Reader, open_reader
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
BLOCKED = "http://news.test/private/a"
HTML = {"Content-Type": "text/html"}


@pytest.fixture
async def page_settings(site: Site, make_settings: Callable[..., Settings]) -> Settings:
    """Settings of a database with 21 documents about rivers, one about roads, and a page that robots.txt forbids."""
    links = [f"http://news.test/{number}" for number in range(22)]
    site.answers[FEED] = rss(*links, BLOCKED)
    site.answers["http://news.test/robots.txt"] = Answer("User-agent: *\nDisallow: /private/")
    for number, link in enumerate(links):
        site.answers[link] = Answer(page(f"roads {number}" if number == 21 else f"river {number}"), headers=HTML)
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        await harness.operations.sources.add(FEED)
        await harness.work()
        await harness.execute("UPDATE documents SET title = $1 WHERE title = 'roads 21'", HOSTILE_TITLE)
        await harness.execute("UPDATE texts SET body = body || ' ⟦x⟧ <img src=x>' WHERE body LIKE '%roads%'")
    return settings


@pytest.fixture
async def reader(page_settings: Settings) -> AsyncIterator[Reader]:
    async with open_reader(page_settings) as opened:
        yield opened


async def test_hits_are_marked_and_counted_in_pages(reader: Reader) -> None:
    shown = await reader.get("/ui/search?q=river")
    check_page(shown)
    assert len(shown.tree.css(".hits > li")) == 20
    assert set(shown.texts(".hits mark")) == {"river"}
    assert shown.texts(".search-total")[0].startswith("21 documents match")
    shown = await reader.get(shown.links()["Next page"])
    check_page(shown)
    assert len(shown.tree.css(".hits > li")) == 1
    assert "Next page" not in shown.links()
    shown = await reader.get((await reader.get("/ui/search?q=river")).links()["Newest first"])
    assert "Best first" in shown.links()
    assert shown.links()["Next page"].startswith("/ui/search?q=river&sort=newest&cursor=")


async def test_a_part_of_a_search_that_cannot_be_understood_is_named(reader: Reader) -> None:
    shown = await reader.get("/ui/search?q=river before:soon")
    check_page(shown)
    assert shown.texts("[role=alert]")[0].startswith("before:")


async def test_a_hit_shows_text_from_outside_as_text(reader: Reader) -> None:
    shown = await reader.get("/ui/search?q=roads")
    check_page(shown)
    assert shown.texts(".hits h2 bdi") == [CALM_TITLE]


async def test_filters_narrow_a_search_and_an_empty_one_says_which_to_remove(reader: Reader) -> None:
    shown = await reader.get("/ui/search?q=river&source=news.test&language=en&since=2026-03-12")
    assert shown.texts(".search-total")[0].startswith("21 documents match")
    shown = await reader.get("/ui/search?q=river&language=de&source=news.test")
    check_page(shown)
    assert set(shown.links(".empty a").values()) == {
        "/ui/search?q=river&language=de",
        "/ui/search?q=river&source=news.test",
    }
    shown = await reader.get("/ui/search?q=zebra")
    assert shown.texts(".empty code")


@pytest.mark.parametrize(
    "query", ["q=river&source=nobody", "q=river&since=yesterday-ish", "q=river&language=%00", "q=river&category=%1b"]
)
async def test_a_filter_that_cannot_be_used_is_named_on_the_page(reader: Reader, query: str) -> None:
    shown = await reader.get(f"/ui/search?{query}")
    assert shown.status < 500
    check_page(shown)
    assert shown.tree.css("[role=alert], .empty")
    assert shown.tree.css_first("input[name=q]").attributes["value"] == "river"


@pytest.mark.parametrize("words", ["%00", '"', "%F0%9F%92%A5", "-", "<script>", "or or", "%ED%A0%80", "a" * 500])
async def test_odd_words_are_no_error(reader: Reader, words: str) -> None:
    shown = await reader.get(f"/ui/search?q={words}")
    assert shown.status == 200
    check_page(shown)


async def test_why_shows_the_way_of_a_url_and_its_sentences(reader: Reader) -> None:
    shown = await reader.get("/ui/why?url=http://news.test/3")
    check_page(shown)
    assert shown.texts(".way-title")[0] == "Found in the feed of news.test"
    assert f"Attempt 1: {Reason.STORED}" in shown.texts(".way-title")
    assert shown.tree.css("svg.way .way-good")
    assert {"Status", "Seen", "Robots", "Host", "Fetches"} <= set(shown.texts(".why-lines dt"))


async def test_why_reports_what_blocked_a_url_and_a_writer_fetches_it_again(reader: Reader) -> None:
    shown = await reader.get(f"/ui/why?url={BLOCKED}")
    assert shown.texts(".why-head .badge") == ["robots blocked"]
    assert any("line 2" in text for text in shown.texts(".why-lines dd"))
    assert not shown.tree.css("form[method=post][action$=retry]")
    await reader.sign_in()
    assert (await reader.get(f"/ui/why?url={BLOCKED}")).tree.css("form[method=post][action$=retry]")
    shown = await reader.submit_form("/ui/why/retry", url=BLOCKED)
    assert shown.status == 200
    assert shown.texts(".notice[role=status]")
    assert shown.texts(".why-head .badge") == ["pending"]
    assert not (await reader.get("/ui/today")).texts(".notice[role=status]")  # a notice shows once


@pytest.mark.parametrize(
    ("url", "status"), [("http://news.test/never", 404), ("<script>", 422), ("javascript:alert(1)", 422), ("%00", 422)]
)
async def test_why_refuses_an_address_that_it_cannot_explain(reader: Reader, url: str, status: int) -> None:
    shown = await reader.get(f"/ui/why?url={url}")
    assert shown.status == status
    check_page(shown)
    assert shown.tree.css(".notice-warn")


async def test_a_writer_is_led_to_submit_an_unknown_url(reader: Reader) -> None:
    await reader.sign_in()
    shown = await reader.get("/ui/why?url=http://news.test/never")
    shown = await reader.get(shown.links()["Submit this URL"])
    assert shown.texts("textarea") == ["http://news.test/never"]
