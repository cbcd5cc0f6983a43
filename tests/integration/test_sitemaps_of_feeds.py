"""Every site source looks for sitemaps, and reports the pages that are too old to be taken (spec 3.3, issue 20)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from headwater.core.poll import OlderPages
from headwater.core.settings import Settings
from headwater.core.source import Method
from headwater.db.pool import Database
from tests.harness import AppHarness, open_harness
from tests.program import headwater, program_settings
from tests.replaying import index, urlset
from tests.server import Answer, Site, page, rss

FEED, HOME, MAP = "http://news.test/feed", "http://news.test/", "http://news.test/map.xml"
ROBOTS = Answer("User-agent: *\nAllow: /\nSitemap: /map.xml\n")
OLD = ("http://news.test/old", "2024-05-05T02:00:00Z")  # 4 May in New York
COMMAND = "headwater source backfill news --since 2024-05-04"
OPML = f'<opml version="2.0"><body><outline type="rss" text="news" xmlUrl="{FEED}"/></body></opml>'
YAML = f"sources:\n- name: news\n  feed_url: {FEED}\n"


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    async with open_harness(make_settings(connect_to=site.connect_to)) as opened:
        yield opened


def serve(site: Site, *old: tuple[str, str | None]) -> None:
    """Serve a feed with one entry, and a sitemap with a new page and old ones."""
    site.answers[FEED] = rss("http://news.test/a", title="news")
    site.answers["http://news.test/robots.txt"] = ROBOTS
    site.answers[MAP] = Answer(urlset(("http://news.test/b", datetime.now(UTC).isoformat()), *old))
    for name in "ab":
        site.answers[f"http://news.test/{name}"] = Answer(page(name), headers={"Content-Type": "text/html"})


@pytest.mark.parametrize("way", ["opml", "yaml", "address"])
async def test_a_source_looks_for_sitemaps_however_it_came(way: str, site: Site, harness: AppHarness) -> None:
    serve(site)
    sources = harness.operations.sources
    if way == "address":
        await sources.add(FEED, "news")
    else:
        await sources.import_list((OPML if way == "opml" else YAML).encode())
        await harness.poll("news")
    sitemaps = await harness.method("news", Method.SITEMAP)
    assert sitemaps.next_poll_at is not None
    assert sitemaps.next_poll_at < datetime.now(UTC) + timedelta(minutes=3)
    assert (await harness.poll("news", Method.SITEMAP)).new_urls == 1
    await harness.work()
    assert await harness.outcomes() == {f"http://news.test/{name}": "stored" for name in "ab"}


async def test_older_pages_are_reported_with_the_command_that_fetches_them(site: Site, harness: AppHarness) -> None:
    serve(site, OLD, ("http://news.test/less-old", "2025-05-05"))
    await harness.operations.sources.create("news", "site", {"feed_url": FEED})
    older = OlderPages(2, 0, COMMAND)
    assert (await harness.poll("news", Method.SITEMAP)).older == older
    assert (await harness.method("news", Method.SITEMAP)).older == older
    tested = await harness.operations.sources.test("news")
    assert tested.works
    assert COMMAND in next(stage for stage in tested.stages if stage.name == "sitemaps").found
    filled = await harness.operations.sources.backfill("news", date(2024, 5, 4))
    assert (filled.new_urls, filled.older) == (2, None)
    assert (await harness.method("news", Method.SITEMAP)).older is None


async def test_sitemaps_that_are_too_old_to_be_read_need_a_backfill_of_everything(
    site: Site, harness: AppHarness
) -> None:
    serve(site)
    site.answers[MAP] = Answer(index(("http://news.test/2024.xml", OLD[1])))
    await harness.operations.sources.create("news", "site", {"feed_url": FEED})
    polled = await harness.poll("news", Method.SITEMAP)
    assert polled.older == OlderPages(0, 1, "headwater source backfill news --since 1970-01-01")
    assert "http://news.test/2024.xml" not in [seen.url for seen in site.seen]


async def test_the_commands_show_older_pages(
    site: Site, database: Database, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    del database  # the program needs its schema
    serve(site, OLD)
    settings = program_settings(make_settings(connect_to=site.connect_to))

    async def run(*words: str) -> str:
        return (await asyncio.to_thread(headwater, *words, cwd=tmp_path, **settings)).stdout

    await run("source", "add", "news", "--kind", "site", "--set", f"feed_url={FEED}")
    assert COMMAND in await run("source", "sync", "news", "--method", "sitemap")
    assert COMMAND in await run("source", "show", "news")
    assert COMMAND in await run("source", "test", "news")


async def test_a_spider_whose_start_page_has_no_links_reports_it(site: Site, harness: AppHarness) -> None:
    site.answers[HOME] = Answer("<div id=app></div>", headers={"Content-Type": "text/html"})
    await harness.operations.sources.create("news", "site", {"site_url": HOME, "ingestion_mode": "spider"})
    assert (await harness.poll("news", Method.SPIDER)).error is None
    (problem,) = (await harness.method("news", Method.SPIDER)).problems
    assert problem.url == HOME
