"""The origins of document fields: the feed, the page, and the selectors of the source (spec 5.1, 5.2; issue 8)."""

import re
from datetime import date

import pytest

from headwater.core.reasons import Reason
from tests.harness import AppHarness
from tests.refusals import refused
from tests.server import Answer, Site, page

FEED = "http://news.test/feed"
PAGE = "http://news.test/a"
HTML = {"Content-Type": "text/html"}
SUMMARY = "What the council will do about the river, told in a sentence."
PICTURE = "http://news.test/river.jpg"
STATED = (
    '<script type="application/ld+json">{"@type": "NewsArticle", "headline": "the river",'
    ' "author": {"name": "Sue Stated"}, "datePublished": "2026-03-01T08:00:00Z"}</script>'
)
STORY = "<div class=story><p>The words that a selector finds, and nothing around them.</p></div>"


def feed(date: str = "<pubDate>Thu, 12 Mar 2026 10:00:00 GMT</pubDate>") -> Answer:
    entry = f"<title>Listed</title><link>{PAGE}</link><author>Lee Listed</author><description>{SUMMARY}</description>"
    entry += f"<enclosure url='{PICTURE}' type='image/jpeg'/>"
    body = f"<rss version='2.0'><channel><title>News</title><item>{entry}{date}</item></channel></rss>"
    return Answer(body, headers={"Content-Type": "application/rss+xml"})


def html(head: str = "", extra: str = "", window: str = "All that is new") -> Answer:
    """A page that shows its title and does not state it; its window has another."""
    markup = page("the river", extra=extra)
    return Answer(re.sub("<title>.*?</head>", f"<title>{window}</title>{head}</head>", markup), headers=HTML)


async def test_feed_values_replace_values_that_a_page_only_shows(site: Site, harness: AppHarness) -> None:
    site.answers |= {FEED: feed(), PAGE: html()}
    await harness.operations.sources.add(FEED, "news")
    await harness.work()
    document = await harness.document()
    assert (document.title, document.byline, document.abstract, document.image) == (
        "Listed",
        "Lee Listed",
        SUMMARY,
        PICTURE,
    )
    assert document.published_at
    assert document.published_at.date() == date(2026, 3, 12)
    assert document.provenance == {
        **dict.fromkeys(("title", "byline", "published_at", "abstract", "image"), "feed"),
        **dict.fromkeys(("text", "language"), "dom"),
    }
    assert document.confidence.keys() == document.provenance.keys()
    assert "The report on the river" in document.text


async def test_a_title_that_the_page_shows_twice_stays(site: Site, harness: AppHarness) -> None:
    site.answers |= {FEED: feed(), PAGE: html(window="the river - News")}
    await harness.operations.sources.add(FEED, "news")
    await harness.work()
    document = await harness.document()
    assert (document.title, document.provenance["title"]) == ("the river", "dom")
    assert document.provenance["byline"] == "feed"


async def test_values_that_a_page_states_as_data_stay(site: Site, harness: AppHarness) -> None:
    site.answers |= {FEED: feed(), PAGE: html(STATED)}
    await harness.operations.sources.add(FEED, "news")
    await harness.work()
    document = await harness.document()
    assert (document.byline, f"{document.published_at:%Y-%m-%d}") == ("Sue Stated", "2026-03-01")
    assert document.title == "the river"
    assert {document.provenance[name] for name in ("title", "byline", "published_at")} == {"json-ld"}
    assert document.provenance["abstract"] == "feed"


async def test_first_seen_time_is_not_a_publication_date(site: Site, harness: AppHarness) -> None:
    """Spec 3.2: an undated entry takes its first sighting, marked so."""
    site.answers |= {FEED: feed(date=""), PAGE: html()}
    await harness.operations.sources.add(FEED, "news")
    await harness.work()
    document = await harness.document()
    assert document.title == "Listed"
    assert document.published_at is None
    assert "published_at" not in document.provenance


async def test_a_redirect_target_gets_the_values_of_the_feed(site: Site, harness: AppHarness) -> None:
    moved = "http://other.test/b"
    site.answers |= {FEED: feed(), PAGE: Answer(status=301, headers={"Location": moved}), moved: html()}
    await harness.operations.sources.add(FEED, "news")
    await harness.work()
    document = await harness.document()
    assert (document.url, document.title) == (moved, "Listed")


async def test_the_values_of_the_own_source_of_a_page_win(site: Site, harness: AppHarness) -> None:
    another = "http://digest.test/feed"
    renamed = Answer(str(feed().body).replace("Listed", "Digested"), headers={"Content-Type": "application/rss+xml"})
    site.answers |= {FEED: feed(), another: renamed, PAGE: html()}
    await harness.operations.sources.add(FEED, "news")
    await harness.operations.sources.add(another, "a-digest")
    await harness.execute("UPDATE items SET first_seen_at = 'yesterday' WHERE title = 'Digested'")
    await harness.work()
    assert (await harness.document()).title == "Listed"


async def test_an_inferred_date_does_not_replace_the_stated_date_of_a_page(site: Site, harness: AppHarness) -> None:
    """Spec 5.1, 6.1: nor does it become certain by being kept."""
    site.answers |= {FEED: feed(), PAGE: html('<meta name="date" content="2026-02-01T00:00:00Z">')}
    await harness.operations.sources.add(FEED, "news")
    await harness.execute("UPDATE item_observations SET is_certain = false")
    await harness.work()
    document = await harness.document()
    assert (f"{document.published_at:%Y-%m-%d}", document.provenance["published_at"]) == ("2026-02-01", "meta")


async def test_selectors_win_if_they_match(site: Site, harness: AppHarness) -> None:
    """Spec 5.2. The same text can be made from the raw file again (spec 1.5)."""
    site.answers |= {FEED: feed(), PAGE: html(STATED, STORY)}
    selectors = {"body": ".story", "title": "title", "byline": ".nowhere"}
    await harness.operations.sources.add(FEED, "news", {"selectors": selectors})
    await harness.work()
    document = await harness.document()
    assert document.text == "The words that a selector finds, and nothing around them."
    assert (document.title, document.byline) == ("All that is new", "Sue Stated")
    assert [document.provenance[name] for name in ("text", "title", "byline")] == ["selector", "selector", "json-ld"]
    await harness.operations.sources.edit("news", {"selectors": {"body": "p"}})
    async with harness.operations.upkeep.verify() as verified:
        assert not verified.findings


async def test_changed_selectors_apply_to_the_next_page(site: Site, harness: AppHarness) -> None:
    """Spec 5.2: read at most 5 minutes old. The source is not polled in between."""
    site.answers |= {FEED: feed(), PAGE: html(extra=STORY)}
    await harness.operations.sources.add(FEED, "news")
    await harness.work()
    polls = site.visits(FEED)
    origins = []
    for selector, unset in ((".story", []), (None, ["selectors"])):
        await harness.operations.sources.edit("news", {"selectors": {"body": selector}} if selector else {}, unset)
        await harness.operations.frontier.retry([PAGE])
        await harness.work()
        origins.append((await harness.document()).provenance["text"])
    assert origins == ["selector", "dom"]
    assert site.visits(FEED) == polls


@pytest.mark.parametrize(
    ("selectors", "field"),
    [
        ({"body": "p["}, "selectors.body"),
        ({"title": ""}, "selectors.title"),
        ({"headline": "h1"}, "selectors.headline"),
        ({"image": 7}, "selectors.image"),
        ({"byline": "a" * 501}, "selectors.byline"),
        (".story", "selectors"),
    ],
)
async def test_invalid_selectors_are_refused_by_field(
    selectors: object, field: str, site: Site, harness: AppHarness
) -> None:
    """Spec 3.1."""
    with refused(Reason.BAD_SOURCE, f"Source news: {field}:"):
        await harness.operations.sources.create("news", "site", {"feed_url": FEED, "selectors": selectors})
    assert await harness.operations.sources.list_sources() == []
    site.answers[FEED] = feed()
    await harness.operations.sources.add(FEED, "news", {"selectors": {"body": ".story"}})
    with refused(Reason.BAD_SOURCE, f"Source news: {field}:"):
        await harness.operations.sources.edit("news", {"selectors": selectors})
    assert (await harness.operations.sources.show("news")).settings["selectors"] == {"body": ".story"}


async def test_variants_for_amp_and_print_point_at_their_canonical(site: Site, harness: AppHarness) -> None:
    """Issue 8: `why` shows the canonical URL."""
    canonical = html('<link rel=canonical href="/a"><link rel=amphtml href="/amp/a">')
    variants = ("http://news.test/amp/a", "http://news.test/a?view=print")
    site.answers |= {PAGE: canonical}
    site.answers |= dict.fromkeys(variants, html('<link rel=canonical href="http://news.test/a">'))
    await harness.fetch(PAGE, *variants)
    assert [document.canonical_url for document in (await harness.documents()).values()] == [PAGE] * 3
    for url in (PAGE, *variants):
        document = (await harness.operations.why(url)).document
        assert document
        assert document.canonical_url == PAGE
