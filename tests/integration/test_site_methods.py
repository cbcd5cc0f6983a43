"""Sites through the real flow: the results of each method, and bounded refusals of bad input (spec 3.2-3.5, 4.3)."""

import gzip
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.core.poll import PollResult
from headwater.core.reasons import Reason
from headwater.core.source import Method
from headwater.feeds.results import FeedLink
from headwater.politeness.request_rate import RequestRate
from headwater.sources.kinds.site_discovery import find_feeds, find_sitemaps
from headwater.sources.registry import get_kind
from headwater.sources.run import Http
from tests.database_state import count, poll_memory
from tests.harness import AppHarness
from tests.replaying import index, urlset
from tests.server import Answer, Site, page, rss

HTML = {"Content-Type": "text/html; charset=utf-8"}
MAP = "http://news.test/sitemap.xml"
HOME = "http://news.test/"


async def read(harness: AppHarness, method: Method, **settings: Any) -> PollResult:
    """Add a source, unless it is there, and do one pass of it."""
    if not await harness.operations.sources.list_sources():
        await harness.operations.sources.create("news", "site", settings)
    return await harness.poll("news", method)


def bomb() -> bytes:
    """A million bytes that inflate to a thousand million."""
    zeros = gzip.compress(b"\0" * 10_000_000)
    return zeros * 100


def entities() -> str:
    levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    return (
        f'<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY l0 "ha">{levels}]><rss version="2.0"><channel>'
        "<title>&l11;</title><item><title>&l11;</title></item></channel></rss>"
    )


async def test_a_sitemap_pass_brings_pages_and_what_has_changed_is_fetched_again(
    site: Site, harness: AppHarness
) -> None:
    """Spec 3.3: pages of an index, by robots.txt, with the origin of sitemaps; conditional the next time."""
    now = datetime.now(UTC)
    site.answers["http://news.test/robots.txt"] = Answer("User-agent: *\nAllow: /\nSitemap: /index.xml\n")
    site.answers["http://news.test/index.xml"] = Answer(index(("http://news.test/m.xml.gz", now.isoformat())))
    pages = urlset(("http://news.test/a", now.isoformat()), ("http://news.test/old", "2001-01-01"))
    site.answers["http://news.test/m.xml.gz"] = [
        Answer(gzip.compress(pages.encode()), headers={"ETag": '"1"'}),
        Answer(status=304),
    ]
    site.answers["http://news.test/a"] = Answer(page("a sitemap"), headers=HTML)
    polled = await read(harness, Method.SITEMAP, site_url=HOME)
    assert (polled.error, polled.urls, polled.new_urls) == (None, 1, 1)
    await harness.work()
    assert await harness.outcomes() == {"http://news.test/a": "stored"}
    assert {line.origin for line in (await harness.urls()).values()} == {"sitemap"}
    assert (await read(harness, Method.SITEMAP)).urls == 0
    assert [seen.headers.get("If-None-Match") for seen in site.seen if seen.url.endswith("m.xml.gz")] == [None, '"1"']


async def test_a_feed_that_is_not_given_is_found_and_saved(site: Site, harness: AppHarness) -> None:
    """Spec 3.4."""
    site.answers[HOME] = Answer('<link rel="alternate" type="application/rss+xml" href="/rss/">', headers=HTML)
    site.answers["http://news.test/rss/"] = rss("http://news.test/a", "http://news.test/b")
    polled = await read(harness, Method.FEED, site_url=HOME)
    assert (polled.items, polled.error) == (2, None)
    (source,) = await harness.operations.sources.list_sources()
    assert source.settings == {"site_url": HOME, "feed_url": "http://news.test/rss/"}
    assert site.visits(HOME) == 1
    await read(harness, Method.FEED)
    assert site.visits(HOME) == 1


async def test_all_feeds_and_sitemaps_of_a_site_can_be_asked_for(site: Site, harness: AppHarness) -> None:
    """Spec 3.3, 3.4: each is read before it is believed; the feed of comments comes last."""
    feeds = {"/comments/feed": "Comments", "/news.rss": "News", "/gone.rss": "Gone"}
    named = "".join(
        f'<link rel=alternate type=application/rss+xml href="{path}" title="{title}">' for path, title in feeds.items()
    )
    site.answers[HOME] = Answer(named, headers=HTML)
    site.answers["http://news.test/comments/feed"] = site.answers["http://news.test/news.rss"] = rss()
    site.answers["http://news.test/news-sitemap.xml"] = Answer(urlset())
    site.answers[MAP] = Answer(page("No such page"), headers=HTML)
    source = await harness.operations.sources.create("news", "site", {"site_url": HOME})
    kind, runtime = get_kind(source), harness.runtime
    rate = RequestRate(runtime.context.database, runtime.context.clock, source.id, timedelta(milliseconds=10))
    http = Http(runtime.gate, runtime.sandbox, kind, rate, kind.fetch_profile("news"))
    assert await find_feeds(http, HOME) == [
        FeedLink("http://news.test/news.rss", "News"),
        FeedLink("http://news.test/comments/feed", "Comments"),
    ]
    assert await find_sitemaps(http, HOME) == ["http://news.test/news-sitemap.xml"]
    site.answers["http://news.test/robots.txt"] = Answer("Sitemap: /a.xml\nSitemap: http://cdn.test/b.xml\nSitemap: //")
    assert await find_sitemaps(http, HOME) == ["http://news.test/a.xml", "http://cdn.test/b.xml"]


async def test_the_delay_of_an_unchanged_feed_is_kept(site: Site, harness: AppHarness) -> None:
    """Spec 3.2: ttl is remembered, the headers of each answer count by themselves."""
    answer = rss("http://news.test/a")
    body = str(answer.body).replace("</title>", "</title><ttl>90</ttl>", 1)
    site.answers[HOME] = [
        Answer(body, headers={"ETag": '"1"'}),
        Answer(status=304, headers={"Cache-Control": "max-age=14400"}),
        Answer(status=304),
    ]
    waits = []
    for _ in range(3):
        await read(harness, Method.FEED, feed_url=HOME)
        main = await harness.method("news")
        assert main.next_poll_at is not None
        waits.append(round((main.next_poll_at - datetime.now(UTC)) / timedelta(minutes=90)))
    assert waits == [1, 3, 1]


async def test_a_feed_that_moved_for_good_is_learned_in_time(site: Site, harness: AppHarness) -> None:
    """Spec 3.2: only after repeated sightings."""
    site.answers[HOME] = Answer(status=301, headers={"Location": "/new"})
    site.answers["http://news.test/new"] = rss("http://news.test/a")
    await read(harness, Method.FEED, feed_url=HOME)
    state = await poll_memory(harness, Method.FEED)
    assert (state["moved"]["target"], state["moved"]["count"]) == ("http://news.test/new", 1)
    long_watched = {**state["moved"], "first_seen": "2026-01-01T00:00:00Z", "count": 4}
    state["moved"] = long_watched
    await harness.execute("UPDATE poll_state SET state = $1 WHERE method = 'main'", state)
    await read(harness, Method.FEED)
    (source,) = await harness.operations.sources.list_sources()
    assert source.settings == {"feed_url": "http://news.test/new"}
    assert "moved" not in await poll_memory(harness, Method.FEED)


async def test_a_spider_obeys_robots_and_hands_on_what_it_finds(site: Site, harness: AppHarness) -> None:
    """Spec 3.5, 8.3: a page that robots.txt forbids does not end the walk, and is not asked for."""
    site.answers["http://news.test/robots.txt"] = Answer("User-agent: *\nDisallow: /private\n")
    links = '<a href="/private">p</a><a href="/list">l</a><a href="http://else.test/x">e</a>'
    site.answers[HOME] = Answer(links, headers=HTML)
    site.answers["http://news.test/list"] = Answer('<a href="/2026/01/15/ferry">f</a>', headers=HTML)
    polled = await read(harness, Method.SPIDER, site_url=HOME, ingestion_mode="spider")
    assert (polled.error, polled.urls) == (None, 2)
    found_on = {"http://news.test/2026/01/15/ferry": "http://news.test/list", "http://else.test/x": HOME}
    for url, page_url in found_on.items():
        why = await harness.operations.why(url)
        assert (why.origin, why.priority.depth, why.came_from) == ("spider", 1, page_url)
    assert len(await harness.urls()) == 2
    assert site.visits("http://news.test/private") == 0
    (problem,) = (await poll_memory(harness, Method.SPIDER))["problems"]
    assert "robots.txt" in problem["problem"]
    (method,) = (await harness.operations.sources.show("news")).methods
    assert [asdict(one) for one in method.problems] == [{**problem, "flaw": None}]
    assert "1 address" in method.why
    assert await count(harness, "documents") == 0


async def test_a_host_that_asks_to_be_left_alone_keeps_what_it_gave_before(site: Site, harness: AppHarness) -> None:
    """Spec 2.3, 3.3: it is not asked again in this pass, nor is the pass kept waiting for an hour."""
    subs = [f"http://news.test/{number}.xml" for number in range(3)]
    site.answers[MAP] = Answer(index(*((url, None) for url in subs)))
    site.answers[subs[0]] = Answer(urlset(("http://news.test/a", None)))
    site.answers[subs[1]] = Answer(status=503, headers={"Retry-After": "3600"})
    polled = await read(harness, Method.SITEMAP, sitemap_url=MAP)
    assert (polled.error, polled.urls) == (None, 1)
    assert [site.visits(url) for url in subs] == [1, 1, 0]
    state = await poll_memory(harness, Method.SITEMAP)
    assert [problem["url"] for problem in state["problems"]] == subs[1:]
    assert "read_at" not in state
    again = await read(harness, Method.SITEMAP)
    assert (again.deferred, again.reason) == (True, Reason.RATE_LIMITED)


async def test_a_site_is_where_its_home_page_leads_to(site: Site, harness: AppHarness) -> None:
    """Spec 3.5: a home page that moved takes its site along; any other page that leaves the site is let go."""
    site.answers[HOME] = Answer(status=301, headers={"Location": "http://paper.test/home"})
    links = '<a href="http://paper.test/a">1</a><a href="http://news.test/b">2</a><a href="http://paper.test/c">3</a>'
    site.answers["http://paper.test/home"] = Answer(links, headers=HTML)
    site.answers["http://paper.test/a"] = Answer(status=302, headers={"Location": "http://else.test/"})
    article = '<a href="/{}-and-three-more-words">x</a>'
    site.answers["http://else.test/"] = Answer(article.format("else"), headers=HTML)
    site.answers["http://news.test/b"] = Answer(article.format("old"), headers=HTML)
    hidden = {**HTML, "X-Robots-Tag": "noindex, nofollow"}
    site.answers["http://paper.test/c"] = Answer(article.format("hidden"), headers=hidden)
    await read(harness, Method.SPIDER, site_url=HOME, ingestion_mode="spider")
    assert await harness.outcomes() == {"http://news.test/old-and-three-more-words": None}


BAD: list[tuple[str, Method, Callable[[], Answer], Reason]] = [
    ("login page", Method.FEED, lambda: Answer(page("Log in"), headers=HTML), Reason.NOT_A_FEED),
    ("deep feed", Method.FEED, lambda: Answer("<rss>" + "<a>" * 1_000_000), Reason.PARSE_FAILED),
    ("entities in a feed", Method.FEED, lambda: Answer(entities()), Reason.PARSE_FAILED),
    ("deep JSON", Method.FEED, lambda: Answer('{"items":' + "[" * 1_000_000), Reason.NOT_A_FEED),
    ("zeros as a feed", Method.FEED, lambda: Answer(bomb()), Reason.NOT_A_FEED),
    ("encoded zeros", Method.FEED, lambda: Answer(bomb(), headers={"Content-Encoding": "gzip"}), Reason.BODY_TOO_LARGE),
    ("zeros in a sitemap", Method.SITEMAP, lambda: Answer(bomb()), Reason.PARSE_FAILED),
    ("zeros in a urlset", Method.SITEMAP, lambda: Answer(gzip.compress(b"<urlset>") + bomb()), Reason.BODY_TOO_LARGE),
    ("entities in a sitemap", Method.SITEMAP, lambda: Answer(entities()), Reason.PARSE_FAILED),
    ("names itself", Method.SITEMAP, lambda: Answer(index((MAP, None))), Reason.PARSE_FAILED),
    ("login page for a sitemap", Method.SITEMAP, lambda: Answer(page("Log in"), headers=HTML), Reason.PARSE_FAILED),
    ("deep page", Method.SPIDER, lambda: Answer("<div>" * 1_000_000, headers=HTML), Reason.PARSE_FAILED),
]


@pytest.mark.parametrize(("method", "answer", "reason"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
async def test_bad_input_is_refused_and_disturbs_no_other_source(
    method: Method, answer: Callable[[], Answer], reason: Reason, site: Site, harness: AppHarness
) -> None:
    """Spec 4.3, issue 6: with a reason in the source's health, and the next source is read as ever."""
    site.answers[HOME] = site.answers[MAP] = answer()
    mode = "spider" if method is Method.SPIDER else "feed"
    begun = time.monotonic()
    polled = await read(harness, method, site_url=HOME, feed_url=HOME, sitemap_url=MAP, ingestion_mode=mode)
    assert time.monotonic() - begun < 20
    assert polled.reason is reason
    shown = await harness.method("news", method)
    assert (shown.last_reason, shown.last_error) == (reason, polled.error)
    assert polled.errors == 1
    site.answers["http://good.test/feed"] = rss("http://good.test/a")
    assert (await harness.operations.sources.add("http://good.test/feed")).items == 1


async def test_nesting_means_nothing_to_a_sitemap(site: Site, harness: AppHarness) -> None:
    """A million nested elements are only long, and the other entries are read."""
    deep = "<urlset>" + "<a>" * 1_000_000 + "<url><loc>http://news.test/a</loc></url></urlset>"
    site.answers[MAP] = Answer(deep)
    assert (await read(harness, Method.SITEMAP, sitemap_url=MAP)).urls == 1


async def test_an_endless_pattern_ends_its_child_and_not_the_program(site: Site, harness: AppHarness) -> None:
    """Spec 4.3: a pattern that passes the check may still be slow on an address of another site."""
    site.answers[HOME] = Answer(f'<a href="/{"a" * 60}">x</a>', headers=HTML)
    polled = await read(
        harness, Method.SPIDER, site_url=HOME, ingestion_mode="spider", article_patterns=["(a|a)*(a|aa)*(a|a)*$x"]
    )
    assert polled.reason is Reason.SANDBOX_TIMEOUT
