"""The pages of stories, and the lines of other pages that open to a story (issue 23)."""

import json
from collections.abc import AsyncIterator, Callable

import feedparser
import pytest

from headwater.core.settings import Settings
from tests.api import TOKEN
from tests.harness import open_harness
from tests.integration.test_pages import check_page
from tests.integration.test_stories import ELSEWHERE, REPORT, follow
from tests.pages import Reader, open_reader
from tests.server import Answer, Site

DAY = "/ui/days/2026-03-12"
HOSTILE = "<script>alert(1)</script>"


def make_feed(host: str, title: str) -> Answer:
    body = (
        f'<rss version="2.0"><channel><title>{host}</title><item><title>{title}</title><link>http://{host}/a</link>'
        "<pubDate>Thu, 12 Mar 2026 10:00:00 GMT</pubDate></item></channel></rss>"
    )
    return Answer(body, headers={"Content-Type": "application/rss+xml"})


def make_page(title: str, text: str, clock: str) -> Answer:
    paragraphs = "".join(f"<p>{one}.</p>" for one in text.rstrip(".").split(". "))
    return Answer(
        f"<!doctype html><html lang=en><head><title>{title}</title>"
        f'<meta property="article:published_time" content="2026-03-12T{clock}:00Z"></head>'
        f"<body><article><h1>{title}</h1>{paragraphs}</article></body></html>",
        headers={"Content-Type": "text/html"},
    )


PAGES = {
    "herald.test": ("Upton bridge closed", REPORT, "09:00"),
    "mirror.test": (
        f"Upton bridge is closed {HOSTILE.replace('<', '&lt;')}",
        REPORT + " This came from an agency.",
        "11:00",
    ),
    "coast.test": ("Heysham port closed", ELSEWHERE, "10:00"),
}


@pytest.fixture
async def reader(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[Reader]:
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        for host, (title, text, clock) in PAGES.items():
            site.answers[f"http://{host}/feed"] = make_feed(host, title)
            site.answers[f"http://{host}/a"] = make_page(title, text, clock)
            await harness.operations.sources.add(f"http://{host}/feed")
        await harness.work()
        await follow(harness)
    async with open_reader(settings) as opened:
        yield opened


@pytest.mark.parametrize("path", [DAY, "/ui/search?q=closed"])
async def test_a_story_is_one_line_that_opens(reader: Reader, path: str) -> None:
    """Without JavaScript: the other document is in a details element, and the page has no line of its own for it."""
    shown = await reader.get(path)
    check_page(shown)
    titles = shown.texts(".lines .line-title, .hits h2")
    assert len(titles) == 2
    assert sum(title.startswith("Upton bridge") for title in titles) == 1
    assert shown.texts("details.story summary") == ["1 other document about this story"]
    (other,) = shown.texts("details.story li a")
    assert other.startswith("Upton bridge")
    assert not any(other in title for title in titles)
    assert not shown.tree.css("main script")


async def test_a_document_shows_the_others_of_its_story(reader: Reader) -> None:
    found = await reader.get("/ui/stories")
    check_page(found)
    story = await reader.get(next(path for title, path in found.links(".lines a").items() if title.startswith("Upton")))
    check_page(story)
    assert story.texts(".badge") == ["first", "copy"]
    assert [title[:12] for title in story.texts(".line-title")] == ["Upton bridge"] * 2
    assert HOSTILE in story.texts(".line-title")[1]
    links = story.links(".lines a")
    document = await reader.get(links["Upton bridge closed"])
    check_page(document)
    assert "Other documents about this story" in document.texts("aside h2")
    changed = await reader.get(links["What it changed"])
    check_page(changed)
    assert changed.texts(".change-added ins")[-1] == "This came from an agency."


async def test_a_story_that_does_not_exist_is_not_found(reader: Reader) -> None:
    assert (await reader.get("/ui/stories/999")).status == 404
    assert (await reader.get("/ui/stories/999/diff")).status == 404


async def test_a_story_has_a_feed_and_is_one_entry_of_other_feeds(reader: Reader) -> None:
    """The entry is the newest document. It links to the others, so a reader loses none."""
    story = (await reader.get("/ui/stories")).links(".lines a")["Upton bridge closed"].rpartition("/")[2]
    feed = feedparser.parse((await reader.get(f"/feeds/story/{story}.atom")).text)
    assert (feed.bozo, feed.version, feed.feed.title) == (False, "atom10", "Headwater: Upton bridge closed")
    assert {entry.link for entry in feed.entries} == {"http://mirror.test/a", "http://herald.test/a"}
    for path in ("search.atom?q=closed", "day/2026-03-12.atom"):
        found = feedparser.parse((await reader.get(f"/feeds/{path}")).text)
        links = {entry.link: [one.href for one in entry.links if one.rel == "related"] for entry in found.entries}
        assert links.pop("http://coast.test/a") == []
        assert [{url, *others} for url, others in links.items()] == [{"http://mirror.test/a", "http://herald.test/a"}]
    item = next(one for one in json.loads((await reader.get("/feeds/search.json?q=upton")).text)["items"])
    assert [one["source"] for one in item["_headwater"]["same_story"]] in (["herald.test"], ["mirror.test"])
    assert (await reader.get("/feeds/story/999.atom")).status == 404
    assert (await reader.get("/feeds/story/x.atom")).status == 404
