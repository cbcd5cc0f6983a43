"""The routes of sources (spec 3.1, 8.1; issue 6)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db.pool import Database
from tests.api import TOKEN, open_api
from tests.replaying import index, urlset
from tests.server import Answer, Site, page, rss
from tests.waiting import until

FEED = "http://news.test/feed"
HOME = "http://news.test/"
HTML = {"Content-Type": "text/html"}

Ask = Callable[..., Awaitable[tuple[int, Any]]]


@pytest.fixture
async def ask(site: Site, make_settings: Callable[..., Settings], database: Database) -> AsyncIterator[Ask]:
    """A function that sends a request to a running program."""
    del database  # the program needs its schema
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_api(settings) as api:
        yield api.request


@pytest.fixture(autouse=True)
def news(site: Site) -> None:
    link = '<link rel=alternate type="application/rss+xml" href="/feed">'
    site.answers[HOME] = Answer(page("home").replace("</head>", f"{link}</head>"), headers=HTML)
    site.answers[FEED] = rss("http://news.test/a", title="The news")
    site.answers["http://news.test/a"] = Answer(page("the river"), headers=HTML)


async def test_selectors_that_cannot_work_are_refused_by_field(ask: Ask) -> None:
    """Spec 3.1, 5.2."""
    await ask("POST", "/sources", {"url": HOME, "settings": {"selectors": {"body": "article"}}})
    status, refused = await ask("PATCH", "/sources/news.test", {"settings": {"selectors": {"image": "img["}}})
    assert status == 422
    assert "selectors.image" in refused["error"]["message"]
    assert (await ask("GET", "/sources/news.test"))[1]["settings"]["selectors"] == {"body": "article"}


async def test_a_source_is_added_read_changed_and_removed(ask: Ask) -> None:
    status, added = await ask("POST", "/sources", {"url": HOME, "settings": {"category": "News"}})
    assert (status, added["name"], added["method"], added["items"], added["others"]) == (
        201,
        "news.test",
        "main",
        1,
        [],
    )
    _, listed = await ask("GET", "/sources?health=on_time&category=News")
    assert [(row["name"], row["health"]) for row in listed["sources"]] == [("news.test", "on_time")]
    _, none = await ask("GET", "/sources?health=failing")
    assert (none["sources"], none["next"], none["total"], none["health"]["on_time"]) == ([], None, 0, 1)
    status, shown = await ask("GET", "/sources/news.test")
    assert (shown["settings"]["feed_url"], shown["defaults"]["priority"], shown["items"]) == (FEED, 5, 1)
    assert [one["method"] for one in shown["methods"]] == ["main", "sitemap"]
    status, changed = await ask("PATCH", "/sources/news.test", {"settings": {"priority": 7}, "unset": ["category"]})
    assert (status, [(one["field"], one["after"]) for one in changed["changed"]]) == (
        200,
        [("category", None), ("priority", 7)],
    )
    assert (await ask("POST", "/sources/news.test/disable"))[1]["health"] == "disabled"
    assert (await ask("POST", "/sources/news.test/enable"))[1]["health"] == "on_time"
    status, synced = await ask("POST", "/scraping/news.test/sync")
    assert (status, synced["new_items"]) == (200, 0)
    assert (await ask("POST", "/scraping/news.test/sync", {"method": "spider"}))[0] == 422
    status, waiting = await ask("POST", "/sources/news.test/backfill", {"since": "2024-01-01"})
    assert (status, waiting["methods"][1]["backfill_since"][:10]) == (202, "2024-01-01")
    status, run = await ask("POST", "/sources/news.test/sync?method=main")
    assert (status, run["source"], run["trigger"]) == (202, "news.test", "sync")

    async def has_ended() -> bool:
        return bool((await ask("GET", f"/ops/runs/{run['id']}"))[1]["status"] == "succeeded")

    await until(has_ended)
    status, removed = await ask("DELETE", "/sources/news.test")
    assert (status, removed) == (200, {"name": "news.test", "kept": True, "ended_urls": 1})
    status, gone = await ask("GET", "/sources/news.test")
    assert (status, gone["error"]["reason"]) == (404, Reason.UNKNOWN_SOURCE)


async def test_items_with_one_date_have_a_usual_gap_of_zero(ask: Ask, site: Site) -> None:
    """Spec 3.1."""
    site.answers[FEED] = replace(listed := rss(HOME + "a", HOME + "b"), body=str(listed.body).replace("11:00", "10:00"))
    await ask("POST", "/sources", {"url": FEED})
    status, shown = await ask("GET", "/sources/news.test")
    assert (status, shown["usual_gap_seconds"]) == (200, 0)
    assert (await ask("GET", "/sources"))[0] == 200


async def test_a_source_shows_the_addresses_that_its_last_poll_could_not_read(ask: Ask, site: Site) -> None:
    """Spec 3.3."""
    site.answers["http://news.test/map.xml"] = Answer(index(("/good.xml", None), ("/bad.xml", None)))
    site.answers["http://news.test/good.xml"] = Answer(urlset(("http://news.test/a", None)))
    settings = {"sitemap_url": "http://news.test/map.xml"}
    assert (await ask("POST", "/sources", {"name": "maps", "settings": settings}))[0] == 201
    assert (await ask("POST", "/scraping/maps/sync"))[0] == 200
    (method,) = (await ask("GET", "/sources/maps"))[1]["methods"]
    assert [(one["url"], "404" in one["problem"]) for one in method["problems"]] == [("http://news.test/bad.xml", True)]
    assert "could not read 1 address" in method["why"]


async def test_discover_and_test_save_nothing(ask: Ask) -> None:
    status, found = await ask("POST", "/sources/discover", {"url": HOME})
    assert (status, found["feeds"]) == (200, [{"url": FEED, "title": "The news"}])
    status, tried = await ask("POST", "/sources/test", {"target": HOME})
    assert (status, tried["works"], tried["stages"][-1]["name"]) == (200, True, "article")
    _, failed = await ask("POST", "/sources/test", {"target": "http://nothing.test/"})
    assert (failed["works"], "404" in failed["stages"][-1]["error"]) == (False, True)
    assert (await ask("GET", "/sources"))[1]["sources"] == []


async def test_sources_are_imported_and_exported(ask: Ask) -> None:
    text = "- {name: a, feed_url: 'https://a.example/feed'}\n- {name: b}\n"
    for dry_run in (True, False):
        status, imported = await ask("POST", "/sources/import", {"text": text, "dry_run": dry_run})
        assert (status, imported["added"], imported["dry_run"]) == (200, ["a"], dry_run)
        assert [(one["where"], one["given"]) for one in imported["refused"]] == [("line 2", "b")]
    status, exported = await ask("GET", "/sources/export")
    assert (status, "https://a.example/feed" in exported) == (200, True)
    assert (await ask("POST", "/sources/import", {"text": exported}))[1]["known"] == ["a"]
    assert "<opml" in (await ask("GET", "/sources/export?format=opml"))[1]


async def test_every_refusal_has_the_same_shape(ask: Ask) -> None:
    """Spec 8.1."""
    for method, path, body, status, words in [
        ("GET", "/sources?health=poorly", None, 422, "health"),
        ("GET", "/sources/nobody", None, 404, "no source named nobody"),
        ("GET", "/sources/%00", None, 404, "no source named"),
        ("PATCH", "/sources/nobody", {"settings": {"priority": 1}}, 404, "nobody"),
        ("PATCH", "/sources/nobody", {"name": "x"}, 422, "name"),
        ("DELETE", "/sources/nobody", None, 404, "nobody"),
        ("POST", "/scraping/nobody/sync", None, 404, "nobody"),
        ("POST", "/sources/nobody/enable", None, 404, "nobody"),
        ("POST", "/sources/nobody/backfill", {"since": "soon"}, 422, "since"),
        ("POST", "/sources/nobody/backfill", {"since": "2024-01-01"}, 404, "nobody"),
        ("POST", "/sources/import", {"text": "words"}, 422, "no list of sources"),
        ("POST", "/sources/import", {"text": "sources:\n"}, 422, "no source"),
        ("GET", "/sources/export?format=csv", None, 422, "format"),
        ("POST", "/sources/nobody/sync", None, 404, "nobody"),
        ("POST", "/sources/test", {"target": "nobody"}, 404, "nobody"),
        ("POST", "/sources/test", {"target": "ftp://x.test/"}, 422, "ftp"),
        ("POST", "/sources/discover", {"url": "http://nothing.test/"}, 422, "404"),
        ("POST", "/sources", {"name": "x", "kind": "site", "settings": {"feed_url": "a\0"}}, 422, "Source x: feed_url"),
        ("POST", "/sources", {"url": HOME, "kind": "manual"}, 422, "url"),
        ("POST", "/sources", {"url": HOME, "mode": "crawl"}, 422, "mode"),
    ]:
        answered, answer = await ask(method, path, body)
        assert (answered, set(answer)) == (status, {"error"})
        assert words in answer["error"]["message"]


async def test_writing_routes_need_the_token_and_every_route_is_described(ask: Ask) -> None:
    """Spec 8.1."""
    _, described = await ask("GET", "/openapi.json")
    routes = {path: methods for path, methods in described["paths"].items() if path.startswith("/sources")}
    assert {"/sources", "/sources/{name}", "/sources/import", "/sources/export"} <= routes.keys()
    for path, methods in routes.items():
        for method, route in methods.items():
            assert route["summary"]
            assert route["description"]
            if method != "get":
                status, _ = await ask(method.upper(), path.replace("{name}", "x"), {}, token=None)
                assert status == 401
