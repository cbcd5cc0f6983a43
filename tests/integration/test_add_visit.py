"""`headwater add` is one short visit: few requests, a minute at most, and nothing is lost (spec 3.1, issue 20)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.discovery import site_search
from headwater.discovery.site_search import MOST_REQUESTS
from headwater.sources.kinds.site_discovery import SITEMAP_PATHS
from tests.database_state import held_leases
from tests.harness import AppHarness, open_harness
from tests.refusals import refused
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
HOME = "http://news.test/"
ROBOTS = "http://news.test/robots.txt"
SITEMAP = "http://news.test/sitemap.xml"
HTML = {"Content-Type": "text/html"}
XML = {"Content-Type": "application/xml"}


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    async with open_harness(make_settings(connect_to=site.connect_to)) as opened:
        yield opened


async def is_due(harness: AppHarness, method: str) -> bool:
    due = (await harness.method(method=method)).next_poll_at
    return due is not None and due <= harness.runtime.context.clock.now()


def home(*feeds: str) -> Answer:
    links = "".join(f'<link rel=alternate type="application/rss+xml" href="{feed}">' for feed in feeds)
    return Answer(page("home").replace("</head>", f"{links}</head>"), headers=HTML)


def urlset(*urls: str) -> Answer:
    return Answer("<urlset>" + "".join(f"<url><loc>{url}</loc></url>" for url in urls) + "</urlset>", headers=XML)


def index(*sitemaps: str) -> Answer:
    entries = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in sitemaps)
    return Answer(f"<sitemapindex>{entries}</sitemapindex>", headers=XML)


def count(site: Site) -> Counter[str]:
    return Counter(seen.url for seen in site.seen)


async def test_a_page_with_a_feed_costs_three_requests_each_for_another_address(
    site: Site, harness: AppHarness
) -> None:
    site.answers[HOME] = home("/feed", "/more")
    site.answers[FEED] = rss("http://news.test/a", "http://news.test/b", title="The news")
    steps: list[str] = []
    added = await harness.operations.sources.add(HOME, on_step=steps.append)
    assert count(site) == {ROBOTS: 1, HOME: 1, FEED: 1}
    assert (added.requests, added.items, [feed.url for feed in added.others]) == (3, 2, ["http://news.test/more"])
    assert [item.title for item in added.newest] == ["Entry 1", "Entry 0"]
    assert len(steps) >= 2
    assert HOME in steps[0]


async def test_a_feed_and_a_sitemap_are_read_once(site: Site, harness: AppHarness) -> None:
    site.answers[FEED] = rss("http://news.test/a")
    await harness.operations.sources.add(FEED)
    assert count(site) == {ROBOTS: 1, FEED: 1}
    site.answers["http://else.test/map.xml"] = urlset("http://else.test/a")
    assert (await harness.operations.sources.add("http://else.test/map.xml")).requests == 2
    assert count(site)["http://else.test/map.xml"] == 1


async def test_a_test_and_a_discovery_read_each_address_once(site: Site, harness: AppHarness) -> None:
    site.answers[HOME] = home("/feed")
    site.answers[FEED] = rss("http://news.test/a")
    site.answers["http://news.test/a"] = Answer(page("a"), headers=HTML)
    await harness.operations.sources.test(HOME)
    assert count(site) == {ROBOTS: 1, HOME: 1, FEED: 1, "http://news.test/a": 1}
    site.seen.clear()
    await harness.operations.sources.discover(HOME)
    assert max(count(site).values()) == 1


async def test_a_site_with_neither_feed_nor_sitemap_costs_few_requests_and_saves_nothing(
    site: Site, harness: AppHarness
) -> None:
    """Spec 3.1: the search leaves some requests for sitemaps."""
    site.answers[HOME] = home()
    with pytest.raises(OperatorError) as refused:
        await harness.operations.sources.add(HOME)
    assert refused.value.reason is Reason.NOT_A_FEED
    assert len(site.seen) <= MOST_REQUESTS == 12
    assert {site.seen[-3].url, site.seen[-2].url, site.seen[-1].url} == {f"http://news.test{p}" for p in SITEMAP_PATHS}
    assert max(count(site).values()) == 1
    assert await harness.operations.sources.list_sources() == []


async def test_redirects_count_and_an_unfinished_search_is_left_to_the_poller(site: Site, harness: AppHarness) -> None:
    """The source is added with its home page, and it is due, so no address is lost."""
    for path in (*SITEMAP_PATHS, "/feed", "/rss", "/feed.xml", "/rss.xml", "/atom.xml", "/index.xml"):
        site.answers[f"http://news.test{path}"] = Answer(status=302, headers={"Location": "/start"})
    site.answers[HOME] = site.answers["http://news.test/start"] = home()
    added = await harness.operations.sources.add(HOME)
    assert len(site.seen) <= MOST_REQUESTS
    assert (added.deferred, added.is_certain, added.requests) == (True, False, len(site.seen))
    assert added.settings == {"site_url": HOME}
    assert await is_due(harness, "main")
    assert not (await harness.method()).polling


async def test_a_large_sitemap_index_is_read_in_part_and_the_rest_follows_at_once(
    site: Site, harness: AppHarness
) -> None:
    parts = [f"http://news.test/{number}.xml" for number in range(20)]
    site.answers[ROBOTS] = Answer(f"Sitemap: {SITEMAP}\n")
    site.answers[HOME] = home()
    site.answers[SITEMAP] = index(*parts)
    for number, part in enumerate(parts):
        site.answers[part] = urlset(f"http://news.test/pages/{number}")
    added = await harness.operations.sources.add(HOME)
    assert len(site.seen) <= MOST_REQUESTS
    assert (added.is_unfinished, added.deferred) == (True, False)
    assert 0 < added.new_urls < 20
    assert await is_due(harness, "sitemap")
    again = await harness.operations.sources.sync("news.test", "sitemap")
    assert again.new_urls == 20 - added.new_urls


async def test_a_named_feed_that_does_not_answer_in_time_is_kept_and_read_later(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_search, "MOST_SECONDS", 1.0)
    site.answers[HOME] = home("/feed", "/more")
    site.hanging.add(FEED)
    async with asyncio.timeout(30):
        added = await harness.operations.sources.add(HOME)
    assert (added.deferred, added.is_certain) == (True, False)
    assert added.settings["feed_url"] == FEED
    site.hanging.clear()
    site.answers[FEED] = rss("http://news.test/a")
    assert (await harness.operations.sources.sync("news.test")).new_items == 1


async def test_a_page_that_does_not_answer_in_time_is_refused(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_search, "MOST_SECONDS", 1.0)
    site.hanging.add(HOME)
    with pytest.raises(OperatorError) as refused:
        await harness.operations.sources.add(HOME)
    assert refused.value.reason is Reason.TIMEOUT
    assert await harness.operations.sources.list_sources() == []
    assert await held_leases(harness) == {}


async def test_a_start_page_without_links_is_reported(site: Site, harness: AppHarness) -> None:
    """Spec 3.5: a link to the page itself leads nowhere."""
    site.answers[HOME] = home()
    site.answers["http://full.test/"] = Answer("<a href=/a>A</a> <a href=/b>B</a> <a href=/>Home</a>", headers=HTML)
    assert (await harness.operations.sources.add(HOME, mode="spider")).links == 0
    full = await harness.operations.sources.add("http://full.test/", mode="spider")
    assert (full.links, full.requests) == (2, 2)


async def test_the_requests_of_the_search_have_the_user_agent_of_the_source(site: Site, harness: AppHarness) -> None:
    """Spec 1.3."""
    site.answers[HOME] = home("/feed")
    site.answers[FEED] = rss("http://news.test/a")
    await harness.operations.sources.add(HOME, None, {"user_agent": "browser"})
    agents = {seen.url: seen.headers["User-Agent"] for seen in site.seen}
    assert agents[HOME].startswith("Mozilla/5.0 ")
    assert agents[FEED] == agents[HOME]


async def test_a_wait_is_explained_with_the_command_that_ends_it(site: Site, harness: AppHarness) -> None:
    """Spec 3.1, 4.1: the host is left alone for a while, until an operator releases it."""
    site.answers[ROBOTS] = Answer("busy", status=503)
    site.answers[HOME] = home("/feed")
    site.answers[FEED] = rss("http://news.test/a")
    for _ in range(2):  # the request that fails, and the wait after it
        with refused(Reason.ROBOTS_UNREACHABLE, "news.test", "`headwater frontier release news.test`"):
            await harness.operations.sources.add(HOME)
    assert count(site) == {ROBOTS: 1}
    site.answers[ROBOTS] = Answer("", status=404)
    await harness.operations.frontier.open_host("news.test")
    assert (await harness.operations.sources.add(HOME)).items == 1
