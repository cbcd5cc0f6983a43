"""Feeds of searches are read back as the documents are (spec 8.5, issue 23)."""

import json
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import aiohttp
import feedparser
import pytest

from headwater.core.settings import Settings
from tests.api import TOKEN, open_api
from tests.harness import open_harness
from tests.integration.test_search import PAGES
from tests.server import Site


@pytest.fixture
async def address(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[str]:
    """The address of an API with pages in many languages."""
    site.answers.update(PAGES)
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        await harness.fetch(*PAGES)
    async with open_api(settings) as api:
        yield api.base


async def get(url: str, **headers: str) -> tuple[int, Any, bytes]:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, answer.headers, await answer.read()


async def test_atom_is_read_back_as_the_documents_are(address: str) -> None:
    _, _, found = await get(f"{address}/search?q=site:test&sort=newest&limit=50")
    status, headers, body = await get(f"{address}/feeds/search.atom?q=site:test&full=true")
    assert (status, headers["Content-Type"]) == (200, "application/atom+xml; charset=utf-8")
    feed = feedparser.parse(body)
    assert (feed.bozo, feed.version) == (False, "atom10")
    hits = json.loads(found)["hits"]
    assert [(entry.link, entry.title) for entry in feed.entries] == [(hit["url"], hit["title"]) for hit in hits]
    assert len({entry.id for entry in feed.entries}) == len(PAGES)
    for entry, hit in zip(feed.entries, hits, strict=True):
        _, _, document = await get(f"{address}/documents/{hit['id']}")
        stored = json.loads(document)
        assert entry.content[0].value.split() == stored["text"].split()
        assert entry.get("author") == (stored["byline"] or None)
        assert entry.published_parsed[:6] == datetime.fromisoformat(stored["published_at"]).timetuple()[:6]


async def test_json_has_the_same_entries_with_leads(address: str) -> None:
    _, headers, body = await get(f"{address}/feeds/search.json?q=site:test")
    feed = json.loads(body)
    assert (headers["Content-Type"], feed["version"]) == (
        "application/feed+json; charset=utf-8",
        "https://jsonfeed.org/version/1.1",
    )
    _, _, atom = await get(f"{address}/feeds/search.atom?q=site:test")
    assert [item["id"] for item in feed["items"]] == [entry.id for entry in feedparser.parse(atom).entries]
    assert all(0 < len(item["content_text"]) <= 500 for item in feed["items"])


async def test_a_feed_that_did_not_change_answers_304(address: str) -> None:
    for form in ("atom", "json"):
        url = f"{address}/feeds/search.{form}?q=river"
        _, headers, _ = await get(url)
        again = await get(url, **{"If-None-Match": headers["ETag"]})
        assert (again[0], again[2]) == (304, b"")
        assert (await get(url, **{"If-None-Match": '"other"'}))[0] == 200


async def test_a_search_that_finds_nothing_is_an_empty_feed(address: str) -> None:
    feed = feedparser.parse((await get(f"{address}/feeds/search.atom?q=zebra"))[2])
    assert (feed.bozo, feed.entries) == (False, [])
    assert (await get(f"{address}/feeds/search.rss?q=zebra"))[0] == 422
