"""The commands `headwater add` and `headwater source` (spec 3.1, 8.2; issue 6)."""

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.db.pool import Database
from tests.program import forked, headwater, wait_until
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
HOME = "http://news.test/"
SITEMAP = "http://news.test/sitemap.xml"
HTML = {"Content-Type": "text/html"}

Program = Callable[..., Awaitable["subprocess.CompletedProcess[str]"]]


@pytest.fixture
def settings(site: Site, database: Database, database_url: str, tmp_path: Path) -> dict[str, Any]:
    """The settings for the database and the web of this test."""
    del database  # the program needs its schema
    return {
        "database_url": database_url,
        "data_dir": tmp_path / "data",
        "connect_to": ",".join(site.connect_to),
        "allow_networks": "127.0.0.0/8",
        "host_delay_ms": 0,
    }


@pytest.fixture
def program(settings: dict[str, Any], tmp_path: Path) -> Program:
    """The real program."""
    return lambda *words: asyncio.to_thread(headwater, *words, cwd=tmp_path, **settings)


@pytest.fixture
def news(site: Site) -> None:
    """A site with a feed, another feed, a sitemap and a page."""
    links = "".join(f'<link rel=alternate type="application/rss+xml" href="{path}">' for path in ("/feed", "/more"))
    site.answers[HOME] = Answer(page("home").replace("</head>", f"{links}</head>"), headers=HTML)
    site.answers[FEED] = rss("http://news.test/a", title="The news")
    site.answers["http://news.test/more"] = rss("http://news.test/m", title="More news")
    site.answers["http://news.test/a"] = Answer(page("the river"), headers=HTML)
    body = "<urlset><url><loc>http://news.test/old</loc><lastmod>2024-05-05</lastmod></url></urlset>"
    site.answers[SITEMAP] = Answer(body, headers={"Content-Type": "application/xml"})


@pytest.mark.usefixtures("news")
async def test_selectors_are_set_by_field_and_refused_by_field(program: Program) -> None:
    """Spec 3.1, 5.2."""
    made = ("source", "add", "news", "--kind", "site", "--set", f"feed_url={FEED}", "--set")
    refused = await program(*made, 'selectors={"body": "p["}')
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "Source news: selectors.body: 'p[' is not valid CSS." in refused.stderr
    assert (await program(*made, 'selectors={"body": "h1"}')).returncode == 0
    refused = await program("source", "edit", "news", "--set", 'selectors={"headline": "h1"}')
    assert "Source news: selectors.headline: there is no such field" in refused.stderr
    shown = json.loads((await program("source", "show", "news", "--json")).stdout)
    assert shown["settings"]["selectors"] == {"body": "h1"}


@pytest.mark.usefixtures("news")
async def test_add_finds_the_feed_polls_it_and_shows_the_next_steps(program: Program) -> None:
    """Spec 3.1."""
    added = await program("add", "http://news.test")
    assert added.returncode == 0
    shown = added.stdout.splitlines()
    assert shown[0] == "Added source news.test (The news): 1 items, 1 new pages to fetch."
    assert shown[1] == "  2026-03-12  Entry 0"
    assert "  http://news.test/more" in shown
    assert re.match(r"It took 3 requests and \d+\.?\d* seconds\.", shown[-1])
    listed = await program("source", "list")
    assert re.search(r"^on time +1 +0  \d\d-\d\d \d\d:\d\d  news.test$", listed.stdout, re.M)
    assert "Polled" in listed.stdout
    refused = await program("add", "http://nothing.test/")
    assert refused.returncode == 2
    assert refused.stderr == "headwater: http://nothing.test/ was not added: http://nothing.test/ answered 404.\n"
    as_json = json.loads((await program("add", "http://news.test/more", "--json")).stdout)
    assert (as_json["name"], as_json["items"], as_json["others"]) == ("news.test-more", 1, [])


@pytest.mark.usefixtures("news")
async def test_a_source_is_added_edited_synced_disabled_enabled_and_removed(program: Program) -> None:
    """Issue 6."""
    assert (await program("source", "add", "n", "--kind", "site", "--set", f"feed_url={FEED}")).returncode == 0
    twice = await program("source", "edit", "n", "--set", "priority=3", "--set", "priority=4")
    assert twice.stderr == "headwater: Source n: priority: is given twice.\n"
    bad = await program("source", "edit", "n", "--set", "priority=11")
    assert (bad.returncode, bad.stderr) == (2, "headwater: Source n: priority: must be from 1 to 10.\n")
    edited = json.loads((await program("source", "edit", "n", "--set", "category=News/UK", "--json")).stdout)
    assert edited == {"name": "n", "changed": [{"field": "category", "before": None, "after": "News/UK"}]}
    shown = await program("source", "edit", "n", "--set", "priority=7", "--set", "category=News/UK")
    assert shown.stdout == "priority: 5 -> 7\n"  # and nothing that is as it was
    assert (await program("source", "edit", "n", "--unset", "priority")).stdout == "priority: 7 -> 5\n"
    read = await program("source", "sync", "n")
    assert read.stdout == "Read n: 1 items, 1 of them new, 1 new pages to fetch.\nRun 1: 1 handed off, 0 skipped.\n"
    assert (await program("source", "sync", "n", "--method", "sitemap")).stdout.startswith("Read n: 0 pages listed, ")
    shown = (await program("source", "show", "n")).stdout
    for words in ("of kind site", "on time", "News/UK", "poll_interval_minutes", "Read by main", "http://news.test/a"):
        assert words in shown
    assert "disabled" in (await program("source", "disable", "n")).stdout
    assert json.loads((await program("source", "list", "--health", "disabled", "--json")).stdout)["sources"][0]["name"]
    assert (await program("source", "list", "--category", "Sports")).stdout == "No sources match.\n"
    assert "on time" in (await program("source", "enable", "n")).stdout
    unasked = await program("source", "remove", "n")
    assert (unasked.returncode, "--yes" in unasked.stderr) == (2, True)
    unknown = await program("source", "remove", "nobody")
    assert (unknown.returncode, "no source named nobody" in unknown.stderr) == (2, True)
    removed = await program("source", "remove", "n", "--yes")
    assert removed.stdout == (
        "Removed source n: its items and documents are kept; 1 queued pages will not be fetched.\n"
    )
    gone = await program("source", "show", "n")
    assert gone.stderr == "headwater: There is no source named n; `headwater source list` lists them.\n"


@pytest.mark.usefixtures("news")
async def test_a_backfill_shows_its_counts_and_refuses_an_invalid_day(program: Program) -> None:
    """Spec 3.3."""
    await program("source", "add", "n", "--kind", "site", "--set", f"feed_url={FEED}")
    for day, why in (("yesterday", "is not a day such as"), ("2999-01-01", "is in the future")):
        refused = await program("source", "backfill", "n", "--since", day)
        assert (refused.returncode, why in refused.stderr) == (2, True)
    done = await program("source", "backfill", "n", "--since", "2024-01-01", "--json")
    assert json.loads(done.stdout)["new_urls"] == 1
    again = await program("source", "backfill", "n", "--since", "2024-01-01")
    assert again.stdout.startswith("Read n: ")


@pytest.mark.usefixtures("news")
async def test_the_running_program_continues_an_interrupted_backfill(
    program: Program, settings: dict[str, Any], site: Site, database: Database, tmp_path: Path
) -> None:
    """Spec 3.3."""
    await program("source", "add", "n", "--kind", "site", "--set", f"feed_url={FEED}")
    site.hanging.add(SITEMAP)
    words = ("source", "backfill", "n", "--since", "2024-01-01")
    with forked(*words, cwd=tmp_path, **settings) as backfill:
        await asyncio.to_thread(wait_until, lambda: SITEMAP in site.waiting)
        backfill.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(backfill.wait, 20) == 143
    async with database.connection() as connection:
        left = await connection.fetchrow(
            "SELECT backfill_since IS NOT NULL AS asked, next_poll_at <= now() AS due, lease_token IS NULL AS free "
            "FROM poll_state WHERE method = 'sitemap'"
        )
    assert tuple(left or ()) == (True, True, True)


@pytest.mark.usefixtures("news")
async def test_discover_and_test_show_what_they_find_and_save_nothing(program: Program, database: Database) -> None:
    """Issue 6: `source test` exits 1 if a stage fails."""
    found = await program("source", "discover", HOME)
    assert found.stdout.splitlines() == [
        "feed     http://news.test/feed  The news",
        "feed     http://news.test/more  More news",
        "sitemap  http://news.test/sitemap.xml",
    ]
    tried = await program("source", "test", HOME)
    assert tried.returncode == 0
    assert re.search(r"^ok   article +\d+\.\d\d s  title: the river$", tried.stdout, re.M)
    failed = await program("source", "test", "http://nothing.test/", "--json")
    assert failed.returncode == 1
    result = json.loads(failed.stdout)
    assert (result["works"], result["stages"][-1]["name"]) == (False, "address")
    assert json.loads((await program("source", "list", "--json")).stdout)["sources"] == []


async def test_sources_are_exported_to_and_imported_from_files(program: Program, tmp_path: Path) -> None:
    """Spec 3.1."""
    (tmp_path / "mine.opml").write_text(
        '<opml><body><outline text="News"><outline xmlUrl="https://a.example/feed"/></outline>'
        '<outline text="Odd" xmlUrl="gopher://b.example/"/></body></opml>'
    )
    tried = await program("source", "import", "mine.opml", "--dry-run")
    assert (tried.returncode, tried.stdout) == (0, "1 would be added, 0 known, 1 refused.\n")
    assert "refused feed 2: gopher://b.example/: " in tried.stderr
    assert json.loads((await program("source", "import", "mine.opml", "--json")).stdout)["added"] == ["a.example"]
    assert (await program("source", "export", "out.yaml")).returncode == 0
    assert (await program("source", "import", "out.yaml")).stdout == "0 added, 1 known, 0 refused.\n"
    assert 'xmlUrl="https://a.example/feed"' in (await program("source", "export", "--format", "opml")).stdout
    for words, why in (
        (("import", "nowhere.yaml"), "cannot be read: No such file"),
        (("export", "nowhere/x.yaml"), "cannot be written: No such file"),
        (("export", "--format", "csv"), "--format: is yaml or opml"),
    ):
        refused = await program("source", *words)
        assert (refused.returncode, why in refused.stderr) == (2, True)
    (tmp_path / "bad.yaml").write_text("- priority: 3\n")
    bad = await program("source", "import", "bad.yaml")
    assert (bad.returncode, bad.stderr.startswith("refused line 1: Source source: ")) == (1, True), bad.stderr
    (tmp_path / "cut.opml").write_text("<opml><body><outline")
    none = await program("source", "import", "cut.opml")
    assert (none.returncode, none.stdout) == (2, "")
    assert "no source" in none.stderr
