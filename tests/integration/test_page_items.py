"""Stored pages are news, however their source found them (spec 11.1)."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from headwater.core.poll import HandoffCounts
from headwater.core.source import Method
from headwater.db import migrate
from headwater.documents.days import DayItem
from headwater.handoff.operations import JobFilter
from tests.database_state import backdate, count, items
from tests.harness import AppHarness
from tests.replaying import urlset
from tests.server import Answer, Site, page, rss

pytestmark = pytest.mark.both_servers

HTML = {"Content-Type": "text/html; charset=utf-8"}
MAP, FEED = "http://news.test/sitemap.xml", "http://news.test/feed"
A, B = "http://news.test/a", "http://news.test/b"
MARCH = date(2026, 3, 12)
NOON = "2026-03-12T12:00:00Z"


def article(topic: str, published: str | None = NOON, updated: str | None = None) -> Answer:
    """Return a page that states these dates."""
    dates = {"article:published_time": published, "article:modified_time": updated}
    metas = "".join(f'<meta property="{name}" content="{value}">' for name, value in dates.items() if value)
    return Answer(page(topic).replace("<head>", f"<head>{metas}"), headers=HTML)


def list_in_sitemap(site: Site, *urls: str) -> None:
    site.answers[MAP] = Answer(urlset(*((url, None) for url in urls)))


async def add_site(harness: AppHarness, name: str = "news", **settings: Any) -> None:
    await harness.operations.sources.create(name, "site", {"sitemap_url": MAP, "timezone": "UTC", **settings})


async def read_pages(harness: AppHarness, name: str = "news") -> None:
    """Read the sitemap of a source, and store its pages."""
    await harness.poll(name, Method.SITEMAP)
    await harness.work()


async def day(harness: AppHarness, wanted: date = MARCH) -> list[DayItem]:
    return (await harness.operations.days.day(wanted)).items


def today() -> date:
    return datetime.now(UTC).date()


async def test_a_page_of_a_sitemap_is_news_of_the_day_that_it_states(site: Site, harness: AppHarness) -> None:
    list_in_sitemap(site, A)
    site.answers[A] = article("the old bridge")
    await add_site(harness)
    await harness.poll("news", Method.SITEMAP)
    assert await items(harness) == []  # a listed address is no news: its page may be none
    await harness.work()
    (item,) = await day(harness)
    (document,) = (await harness.operations.documents.list_page(limit=2)).documents
    assert (item.source, item.bucket, item.title, item.url) == ("news", "NEW", "the old bridge", A)
    assert (item.published_at, item.published_is_sighting) == (datetime(2026, 3, 12, 12, tzinfo=UTC), False)
    assert item.document_id == document.id
    assert await day(harness, today()) == []


async def test_a_page_of_a_spider_is_news(site: Site, harness: AppHarness) -> None:
    home, found = "http://news.test/", "http://news.test/2026/03/12/the-old-bridge-opens-again"
    site.answers[home] = Answer(f'<a href="{found}">bridge</a>', headers=HTML)
    site.answers[found] = article("the old bridge")
    await harness.operations.sources.create("news", "site", {"site_url": home, "ingestion_mode": "spider"})
    await harness.poll("news", Method.SPIDER)
    await harness.work()
    assert [(item.url, item.bucket) for item in await day(harness)] == [(found, "NEW")]


@pytest.mark.parametrize("published", [None, "2999-01-01T00:00:00Z"])
async def test_the_first_sighting_dates_a_page_without_a_date_and_a_mark_shows_it(
    published: str | None, site: Site, harness: AppHarness
) -> None:
    """A date in the future is no date of publication."""
    list_in_sitemap(site, A)
    site.answers[A] = article("the old bridge", published)
    await add_site(harness)
    await harness.poll("news", Method.SITEMAP)
    await backdate(harness, "url_frontier.discovered_at", timedelta(days=2))
    await harness.work()
    (item,) = await day(harness, today() - timedelta(days=2))
    assert (item.bucket, item.published_at, item.published_is_sighting) == (
        "NEW",
        (await harness.operations.why(A)).discovered_at,
        True,
    )


async def test_a_page_whose_only_date_moves_is_not_new_again(site: Site, harness: AppHarness) -> None:
    """Many pages state only their last change."""
    list_in_sitemap(site, A)
    site.answers[A] = [article("bridge", None, NOON), article("the old bridge", None, "2026-03-14T12:00:00Z")]
    await add_site(harness)
    await read_pages(harness)
    assert [item.bucket for item in await day(harness)] == ["NEW"]
    await harness.operations.frontier.retry([A])
    await harness.work()
    assert [item.bucket for item in await day(harness, date(2026, 3, 14))] == ["LATEST"]


async def test_a_page_that_states_its_date_later_is_no_sighting_anymore(site: Site, harness: AppHarness) -> None:
    list_in_sitemap(site, A)
    site.answers[A] = [article("bridge", None), article("the old bridge")]
    await add_site(harness)
    await read_pages(harness)
    await harness.operations.frontier.retry([A])
    await harness.work()
    assert [(item.bucket, item.published_is_sighting) for item in await day(harness)] == [("NEW", False)]


async def test_a_page_that_states_a_later_change_is_latest_on_that_day(site: Site, harness: AppHarness) -> None:
    list_in_sitemap(site, A)
    site.answers[A] = [article("bridge"), article("the old bridge", NOON, "2026-03-14T12:00:00Z")]
    await add_site(harness)
    await read_pages(harness)
    await harness.operations.frontier.retry([A])
    await harness.work()
    assert [item.bucket for item in await day(harness)] == ["NEW"]
    assert [(item.bucket, item.title) for item in await day(harness, date(2026, 3, 14))] == [
        ("LATEST", "the old bridge")
    ]
    await harness.operations.frontier.retry([A])  # the page is the same
    await harness.work()
    assert await count(harness, "item_observations") == 2


async def test_a_day_without_a_time_is_that_day_in_the_time_zone_of_the_source(site: Site, harness: AppHarness) -> None:
    list_in_sitemap(site, A)
    site.answers[A] = article("the old bridge", "2026-03-12")
    await add_site(harness, timezone="America/New_York")
    await read_pages(harness)
    assert [item.published_at for item in await day(harness)] == [datetime(2026, 3, 12, 4, tzinfo=UTC)]


async def test_a_changed_page_without_a_new_date_is_latest_on_the_day_of_its_fetch(
    site: Site, harness: AppHarness
) -> None:
    """Spec 11.2. A fetch without a change changes nothing."""
    list_in_sitemap(site, A)
    site.answers[A] = [article("bridge"), article("bridge"), article("the old bridge")]
    await add_site(harness)
    await read_pages(harness)
    for expected in ([], ["LATEST"], ["LATEST"]):
        await harness.operations.frontier.retry([A])
        await harness.work()
        assert [item.bucket for item in await day(harness, today())] == expected
    assert [item.bucket for item in await day(harness)] == ["NEW"]
    assert await count(harness, "item_observations") == 2


async def test_a_watched_page_of_a_feed_that_changes_is_latest_on_the_day_of_its_fetch(
    site: Site, harness: AppHarness
) -> None:
    """Spec 11.2. The next poll of the feed, which states no change, leaves it there."""
    site.answers[FEED] = rss(A)
    site.answers[A] = [article("bridge"), article("bridge"), article("the old bridge")]
    await add_site(harness, feed_url=FEED, refetch="every 6h")
    await harness.poll("news")
    await harness.work()
    for expected in ([], ["LATEST"], ["LATEST"]):
        await harness.operations.frontier.retry([A])
        await harness.work()
        await harness.poll("news")
        assert [item.bucket for item in await day(harness, today()) if item.bucket == "LATEST"] == expected


async def test_each_source_that_found_a_page_has_it_as_an_item(site: Site, harness: AppHarness) -> None:
    """A source that finds a stored page gets its item at once. A source that finds it first gets it with the page."""
    list_in_sitemap(site, A)
    site.answers[A] = article("the old bridge")
    await add_site(harness)
    await add_site(harness, "early")
    await add_site(harness, "late")
    await harness.poll("news", Method.SITEMAP)
    await harness.poll("early", Method.SITEMAP)
    await harness.work()
    assert [item.source for item in await day(harness)] == ["early", "news"]
    await harness.poll("late", Method.SITEMAP)
    assert [item.source for item in await day(harness)] == ["early", "late", "news"]


async def test_a_list_that_has_the_page_later_takes_its_item_over(site: Site, harness: AppHarness) -> None:
    """Also under an address that leads to the page."""
    list_in_sitemap(site, A, B)
    site.answers[A], site.answers[B] = article("bridge"), article("library")
    site.answers["http://news.test/old-b"] = Answer(status=301, headers={"Location": B})
    site.answers[FEED] = rss(A, "http://news.test/old-b")
    await add_site(harness, feed_url=FEED)
    await read_pages(harness)
    assert sorted(item.title for item in await day(harness)) == ["bridge", "library"]
    await harness.poll("news")
    await harness.work()
    listed = await day(harness)
    assert {item.title: item.url for item in listed} == {"Entry 0": A, "Entry 1": "http://news.test/old-b"}
    assert all(item.document_id for item in listed)
    await harness.operations.frontier.retry([A, B])
    await harness.work()
    assert await day(harness) == listed


async def test_a_page_that_a_list_has_keeps_the_item_of_the_list(site: Site, harness: AppHarness) -> None:
    list_in_sitemap(site, A)
    site.answers[A], site.answers[FEED] = article("bridge", "2026-01-01T00:00:00Z"), rss(A)
    await add_site(harness, feed_url=FEED)
    await harness.poll("news")
    await read_pages(harness)
    assert [item.title for item in await items(harness)] == ["Entry 0"]


@pytest.mark.parametrize("target", ["http://news.test/new", "http://else.test/new"])
async def test_all_sources_of_a_page_that_moved_have_its_item(target: str, site: Site, harness: AppHarness) -> None:
    list_in_sitemap(site, A)
    site.answers[A] = Answer(status=301, headers={"Location": target})
    site.answers[target] = article("the old bridge")
    await add_site(harness)
    await add_site(harness, "other")
    await harness.poll("other", Method.SITEMAP)
    await read_pages(harness)
    found = await day(harness)
    assert [(item.source, item.title) for item in found] == [("news", "the old bridge"), ("other", "the old bridge")]
    assert all(item.document_id for item in found)


async def test_a_page_that_moves_to_a_stored_page_takes_its_sources_along(site: Site, harness: AppHarness) -> None:
    site.answers[B] = article("library")
    list_in_sitemap(site, B)
    await add_site(harness)
    await read_pages(harness)
    list_in_sitemap(site, A)
    site.answers[A] = Answer(status=301, headers={"Location": B})
    await add_site(harness, "other")
    await read_pages(harness, "other")
    assert [item.source for item in await day(harness)] == ["news", "other"]


async def test_a_page_that_someone_submits_is_news_of_its_source(site: Site, harness: AppHarness) -> None:
    site.answers[A] = article("the old bridge")
    await harness.fetch(A)
    assert [item.source for item in await day(harness)] == ["manual"]


async def test_a_stored_page_that_someone_submits_for_a_source_is_its_item_at_once(
    site: Site, harness: AppHarness
) -> None:
    """Spec 3.6, 8.3: a known URL becomes a sighting of the source."""
    site.answers[A] = article("the old bridge")
    await harness.fetch(A)
    await harness.operations.sources.create("press", "manual", {})
    (submitted,) = await harness.operations.frontier.submit([A], "press")
    assert not submitted.is_new
    assert [item.source for item in await day(harness)] == ["manual", "press"]
    assert [sighting.source for sighting in (await harness.operations.why(A)).sightings] == ["manual", "press"]
    assert site.visits(A) == 1


async def test_the_stored_pages_of_a_category_are_its_links(site: Site, harness: AppHarness) -> None:
    list_in_sitemap(site, A, B)
    site.answers[A] = article("the old bridge")  # the other page is not found
    await add_site(harness, category=" jobs ")
    await read_pages(harness)
    assert await harness.rows("SELECT category, url FROM category_links") == [("jobs", A)]


async def sync(harness: AppHarness, method: Method | None = None) -> tuple[int, HandoffCounts | None]:
    """Sync the source, and return the number of items and the counts of hand-offs."""
    result = await harness.operations.sources.sync("news", method)
    return result.items, result.handoffs


async def test_the_next_sync_hands_off_each_stored_page_once(site: Site, harness: AppHarness) -> None:
    """Spec 7.1, 11.1: a page that a sitemap found becomes a job with its document, as a feed's page does."""
    list_in_sitemap(site, A, B)
    site.answers |= {A: article("the old bridge"), B: article("the new bridge")}
    await add_site(harness)
    assert await sync(harness, Method.SITEMAP) == (0, HandoffCounts())
    await harness.work()
    assert await sync(harness, Method.SITEMAP) == (2, HandoffCounts(completed=2))
    found = (await harness.operations.handoffs.list_jobs(JobFilter())).jobs
    assert {(job.url, job.status) for job in found} == {(A, "ready"), (B, "ready")}
    assert await sync(harness, Method.SITEMAP) == (0, HandoffCounts())
    assert (site.visits(A), site.visits(B)) == (1, 1)


async def test_a_page_is_handed_off_once_if_a_list_has_it_later(site: Site, harness: AppHarness) -> None:
    list_in_sitemap(site, A)
    site.answers |= {A: article("the old bridge"), FEED: rss(A)}
    await add_site(harness, feed_url=FEED)
    await read_pages(harness)
    assert await sync(harness, Method.FEED) == (1, HandoffCounts(completed=1))
    await harness.work()
    assert await sync(harness, Method.FEED) == (1, HandoffCounts(skipped=1))


async def test_stored_pages_wait_for_a_sync_while_hand_offs_are_rolled_back(site: Site, harness: AppHarness) -> None:
    """Spec 7.5."""
    list_in_sitemap(site, A)
    site.answers[A] = article("the old bridge")
    await add_site(harness)
    await read_pages(harness)
    database = harness.runtime.context.database
    await migrate.down_only(database, "handoffs")
    assert await sync(harness, Method.SITEMAP) == (0, None)
    await migrate.up(database)
    assert await sync(harness, Method.SITEMAP) == (1, HandoffCounts(completed=1))


async def test_days_are_right_if_pages_and_a_list_come_at_once(site: Site, harness: AppHarness) -> None:
    """Spec 6.4: transactions that change one day at the same time lose none of its items."""
    urls = [f"http://news.test/page/{number}" for number in range(20)]
    list_in_sitemap(site, *urls)
    listed = [f"http://news.test/{number}" for number in range(9)]
    site.answers[FEED] = rss(*listed)
    for url in urls:
        site.answers[url] = article(url)
    await add_site(harness, feed_url=FEED)
    await harness.operations.frontier.submit(urls)
    async with asyncio.TaskGroup() as group:
        group.create_task(harness.work())
        group.create_task(harness.poll("news"))
        group.create_task(harness.poll("news", Method.SITEMAP))
    assert sorted(item.url for item in await day(harness)) == sorted([*urls, *urls, *listed])
