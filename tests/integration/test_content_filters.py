"""The filters of `today`, `daily` and `search`, in the API and on the command line (spec 6.7, 8.2, 11.10)."""

import asyncio
import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.core.dates import parse_moment
from headwater.core.reasons import Reason
from headwater.documents.operations import ContentFilter, DayFilter
from tests.api import open_api
from tests.harness import AppHarness
from tests.program import headwater, program_settings
from tests.refusals import refused
from tests.server import Answer, Site, page

DAY = "2026-03-12"
HTML = {"Content-Type": "text/html"}
ENTRIES = {
    "town": [("http://town.test/flood", "Floods", "08:00", "en-GB"), ("http://town.test/bin", "Waste", "15:00", "en")],
    "stadt": [("http://stadt.test/flut", "floods", "12:00", "de-DE")],
}
CATEGORIES = {"town": "news/local", "stadt": "news"}


@pytest.fixture
async def filled(harness: AppHarness, site: Site) -> AppHarness:
    """Two sources with three pages about a river."""
    for name, entries in ENTRIES.items():
        items = "".join(
            f"<item><title>River {number}</title><link>{url}</link><category>{topic}</category>"
            f"<pubDate>Thu, 12 Mar 2026 {clock}:00 GMT</pubDate></item>"
            for number, (url, topic, clock, _) in enumerate(entries)
        )
        feed = f'<rss version="2.0"><channel><title>{name}</title>{items}</channel></rss>'
        site.answers[f"http://{name}.test/feed"] = Answer(feed, headers={"Content-Type": "application/rss+xml"})
        for url, _, _, language in entries:
            body = page(f"the river {url}").replace("<html", f"<html lang={language}", 1)
            site.answers[url] = Answer(body, headers=HTML)
        settings = {"feed_url": f"http://{name}.test/feed", "category": CATEGORIES[name]}
        await harness.operations.sources.create(name, "site", settings)
        await harness.operations.sources.sync(name)
    await harness.work()
    assert len(await harness.documents()) == 3
    return harness


FILTERS: list[tuple[dict[str, str], set[str]]] = [
    ({}, {"flood", "bin", "flut"}),
    ({"source": "town"}, {"flood", "bin"}),
    ({"category": "news"}, {"flood", "bin", "flut"}),
    ({"category": "news/local/"}, {"flood", "bin"}),
    ({"category": "new"}, set()),
    ({"topic": "FLOODS"}, {"flood", "flut"}),
    ({"language": "de"}, {"flut"}),
    ({"language": "en-US"}, {"flood", "bin"}),
    ({"since": f"{DAY}T12:00"}, {"bin", "flut"}),
    ({"since": f"{DAY}T12:00Z", "topic": "waste"}, {"bin"}),
    ({"since": "2026-03-13"}, set()),
]


async def test_all_doors_filter_days_and_searches_alike(filled: AppHarness, tmp_path: Path) -> None:
    """Spec 8.2: each filter of a day and of a search, in the API and on the command line."""

    def paths(found: list[dict[str, Any]]) -> set[str]:
        return {line["url"].rpartition("/")[2] for line in found}

    settings = program_settings(filled.runtime.context.settings)

    async def run(*words: str) -> Any:
        shown = await asyncio.to_thread(headwater, *words, "--json", cwd=tmp_path, **settings)
        assert shown.returncode == 0, shown.stderr
        return json.loads(shown.stdout)

    async with open_api(filled.runtime.context.settings) as api:
        for given, expected in FILTERS:
            assert paths((await api.get(f"/daily/{DAY}", params=given))[1]["items"]) == expected, given
            found = (await api.get("/search", params={"q": "river", **given}))[1]
            assert (paths(found["hits"]), found["total"]) == (expected, len(expected)), given
        one = (await api.get("/search", params={"q": "river", "limit": 1}))[1]
        assert (len(one["hits"]), one["total"]) == (1, 3)
        rest = (await api.get("/search", params={"q": "river", "limit": 2, "cursor": one["next"]}))[1]
        assert (len({hit["url"] for hit in one["hits"] + rest["hits"]}), rest["total"], rest["next"]) == (3, 3, None)
    for given, expected in FILTERS[4::3]:
        options = [word for name, value in given.items() for word in (f"--{name}", value)]
        assert paths((await run("today", DAY, *options))["items"]) == expected, given
        assert paths((await run("daily", DAY, *options))["items"]) == expected, given
        assert paths((await run("search", "river", *options))["hits"]) == expected, given


async def test_the_state_of_a_day_is_shown_of_the_sources_that_match(filled: AppHarness) -> None:
    """Spec 6.7: a source of dated days belongs to a day only if the filters admit it."""
    await filled.operations.sources.create("govuk", "govuk", {})
    for given, expected in (({}, {"govuk"}), ({"category": "news"}, set()), ({"source": "govuk"}, {"govuk"})):
        view = await filled.operations.days.day(date.fromisoformat(DAY), DayFilter(**given))
        assert {state.source for state in view.sources} == expected, given


async def test_bad_filters_are_refused(filled: AppHarness) -> None:
    """Spec 8.1: bad input names the field."""
    with refused(Reason.BAD_REQUEST, "language", "English"):
        await filled.operations.search.find("river", ContentFilter(language="English"))
    with refused(Reason.UNKNOWN_SOURCE, "nowhere"):
        await filled.operations.search.find("river", ContentFilter(source="nowhere"))
    with refused(Reason.UNKNOWN_SOURCE, "nowhere"):
        await filled.operations.days.today(DayFilter(source="nowhere"))
    with refused(Reason.BAD_REQUEST, "since"):
        parse_moment("soon", "since")


async def test_counts_times_and_documents_are_shown(filled: AppHarness, tmp_path: Path) -> None:
    """Spec 8.2."""
    settings = program_settings(filled.runtime.context.settings)
    document = (await filled.documents())["http://town.test/bin"]
    assert [document.language, document.region] == ["en", None]
    shown = (await asyncio.to_thread(headwater, "today", DAY, cwd=tmp_path, **settings)).stdout.splitlines()
    assert shown[0] == f"{DAY}: 3 NEW, 0 LATEST"
    assert "town: 2 NEW, 0 LATEST, times of America/New_York" in shown
    line = shown.index("  NEW    11:00 River 1")  # 15:00 UTC
    assert shown[line + 1].split() == ["document", str(document.id), document.url]
    found = (await asyncio.to_thread(headwater, "search", "river", "--limit", "1", cwd=tmp_path, **settings)).stdout
    assert found.startswith("3 documents match, 1 of them here:\n")
    assert "published 2026-03-12 " in found


async def test_a_word_with_a_minus_is_excluded_and_an_option_that_does_not_exist_is_named(
    filled: AppHarness, tmp_path: Path
) -> None:
    settings = program_settings(filled.runtime.context.settings)
    given = {"cwd": tmp_path, **settings}
    found = await asyncio.to_thread(headwater, "search", "river", "-bin", "--json", **given)
    both = await asyncio.to_thread(headwater, "search", "-bin", "river", "--json", **given)
    assert json.loads(found.stdout)["total"] == json.loads(both.stdout)["total"] == 2
    refused = await asyncio.to_thread(headwater, "search", "river", "--langauge", "fr", **given)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--langauge" in refused.stderr


async def test_languages_are_plain_codes_and_regions_are_apart(filled: AppHarness, tmp_path: Path) -> None:
    """Spec 5.1, 4.4: a document, the change feed and `show` have `de` and `DE`, not `de-DE`."""
    document = (await filled.documents())["http://stadt.test/flut"]
    assert (document.language, document.region) == ("de", "DE")
    since = await filled.operations.changes.find_cursor(timedelta(days=1))
    changes = (await filled.operations.changes.list_changes(since, 10)).changes
    assert {(one.document.language, one.document.region) for one in changes if one.document} == {
        ("de", "DE"),
        ("en", "GB"),
        ("en", None),
    }
    settings = program_settings(filled.runtime.context.settings)
    shown = (await asyncio.to_thread(headwater, "show", document.url, cwd=tmp_path, **settings)).stdout.splitlines()
    assert [line.split()[:2] for line in shown if line.startswith(("language", "region"))] == [
        ["language", "de"],
        ["region", "DE"],
    ]


async def test_documents_of_pages_have_a_kind(filled: AppHarness, tmp_path: Path) -> None:
    """Issue 24: the kind that the reader guessed is stored, and `show` prints it."""
    document = (await filled.documents())["http://town.test/bin"]
    assert document.page_kind == "article"
    settings = program_settings(filled.runtime.context.settings)
    shown = (await asyncio.to_thread(headwater, "show", document.url, cwd=tmp_path, **settings)).stdout.splitlines()
    assert [line.split()[:2] for line in shown if line.startswith("page_kind")] == [["page_kind", "article"]]
