"""Spec 9.2: the demo serves a small web of its own, and it is the same web on every run."""

import socket
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from itertools import accumulate
from typing import Any
from zoneinfo import ZoneInfo

import aiohttp
import feedparser
import pytest
from aiohttp.abc import AbstractResolver
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from headwater.demo.content import write_story
from headwater.demo.expected import Expected, expected_outcomes
from headwater.demo.sites import GAZETTE, SITES
from headwater.demo.visits import DemoRequest, find_violations
from headwater.demo.web import DemoWeb
from headwater.model.reasons import Reason

TODAY = date(2026, 3, 3)
FEED_OF_COUNCIL = "http://council.demo.test/news.atom"
ZONES = ("America/New_York", "Europe/London", "UTC")
VOID_TAGS = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}


class DemoResolver(AbstractResolver):
    def __init__(self, port: int) -> None:
        self.port = port

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[Any]:
        return [
            {"hostname": host, "host": "127.0.0.1", "port": self.port, "family": socket.AF_INET, "proto": 0, "flags": 0}
        ]

    async def close(self) -> None:
        pass


def visitor(web: DemoWeb) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=DemoResolver(web.port), use_dns_cache=False))


@pytest.fixture
async def web() -> AsyncIterator[DemoWeb]:
    async with DemoWeb(today=TODAY) as running:
        yield running


@pytest.fixture
async def client(web: DemoWeb) -> AsyncIterator[aiohttp.ClientSession]:
    async with visitor(web) as session:
        yield session


@pytest.fixture
def expected(web: DemoWeb) -> Expected:
    return expected_outcomes(web)


async def get(client: aiohttp.ClientSession, url: str, **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.get(url, headers=sent, allow_redirects=False) as response:
        return response, await response.read()


async def all_bytes(web: DemoWeb) -> dict[str, bytes]:
    expected = expected_outcomes(web)
    urls = [*expected.outcomes, *(feed.url for feed in expected.feeds.values()), *(site.home for site in web.sites)]
    async with visitor(web) as client:
        return {url: (await get(client, url))[1] for url in urls}


async def feed_entries(client: aiohttp.ClientSession, url: str) -> list[Any]:
    _, body = await get(client, url)
    return list(feedparser.parse(body).entries)


async def article_pages(client: aiohttp.ClientSession, expected: Expected) -> dict[str, str]:
    pages = {}
    for url, ends in expected.outcomes.items():
        response, body = await get(client, url)
        if Reason.STORED in ends and response.status == 200:
            pages[url] = body.decode()
    return pages


def paragraphs(page: str, box: str) -> list[str]:
    return [node.text() for node in LexborHTMLParser(page).css(f"{box} p")]


class TagBalance(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


async def test_the_same_day_and_seed_give_the_same_bytes_at_every_address(web: DemoWeb) -> None:
    async with DemoWeb(today=TODAY) as other:
        assert await all_bytes(web) == await all_bytes(other)


async def test_another_seed_gives_other_texts_at_the_same_addresses(web: DemoWeb, expected: Expected) -> None:
    async with DemoWeb(today=TODAY, seed=2) as other:
        assert expected_outcomes(other) == expected
        ours, theirs = await all_bytes(web), await all_bytes(other)
    assert ours.keys() == theirs.keys()
    articles = [url for url, body in ours.items() if len(body) > 20_000]
    assert articles
    assert all(ours[url] != theirs[url] for url in articles)


async def test_every_stored_article_is_a_page_of_real_size_with_all_an_article_has(
    client: aiohttp.ClientSession, expected: Expected
) -> None:
    pages = await article_pages(client, expected)
    assert len(pages) == expected.documents - 1  # one is reached through a redirect in place
    for page in pages.values():
        assert 20_000 <= len(page.encode()) <= 60_000
        tree = LexborHTMLParser(page)
        assert len(tree.css("h1")) == 1
        assert tree.css_first("meta[name=author]") or tree.css_first(".post-author")
        assert tree.css_first("meta[name=description]")
        assert tree.css_first("img[src$='-1200.jpg']")
        assert tree.css_first("#cookie-notice")
        assert tree.css(".teaser a")
        assert tree.css("style")
        assert tree.css("script")


async def test_pages_are_well_formed(client: aiohttp.ClientSession, expected: Expected) -> None:
    others = [*(site.home for site in SITES), f"{GAZETTE.home}section/rivers", f"{GAZETTE.home}nothing"]
    pages = [
        *(await article_pages(client, expected)).values(),
        *[(await get(client, url))[1].decode() for url in others],
    ]
    for page in pages:
        balance = TagBalance()
        balance.feed(page)
        balance.close()
        assert balance.open == []


@given(
    seed=st.integers(),
    language=st.sampled_from(["en", "de", "fr"]),
    headline=st.from_regex("[A-Z][a-z]{3,30}", fullmatch=True),
)
def test_stories_are_of_real_length_whatever_the_seed(seed: int, language: str, headline: str) -> None:
    topic = {"en": "weather", "de": "rivers", "fr": "libraries"}[language]
    story = write_story(headline, topic=topic, language=language, seed=seed)
    words = " ".join(story.paragraphs).split()
    assert 600 <= len(words) <= 1500
    assert len(set(story.paragraphs)) == len(story.paragraphs) >= 8


async def test_all_languages_are_spoken(client: aiohttp.ClientSession, expected: Expected) -> None:
    pages = (await article_pages(client, expected)).values()
    assert {LexborHTMLParser(page).css_first("html").attributes["lang"] for page in pages} == {"en", "de", "fr"}


async def test_one_look_speaks_json_ld_and_open_graph_and_another_plain_meta(client: aiohttp.ClientSession) -> None:
    rich = (await get(client, "http://gazette.demo.test/news/road-repairs"))[1].decode()
    plain = (await get(client, "http://council.demo.test/releases/draft-budget-goes-out-for-comment"))[1].decode()
    assert "application/ld+json" in rich
    assert 'property="og:title"' in rich
    assert "ld+json" not in plain
    assert "og:" not in plain
    assert 'name="DC.date.issued"' in plain


@pytest.mark.parametrize(
    ("url", "status", "location"),
    [
        ("http://wire.demo.test/r/1182", 301, "/stories/weir-gates"),
        ("http://wire.demo.test/stories/weir-gates", 200, None),
        ("http://wire.demo.test/out/4471", 302, "http://mirror.demo.test/copies/parish-maps"),
        ("http://mirror.demo.test/copies/parish-maps", 200, None),
        ("http://wire.demo.test/stories/story-withdrawn-by-the-desk", 404, None),
        ("http://mirror.demo.test/private/minutes", 200, None),
        ("http://gazette.demo.test/news/road-repairs?utm_source=wire&utm_medium=rss&utm_campaign=desk", 200, None),
        ("http://gazette.demo.test/robots.txt", 200, None),
        ("http://council.demo.test/robots.txt", 404, None),
        ("http://mirror.demo.test/robots.txt", 200, None),
        ("http://gazette.demo.test/no/such/page", 404, None),
        ("http://stranger.demo.test/", 421, None),
    ],
)
async def test_special_addresses_answer_as_promised(
    client: aiohttp.ClientSession, url: str, status: int, location: str | None
) -> None:
    response, _ = await get(client, url)
    assert response.status == status
    assert response.headers.get("Location") == location


async def test_the_expected_outcomes_fit_what_the_addresses_answer(
    client: aiohttp.ClientSession, expected: Expected
) -> None:
    statuses = {
        Reason.STORED: {200, 301},
        Reason.REDIRECT: {302},
        Reason.NOT_FOUND: {404},
        Reason.ROBOTS_BLOCKED: {200},
    }
    for url, ends in expected.outcomes.items():
        response, _ = await get(client, url)
        assert response.status in statuses[min(ends - {Reason.LINKED})], url


async def test_following_all_feeds_and_redirects_reaches_just_the_expected_addresses(
    client: aiohttp.ClientSession, expected: Expected
) -> None:
    reached = set()
    for feed in expected.feeds.values():
        reached |= {entry.link.partition("?")[0] for entry in await feed_entries(client, feed.url)}
    for url in tuple(reached):
        response, _ = await get(client, url)
        if response.headers.get("Location", "").startswith("http"):
            reached.add(response.headers["Location"])
    assert reached == set(expected.outcomes)


async def test_robots_of_the_mirror_forbid_only_what_is_private(client: aiohttp.ClientSession) -> None:
    _, body = await get(client, "http://mirror.demo.test/robots.txt")
    assert body == b"User-agent: *\nDisallow: /private/\n"


async def test_one_text_stands_under_two_hosts_in_different_looks(
    client: aiohttp.ClientSession, expected: Expected
) -> None:
    twins = [url for url, ends in expected.outcomes.items() if ends == {"stored", "linked"}]
    assert sorted(url.split("/")[2] for url in twins) == ["gazette.demo.test", "wire.demo.test"]
    first, second = [(await get(client, url))[1].decode() for url in twins]
    assert paragraphs(first, ".story__body") == paragraphs(second, ".post-content") != []
    assert first != second
    assert expected.texts == expected.documents - 1


async def test_one_address_is_listed_by_two_feeds_with_and_without_tracking(client: aiohttp.ClientSession) -> None:
    plain = {entry.link for entry in await feed_entries(client, "http://gazette.demo.test/feed.xml")}
    tracked = {entry.link for entry in await feed_entries(client, "http://wire.demo.test/rss") if "utm_" in entry.link}
    assert len(tracked) == 1
    assert {url.partition("?")[0] for url in tracked} <= plain


@pytest.mark.parametrize("today", [TODAY, date(2026, 3, 8), date(2025, 10, 26), date(2024, 2, 29), date(2026, 1, 1)])
async def test_feeds_list_as_many_new_and_latest_entries_as_promised_in_every_timezone(today: date) -> None:
    async with DemoWeb(today=today) as web, visitor(web) as client:
        for feed in expected_outcomes(web).feeds.values():
            entries = await feed_entries(client, feed.url)
            assert len(entries) == feed.items
            for zone in ZONES:
                assert _counts(entries, today, ZoneInfo(zone)) == (feed.new, feed.latest)
            assert feed.new >= 2


def _counts(entries: list[Any], today: date, zone: ZoneInfo) -> tuple[int, int]:
    new = latest = 0
    for entry in entries:
        published = _day(entry.get("published_parsed"), zone) or today
        updated = _day(entry["updated_parsed"], zone) if "updated" in entry else None
        new += published == today
        latest += published < today and updated == today
    return new, latest


def _day(moment: Any, zone: ZoneInfo) -> date | None:
    return moment and datetime(*moment[:6], tzinfo=UTC).astimezone(zone).date()


async def test_dates_come_in_many_forms_and_one_entry_has_none(
    client: aiohttp.ClientSession, expected: Expected
) -> None:
    stamps = [
        entry.get("published") for feed in expected.feeds.values() for entry in await feed_entries(client, feed.url)
    ]
    assert stamps.count(None) == 1
    forms = {stamp[stamp.rindex(":") + 3 :].strip() if "," in stamp else stamp[19:] for stamp in stamps if stamp}
    assert forms == {"GMT", "EST", "+0100", "Z", "+02:00"}


async def test_the_undated_article_has_no_date_on_its_page_either(client: aiohttp.ClientSession) -> None:
    _, body = await get(client, "http://wire.demo.test/stories/readers-borrow-more-books-than-before-the-floods")
    assert b"<time" not in body
    assert b"pubdate" not in body


async def test_a_page_tells_the_time_its_feed_tells(client: aiohttp.ClientSession) -> None:
    for entry in await feed_entries(client, FEED_OF_COUNCIL):
        _, body = await get(client, entry.link)
        stamp = LexborHTMLParser(body).css_first("time").attributes["datetime"]
        assert stamp is not None
        assert datetime.fromisoformat(stamp) == datetime.fromisoformat(entry.published)


async def test_a_feed_that_has_not_changed_answers_304(client: aiohttp.ClientSession) -> None:
    """Spec 3.2."""
    first, body = await get(client, FEED_OF_COUNCIL)
    etag, modified = first.headers["ETag"], first.headers["Last-Modified"]
    again, nothing = await get(client, FEED_OF_COUNCIL, If_None_Match=etag)
    since, _ = await get(client, FEED_OF_COUNCIL, If_Modified_Since=modified)
    assert (first.status, again.status, since.status) == (200, 304, 304)
    assert again.headers["ETag"] == etag
    assert body
    assert not nothing


async def test_a_visitor_with_an_older_copy_gets_the_whole_feed(client: aiohttp.ClientSession) -> None:
    """Spec 3.2."""
    first, body = await get(client, FEED_OF_COUNCIL)
    modified = first.headers["Last-Modified"]
    stale, stale_body = await get(client, FEED_OF_COUNCIL, If_None_Match='"old"', If_Modified_Since=modified)
    older, older_body = await get(client, FEED_OF_COUNCIL, If_Modified_Since="Mon, 05 Jan 2026 00:00:00 GMT")
    assert (stale.status, older.status) == (200, 200)
    assert stale_body == older_body == body


async def test_the_front_page_names_the_feed_and_links_every_article(client: aiohttp.ClientSession) -> None:
    """Spec 3.4."""
    tree = LexborHTMLParser((await get(client, GAZETTE.home))[1])
    assert tree.css_first("link[rel=alternate]").attributes["href"] == GAZETTE.feed_url
    links = {node.attributes["href"] for node in tree.css("main a")}
    assert links == {GAZETTE.url(piece) for piece in GAZETTE.pieces}


async def test_only_get_and_head_are_answered(client: aiohttp.ClientSession) -> None:
    async with client.post(GAZETTE.home) as posted, client.head(GAZETTE.home) as asked:
        assert (posted.status, asked.status) == (405, 200)
        assert int(asked.headers["Content-Length"]) > 10_000
        assert await asked.read() == b""


async def test_every_request_is_kept_as_it_was_sent(web: DemoWeb, client: aiohttp.ClientSession) -> None:
    await get(client, "http://wire.demo.test/rss?a=1")
    await get(client, "http://stranger.demo.test/a%20b")
    assert [(seen.host, seen.path, seen.status) for seen in web.requests] == [
        ("wire.demo.test", "/rss?a=1", 200),
        ("stranger.demo.test", "/a%20b", 421),
    ]
    assert all(seen.arrived <= seen.ended for seen in web.requests)


async def test_a_hasty_visitor_is_found_out_and_one_who_asks_other_hosts_meanwhile_is_not(
    web: DemoWeb, client: aiohttp.ClientSession
) -> None:
    """Spec 2.3."""
    for host in web.hosts:
        await get(client, f"http://{host}/")
    assert web.politeness(60.0) == []
    await get(client, "http://wire.demo.test/rss")
    (violation,) = web.politeness(60.0)
    assert (violation.earlier.path, violation.later.path, violation.overlapped) == ("/", "/rss", False)
    assert "wire.demo.test: /rss came" in str(violation)


def visit(arrived: float, ended: float, path: str = "/") -> DemoRequest:
    return DemoRequest("wire.demo.test", path, arrived, ended, 200)


def test_an_answer_still_going_out_is_overlapped_even_by_the_request_after_next() -> None:
    """Spec 2.3."""
    slow = visit(0.0, 9.0, "/slow")
    requests = [visit(4.0, 4.1), slow, visit(2.0, 2.1), visit(10.0, 10.1)]
    found = find_violations(requests, 1.0)
    assert [(violation.earlier, violation.later.arrived, violation.overlapped) for violation in found] == [
        (slow, 2.0, True),
        (slow, 4.0, True),
    ]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), min_size=1), st.integers(6, 20))
def test_as_many_violations_are_found_as_requests_come_too_soon(visits: list[tuple[int, int]], delay: int) -> None:
    """Spec 2.3."""
    gaps = [gap for gap, _ in visits]
    starts = accumulate(gaps)
    requests = [visit(start, start + min(lasts, delay)) for start, (_, lasts) in zip(starts, visits, strict=True)]
    assert len(find_violations(requests, delay)) == sum(gap < delay for gap in gaps[1:])


async def test_the_port_is_known_only_while_the_web_runs() -> None:
    web = DemoWeb(today=TODAY)
    with pytest.raises(RuntimeError, match="not been started"):
        _ = web.port
    await web.start()
    assert 0 < web.port < 65_536
    await web.stop()
    with pytest.raises(RuntimeError, match="not been started"):
        _ = web.port
