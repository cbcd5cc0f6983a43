"""Feeds of searches are read back as the documents are (spec 8.5, issue 23)."""

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import aiohttp
import feedparser
import pytest

from headwater.core.settings import Settings
from headwater.feeds.parser import parse_feed
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


async def read_both(address: str, path: str, query: str = "") -> tuple[Any, Any]:
    """Return a feed as feedparser reads its Atom, and its JSON."""
    status, _, atom = await get(f"{address}/feeds/{path}.atom{query}")
    assert status == 200
    feed = feedparser.parse(atom)
    assert (feed.bozo, feed.version) == (False, "atom10")
    return feed, json.loads((await get(f"{address}/feeds/{path}.json{query}"))[2])


@pytest.fixture
async def saved(address: str) -> str:
    """The address of an API with a saved search."""
    assert (await post(f"{address}/saved-searches/rivers", {"words": "river"}))[0] == 201
    return address


async def read_bytes(address: str, path: str) -> bytes:
    status, _, body = await get(f"{address}/feeds/{path}")
    assert status == 200
    return body


async def post(url: str, body: object) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession() as session, session.post(url, json=body, headers=headers) as answer:
        return answer.status, await answer.json()


async def test_feeds_of_sources_and_saved_searches_have_their_documents(saved: str) -> None:
    """Both forms have the same entries with the same ids, and ids do not depend on the feed."""
    _, _, all_of_them = await get(f"{saved}/feeds/search.json?q=site:test")
    ids = {item["url"]: item["id"] for item in json.loads(all_of_them)["items"]}
    for path, expected in (
        ("source/manual", set(PAGES)),
        ("saved/rivers", {"http://en.test/river", "http://en.test/budget"}),
    ):
        atom, as_json = await read_both(saved, path, "?full=true")
        found = {entry.link: entry.id for entry in atom.entries}
        assert found == {item["url"]: item["id"] for item in as_json["items"]}
        assert found == {url: one for url, one in ids.items() if url in expected}
        texts = {item["url"]: item["content_text"].split() for item in as_json["items"]}
        assert {entry.link: entry.content[0].value.split() for entry in atom.entries} == texts


async def test_our_own_reader_reads_both_forms_back_equal(saved: str) -> None:
    """Title, address, dates, byline and id of each entry."""
    read = []
    for form in ("atom", "json"):
        feed = parse_feed(await read_bytes(saved, f"source/manual.{form}"), f"{saved}/feed")
        # An entry of Atom without an author has that of its feed.
        read.append([one._replace(author=one.author or "Headwater", summary="") for one in feed.entries])
    assert read[0] == read[1]
    _, _, body = await get(f"{saved}/search?q=site:test&sort=newest&limit=50")
    hits = {hit["url"]: (hit["title"], hit["published_at"]) for hit in json.loads(body)["hits"]}
    assert {one.url: (one.title, f"{one.published_at:%Y-%m-%dT%H:%M:%SZ}") for one in read[0]} == hits


# It runs in a process of its own, because the guard of messages to services replaces the connections of this one.
FOLLOW = """
import json, sys
import feedparser_sgmllib
sys.modules["sgmllib"] = feedparser_sgmllib  # reader imports the module by its old name
import reader
own = reader.make_reader(":memory:")
own.add_feed(sys.argv[1])
own.update_feeds()
(feed,) = own.get_feeds()
assert feed.last_exception is None, feed.last_exception
entries = {
    one.id: [one.link, one.title, str(one.published), " ".join(one.content[0].value.split())]
    for one in own.get_entries()
}
print(json.dumps([entries, sum(one.value.new for one in own.update_feeds_iter() if one.value)]))
"""


async def test_the_reader_of_others_follows_both_forms_and_finds_the_same_entries(saved: str) -> None:
    """The library `reader` fetches the feed itself. It finds nothing new the second time."""

    def follow(form: str) -> Any:
        command = [sys.executable, "-c", FOLLOW, f"{saved}/feeds/source/manual.{form}?full=true"]
        return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)

    (atom, new), (as_json, new_json) = [await asyncio.to_thread(follow, form) for form in ("atom", "json")]
    assert {link for link, *_ in atom.values()} == set(PAGES)
    assert atom == as_json
    assert new == new_json == 0


async def test_the_feed_of_a_day_has_its_items(saved: str) -> None:
    _, _, body = await get(f"{saved}/daily/2026-03-01?limit=500")
    day = json.loads(body)
    assert len(day["items"]) > 1
    atom, as_json = await read_both(saved, "day/2026-03-01")
    assert {entry.link for entry in atom.entries} == {item["url"] for item in day["items"]}
    assert [entry.id for entry in atom.entries] == [item["id"] for item in as_json["items"]]
    assert all(item["content_text"] for item in as_json["items"])
    assert (await read_both(saved, "day/2026-03-05"))[0].entries == []


async def test_every_feed_answers_304_and_refuses_what_does_not_exist(saved: str) -> None:
    for path in ("day/2026-03-01.atom", "source/manual.json", "saved/rivers.atom", "category.json?category=news"):
        status, headers, _ = await get(f"{saved}/feeds/{path}")
        assert status == 200, path
        again = await get(f"{saved}/feeds/{path}", **{"If-None-Match": headers["ETag"]})
        assert (again[0], again[2]) == (304, b"")
    for path, reason in (
        ("day/yesterday.atom", "bad_request"),
        ("day/2026-02-30.atom", "bad_request"),
        ("source/none.atom", "unknown_source"),
        ("saved/none.json", "unknown_saved_search"),
    ):
        assert json.loads((await get(f"{saved}/feeds/{path}"))[2])["error"]["reason"] == reason


async def test_a_secret_address_needs_no_token_until_it_is_removed(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Reading needs a token here. The address is stored as a hash, and the feed does not repeat its secret part."""
    site.answers.update(PAGES)
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN, allowed_hosts=("news.example",))
    async with open_harness(settings) as harness:
        await harness.fetch(*PAGES)
        async with open_api(settings) as api:
            assert (await get(f"{api.base}/feeds/source/manual.atom"))[0] == 401
            new = {"name": "reader", "kind": "source", "value": "manual", "with_text": True}
            status, added = await post(f"{api.base}/feed-addresses", new)
            assert status == 201
            status, headers, body = await get(api.base + added["path"])
            assert (status, len(feedparser.parse(body).entries)) == (200, len(PAGES))
            secret = added["path"].split("/")[-1].removesuffix(".atom")
            assert len(secret) == 43
            assert secret.encode() not in body
            again = await get(api.base + added["path"], **{"If-None-Match": headers["ETag"]})
            assert again[0] == 304
            as_json = await get(api.base + added["path"].replace(".atom", ".json"))
            assert len(json.loads(as_json[2])["items"]) == len(PAGES)
            ((digest, used),) = await harness.rows("SELECT digest, last_used_at IS NOT NULL FROM feed_addresses")
            assert (digest, used) == (hashlib.sha256(secret.encode()).digest(), True)
            listed = await get(f"{api.base}/feed-addresses", Authorization=f"Bearer {TOKEN}")
            assert secret not in listed[2].decode()
            assert (await post(f"{api.base}/feed-addresses", new))[1]["error"]["reason"] == "feed_address_exists"
            for wrong in (f"/feeds/secret/{secret[:-1]}.atom", "/feeds/secret/x.json", "/feeds/secret/%00.atom"):
                status, _, answer = await get(api.base + wrong)
                assert (status, json.loads(answer)["error"]["reason"]) == (404, "unknown_feed_address")
            assert (await api.request("DELETE", "/feed-addresses/reader"))[0] == 200
            assert (await get(api.base + added["path"]))[0] == 404
            assert (await api.request("DELETE", "/feed-addresses/reader"))[0] == 404


async def test_an_address_of_nothing_is_not_made(saved: str) -> None:
    for kind, value, reason in (
        ("source", "none", "unknown_source"),
        ("saved", "none", "unknown_saved_search"),
        ("day", "soon", "bad_request"),
        ("category", "", "bad_request"),
    ):
        status, answer = await post(f"{saved}/feed-addresses", {"name": "one", "kind": kind, "value": value})
        assert status in (404, 422)
        assert answer["error"]["reason"] == reason
