"""The demo web's feeds and sitemaps lead to its pages and date them (spec 3.2, 3.3, 6.2, 9.2)."""

import gzip
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from urllib.parse import urljoin
from zoneinfo import ZoneInfo

import aiohttp
import feedparser
import pytest
from lxml import etree
from selectolax.lexbor import LexborHTMLParser

from headwater.core.urls import host_of
from headwater.demo.expected import Expected, expected_outcomes
from headwater.demo.federal_sites import FEDERAL
from headwater.demo.govuk_site import GOVUK
from headwater.demo.plan import Ends
from headwater.demo.sites import GAZETTE
from headwater.demo.web import DemoWeb
from tests.demo_client import TODAY, get, open_client

FEED_OF_COUNCIL = "http://council.demo.test/news.atom"
ZONES = ("America/New_York", "Europe/London", "UTC")
SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
NEWS = "{http://www.google.com/schemas/sitemap-news/0.9}"


@dataclass(frozen=True)
class Entry:
    link: str
    stamp: str | None
    published: datetime | None
    updated: datetime | None


async def feed_entries(client: aiohttp.ClientSession, url: str) -> list[Entry]:
    response, body = await get(client, url)
    if response.content_type == "application/feed+json":
        return [_json_entry(item) for item in json.loads(body)["items"]]
    parsed = feedparser.parse(body)
    assert not parsed.bozo
    return [
        Entry(
            link=entry.link,
            stamp=entry.get("published"),
            published=_utc(entry.get("published_parsed")),
            updated=_utc(entry["updated_parsed"] if "updated" in entry else None),
        )
        for entry in parsed.entries
    ]


def _json_entry(item: dict[str, Any]) -> Entry:
    modified = item.get("date_modified")
    return Entry(
        item["url"],
        item["date_published"],
        datetime.fromisoformat(item["date_published"]),
        datetime.fromisoformat(modified) if modified else None,
    )


def _utc(moment: Any) -> datetime | None:
    return moment and datetime(*moment[:6], tzinfo=UTC)


async def test_feeds_and_redirects_lead_to_exactly_the_expected_addresses(
    client: aiohttp.ClientSession, expected: Expected
) -> None:
    reached = set()
    for feed in expected.feeds.values():
        reached |= {entry.link.partition("?")[0] for entry in await feed_entries(client, feed.url)}
    redirected = [url for url, ends in expected.outcomes.items() if ends == Ends.REDIRECTED]
    for url in [*redirected, "http://wire.demo.test/r/1182"]:
        reached.add(urljoin(url, (await get(client, url))[0].headers["Location"]))
    without_feed = {*expected.sites, *expected.walled, GOVUK.host, *(site.host for site in FEDERAL)}
    assert reached == {url for url in expected.outcomes if host_of(url) not in without_feed}


async def test_one_address_is_listed_by_two_feeds_with_and_without_tracking(client: aiohttp.ClientSession) -> None:
    plain = {entry.link for entry in await feed_entries(client, "http://gazette.demo.test/feed.xml")}
    tracked = {entry.link for entry in await feed_entries(client, "http://wire.demo.test/rss") if "utm_" in entry.link}
    assert len(tracked) == 1
    assert {url.partition("?")[0] for url in tracked} <= plain


@pytest.mark.parametrize("today", [TODAY, date(2026, 3, 8), date(2025, 10, 26), date(2024, 2, 29), date(2026, 1, 1)])
async def test_feeds_have_the_expected_new_and_latest_entries_in_every_timezone(today: date) -> None:
    async with DemoWeb(today=today) as web, open_client(web) as client:
        for feed in expected_outcomes(web).feeds.values():
            entries = await feed_entries(client, feed.url)
            assert len(entries) == feed.items
            for zone in ZONES:
                assert _counts(entries, today, ZoneInfo(zone)) == (feed.new, feed.latest)
            assert feed.new >= 1


@pytest.mark.parametrize("hour", [5, 6, 11, 13, 18, 30])
async def test_a_demo_begun_at_any_hour_has_the_same_entries_and_none_in_the_future(hour: int) -> None:
    """Headwater takes no date in the future."""
    begun_at = datetime.combine(TODAY, time(), UTC) + timedelta(hours=hour, minutes=7)
    async with DemoWeb(today=TODAY, begun_at=begun_at) as web, open_client(web) as client:
        for feed in expected_outcomes(web).feeds.values():
            entries = await feed_entries(client, feed.url)
            assert all(
                moment is None or moment <= begun_at for one in entries for moment in (one.published, one.updated)
            )
            assert _counts(entries, TODAY, ZoneInfo("America/New_York")) == (feed.new, feed.latest)


def _counts(entries: list[Entry], today: date, zone: ZoneInfo) -> tuple[int, int]:
    new = latest = 0
    for entry in entries:
        if entry.published is None:
            continue
        published = entry.published.astimezone(zone).date()
        updated = entry.updated.astimezone(zone).date() if entry.updated else None
        new += published == today
        latest += published < today and updated == today
    return new, latest


async def test_feeds_use_many_date_formats_and_one_entry_has_no_date(
    client: aiohttp.ClientSession, expected: Expected
) -> None:
    stamps = [entry.stamp for feed in expected.feeds.values() for entry in await feed_entries(client, feed.url)]
    assert stamps.count(None) == 1
    forms = {stamp[stamp.rindex(":") + 3 :].strip() if "," in stamp else stamp[19:] for stamp in stamps if stamp}
    assert forms == {"GMT", "EST", "+0100", "Z", "+02:00"}


async def test_a_page_and_its_feed_have_the_same_time(client: aiohttp.ClientSession) -> None:
    for entry in await feed_entries(client, "http://kawabe.demo.test/feed.json"):
        stamp = LexborHTMLParser((await get(client, entry.link))[1]).css_first("time").attributes["datetime"]
        assert stamp is not None
        assert datetime.fromisoformat(stamp) == entry.published


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


async def test_a_client_with_an_older_copy_gets_the_whole_feed(client: aiohttp.ClientSession) -> None:
    """Spec 3.2."""
    first, body = await get(client, FEED_OF_COUNCIL)
    modified = first.headers["Last-Modified"]
    stale, stale_body = await get(client, FEED_OF_COUNCIL, If_None_Match='"old"', If_Modified_Since=modified)
    older, older_body = await get(client, FEED_OF_COUNCIL, If_Modified_Since="Mon, 05 Jan 2026 00:00:00 GMT")
    assert (stale.status, older.status) == (200, 200)
    assert stale_body == older_body == body


async def test_sitemaps_name_each_other_and_every_page(client: aiohttp.ClientSession) -> None:
    """Spec 3.3."""

    async def sitemap(url: str) -> Any:
        _, body = await get(client, url)
        return etree.fromstring(gzip.decompress(body) if url.endswith(".gz") else body)

    index = await sitemap(f"{GAZETTE.home}sitemap_index.xml")
    assert index.tag == f"{SITEMAP}sitemapindex"
    stories, lists, news = [await sitemap(node.text) for node in index.iter(f"{SITEMAP}loc")]
    front = LexborHTMLParser((await get(client, GAZETTE.home))[1])
    linked = [node.attributes["href"] for node in front.css("main a")]
    assert [node.text for node in stories.iter(f"{SITEMAP}loc")] == linked
    assert all(datetime.fromisoformat(node.text).date() <= TODAY for node in stories.iter(f"{SITEMAP}lastmod"))
    assert next(node.text for node in lists.iter(f"{SITEMAP}loc")) == GAZETTE.home
    assert not list(lists.iter(f"{SITEMAP}lastmod"))
    dates = [datetime.fromisoformat(node.text).date() for node in news.iter(f"{NEWS}publication_date")]
    assert sorted((TODAY - day).days for day in dates) == [0, 0, 1, 1]
    assert {node.text for node in news.iter(f"{NEWS}name")} == {GAZETTE.title}
