"""Sources from OPML and YAML files, and back into them (spec 3.1; issue 6)."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.config import Settings
from headwater.errors import Unreadable
from headwater.formats.opml import parse_opml
from tests.house import House, open_house

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


async def everything(house: House) -> list[tuple[object, ...]]:
    return await house.rows("SELECT name, kind, settings, enabled FROM sources WHERE removed_at IS NULL ORDER BY name")


async def test_what_is_exported_is_imported_into_an_empty_house_as_it_was(
    house: House,
) -> None:
    imported = await house.desk.sources.import_list(YAML.encode())
    assert (imported.added, imported.known, imported.refused) == (["a.example", "by-hand", "both"], [], [])
    before = await everything(house)
    assert before[0] == ("a.example", "site", {"feed_url": "https://a.example/feed", "category": "News/World"}, True)
    assert before[2][3] is False
    exported = await house.desk.sources.export_yaml()
    assert (await house.desk.sources.import_list(exported)).known == ["a.example", "both", "by-hand"]
    await house.rows("DELETE FROM sources")
    assert (await house.desk.sources.import_list(exported)).added == ["a.example", "both", "by-hand"]
    assert await everything(house) == before


async def test_feeds_go_out_as_opml_and_come_back(house: House) -> None:
    settings = {"feed_url": "https://a.example/feed", "site_url": "https://a.example/", "category": "News/World"}
    await house.desk.sources.create("mine", "site", settings)
    await house.desk.sources.create("by-hand", "manual", {})
    exported, without = await house.desk.sources.export_opml()
    assert without == ["by-hand"]
    await house.rows("DELETE FROM sources")
    assert (await house.desk.sources.import_list(exported)).added == ["mine"]
    assert await everything(house) == [("mine", "site", settings, True)]


async def test_what_cannot_be_used_is_told_with_its_place_and_the_rest_goes_in(house: House) -> None:
    await house.desk.sources.create("there", "site", {"feed_url": "https://there.example/feed"})
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
    imported = await house.desk.sources.import_list(body)
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
    assert len(await everything(house)) == 4


async def test_a_dry_run_tells_the_same_and_saves_nothing(house: House) -> None:
    tried = await house.desk.sources.import_list(YAML.encode(), dry_run=True)
    assert await everything(house) == []
    assert tried == await house.desk.sources.import_list(YAML.encode())


async def test_first_polls_are_spread_over_an_interval(house: House) -> None:
    """Issue 6: thousands of feeds are no herd."""
    body = "".join(f"- feed_url: https://site{number}.example/feed\n" for number in range(1800))
    imported = await house.desk.sources.import_list(body.encode())
    assert len(imported.added) == 1800
    due = [row[0] for row in await house.rows("SELECT next_poll_at FROM feed_state WHERE pass = 'main' ORDER BY 1")]
    assert len(set(due)) == 1800
    assert max(due) - min(due) < timedelta(minutes=15)
    assert max(due) > datetime.now(UTC) + timedelta(minutes=13)


async def test_a_source_that_was_removed_comes_back_by_a_file(house: House) -> None:
    await house.desk.frontier.submit(["http://by.test/hand"])
    await house.desk.sources.remove("manual")
    imported = await house.desk.sources.import_list(b"- {name: manual, kind: manual}")
    assert (imported.added, imported.back) == (["manual"], ["manual"])
    assert await house.fates() == {"http://by.test/hand": None}


@pytest.mark.parametrize("body", [b"", b"sources:\n", b"<opml><body><outline", b"<opml><body></body></opml>"])
@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_file_without_a_source_is_refused(body: bytes, dry_run: bool, house: House) -> None:
    """Spec 3.1."""
    with pytest.raises(Unreadable, match="There is no source in it"):
        await house.desk.sources.import_list(body, dry_run=dry_run)


async def test_a_bomb_is_refused(house: House) -> None:
    laughs = "a: &a [lol]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{f'*{chr(97 + n)},' * 9}]\n" for n in range(9))
    with pytest.raises(Unreadable, match="anchors and aliases"):
        await house.desk.sources.import_list(laughs.encode())
    with pytest.raises(Unreadable, match="nested too deep"):
        await house.desk.sources.import_list(b"[" * 1_000_000)
    assert await everything(house) == []


@pytest.mark.skipif(not OPML_FILES.is_dir(), reason="the corpora are not on this machine (HEADWATER_CORPORA)")
async def test_every_opml_file_of_the_corpora_is_imported(
    make_settings: Callable[..., Settings],
) -> None:
    """Issue 6: 118 of 118."""
    files = sorted(OPML_FILES.rglob("*.opml"))
    assert len(files) == 118
    listed = 0
    async with open_house(make_settings()) as house:
        for file in files:
            body = file.read_bytes()
            imported = await house.desk.sources.import_list(body)
            told = len(imported.added) + len(imported.known) + len(imported.refused)
            assert told == len(parse_opml(body)) > 0, file
            assert not imported.refused, (file, imported.refused[:3])
            listed += told
        (count,) = (await house.rows("SELECT count(*) FROM sources"))[0]
    assert 500 < count < listed
