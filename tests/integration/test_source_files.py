"""Import from and export to OPML and YAML files (spec 3.1; issue 6)."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.core.errors import Unreadable
from headwater.core.settings import Settings
from headwater.core.source import Method
from headwater.feeds.opml import parse_opml
from tests.harness import AppHarness, open_harness

CORPORA = Path(os.environ.get("HEADWATER_CORPORA", Path(__file__).parents[3] / "shared/corpora"))
OPML_FILES = CORPORA / "opml-awesome-rss-feeds"
YAML = """
sources:
- feed_url: https://a.example/feed
  category: News/World
- name: by-hand
  kind: manual
  enabled: false
- name: both
  settings:
    site_url: https://b.example/
    ingestion_mode: both
    article_patterns: ["/articles/"]
"""


async def list_all(harness: AppHarness) -> list[tuple[object, ...]]:
    listed = await harness.operations.sources.list_sources()
    return sorted((row.name, row.kind, row.settings, row.enabled) for row in listed)


async def remove_all(harness: AppHarness) -> None:
    for row in await harness.operations.sources.list_sources():
        await harness.operations.sources.remove(row.name)


async def test_an_export_can_be_imported_unchanged(
    harness: AppHarness,
) -> None:
    imported = await harness.operations.sources.import_list(YAML.encode())
    assert (imported.added, imported.known, imported.refused) == (["a.example", "by-hand", "both"], [], [])
    before = await list_all(harness)
    assert before[0] == ("a.example", "site", {"feed_url": "https://a.example/feed", "category": "News/World"}, True)
    assert before[2][3] is False
    exported = await harness.operations.sources.export_yaml()
    assert (await harness.operations.sources.import_list(exported)).known == ["a.example", "both", "by-hand"]
    await remove_all(harness)
    assert (await harness.operations.sources.import_list(exported)).added == ["a.example", "both", "by-hand"]
    assert await list_all(harness) == before


async def test_feeds_survive_an_opml_export_and_import(harness: AppHarness) -> None:
    settings = {"feed_url": "https://a.example/feed", "site_url": "https://a.example/", "category": "News/World"}
    await harness.operations.sources.create("mine", "site", settings)
    await harness.operations.sources.create("by-hand", "manual", {})
    exported, without = await harness.operations.sources.export_opml()
    assert without == ["by-hand"]
    await remove_all(harness)
    assert (await harness.operations.sources.import_list(exported)).added == ["mine"]
    assert await list_all(harness) == [("mine", "site", settings, True)]


async def test_titles_of_opml_become_names(harness: AppHarness) -> None:
    """Spec 3.1: names are unique, and a title without letters leaves the host."""
    titles = ["The Daily News", "the daily news!", "Café & Büro", "日本", ""]
    feeds = "".join(
        f'<outline type="rss" text="{title.replace("&", "&amp;")}" xmlUrl="https://host{number}.example/feed"/>'
        for number, title in enumerate(titles)
    )
    imported = await harness.operations.sources.import_list(f"<opml><body>{feeds}</body></opml>".encode())
    assert imported.added == ["the-daily-news", "the-daily-news-2", "cafe-buro", "host3.example", "host4.example"]


async def test_unusable_entries_are_refused_with_their_place_and_the_rest_is_added(harness: AppHarness) -> None:
    await harness.operations.sources.create("there", "site", {"feed_url": "https://there.example/feed"})
    body = b"""
- feed_url: https://a.example/feed
- feed_url: ftp://a.example/feed
- name: Bad Name
  feed_url: https://b.example/feed
- name: typo
  feed_urll: https://b.example/feed
- kind: nothing
  name: odd
- name: there
  feed_url: https://another.example/feed
- feed_url: HTTPS://THERE.example/feed
- feed_url: https://a.example/feed
- priority: 3
- {feed_url: https://a.example/world.xml}
- {feed_url: https://a.example/rss/world}
- {name: later, feed_url: https://c.example/feed, poll_interval_minutes: often}
"""
    imported = await harness.operations.sources.import_list(body)
    assert imported.added == ["a.example", "a.example-world", "a.example-2"]
    assert imported.known == ["there", "a.example"]
    assert [(one.where, one.given) for one in imported.refused] == [
        ("line 3", "ftp://a.example/feed"),
        ("line 4", "Bad Name"),
        ("line 6", "typo"),
        ("line 8", "odd"),
        ("line 10", "there"),
        ("line 14", "line 14"),
        ("line 17", "later"),
    ]
    why = " | ".join(one.why for one in imported.refused)
    for words in ("feed_url: ", "cannot name a source", "feed_urll", "no kind 'nothing'", "another source named there"):
        assert words in why
    assert len(await list_all(harness)) == 4


async def test_a_dry_run_has_the_same_result_and_saves_nothing(harness: AppHarness) -> None:
    tried = await harness.operations.sources.import_list(YAML.encode(), dry_run=True)
    assert await list_all(harness) == []
    imported = await harness.operations.sources.import_list(YAML.encode())
    assert tried == replace(imported, dry_run=True)


async def test_first_polls_are_spread_over_an_interval(harness: AppHarness) -> None:
    """Issue 6: thousands of feeds do not start together."""
    body = "".join(f"- feed_url: https://site{number}.example/feed\n" for number in range(1800))
    imported = await harness.operations.sources.import_list(body.encode())
    assert len(imported.added) == 1800
    listed = await harness.operations.sources.list_sources()
    methods = [method for row in listed for method in row.methods]
    due, sitemaps = (
        [method.next_poll_at for method in methods if method.method is kind and method.next_poll_at]
        for kind in (Method.FEED, Method.SITEMAP)
    )
    assert len(set(due)) == 1800
    assert max(due) - min(due) < timedelta(minutes=15)
    assert max(due) > datetime.now(UTC) + timedelta(minutes=13)
    assert {later - first for first, later in zip(due, sitemaps, strict=True)} == {timedelta(minutes=1)}


async def test_an_import_restores_a_removed_source_and_its_urls(harness: AppHarness) -> None:
    await harness.operations.frontier.submit(["http://by.test/hand"])
    await harness.operations.sources.remove("manual")
    imported = await harness.operations.sources.import_list(b"- {name: manual, kind: manual}")
    assert imported.added == ["manual"]
    assert await harness.outcomes() == {"http://by.test/hand": None}


@pytest.mark.parametrize("body", [b"", b"sources:\n", b"<opml><body><outline", b"<opml><body></body></opml>"])
@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_file_without_a_source_is_refused(body: bytes, dry_run: bool, harness: AppHarness) -> None:
    """Spec 3.1."""
    with pytest.raises(Unreadable):
        await harness.operations.sources.import_list(body, dry_run=dry_run)


async def test_a_yaml_bomb_is_refused(harness: AppHarness) -> None:
    laughs = "a: &a [lol]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{f'*{chr(97 + n)},' * 9}]\n" for n in range(9))
    with pytest.raises(Unreadable, match="anchors and aliases"):
        await harness.operations.sources.import_list(laughs.encode())
    with pytest.raises(Unreadable, match="nested too deep"):
        await harness.operations.sources.import_list(b"[" * 1_000_000)
    assert await list_all(harness) == []


@pytest.mark.skipif(not OPML_FILES.is_dir(), reason="the corpora are not on this machine (HEADWATER_CORPORA)")
async def test_every_opml_file_of_the_corpora_is_imported(
    make_settings: Callable[..., Settings],
) -> None:
    """Issue 6: 118 of 118."""
    files = sorted(OPML_FILES.rglob("*.opml"))
    assert len(files) == 118
    listed = 0
    async with open_harness(make_settings()) as harness:
        for file in files:
            body = file.read_bytes()
            imported = await harness.operations.sources.import_list(body)
            found = len(imported.added) + len(imported.known) + len(imported.refused)
            assert found == len(parse_opml(body)) > 0, file
            assert not imported.refused, (file, imported.refused[:3])
            listed += found
        count = len(await harness.operations.sources.list_sources())
    assert 500 < count < listed
