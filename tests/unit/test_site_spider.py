"""The spider method of a site: the pages that it follows, the links that it yields, and its limits (spec 3.5)."""

from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.sources.kinds import site_spider
from tests.replaying import Answers, replay

HOME = "https://a.example/"


def links(*targets: str) -> str:
    return "".join(f'<a href="{target}">x</a>' for target in targets)


async def walk(folder: Path, answers: Answers, **settings: Any) -> dict[str, Any]:
    given = {"site_url": HOME, "ingestion_mode": "spider", "article_patterns": ["/s/"], **settings}
    return await replay(folder, given, answers, method="spider")


def found_urls(result: dict[str, Any]) -> dict[str, int]:
    return {found["url"]: found["depth"] for found in result.get("urls", [])}


async def test_articles_are_handed_on_and_pages_followed_to_a_depth(tmp_path: Path) -> None:
    answers = {
        HOME: links("/s/0", "/one", "/#top", "/?utm_source=x"),
        f"{HOME}one": links("/s/1", "/two", "/one/"),
        f"{HOME}two": links("/s/2", "/three", "https://b.example/"),
    }
    result = await walk(tmp_path, answers, spider_depth=2)
    expected = {f"{HOME}s/0": 0, f"{HOME}s/1": 1, f"{HOME}s/2": 2, "https://b.example/": 3}
    assert found_urls(result) == expected
    assert result["state"] == {"pages": 3}


async def test_depth_nought_looks_at_the_home_page_alone(tmp_path: Path) -> None:
    assert found_urls(await walk(tmp_path, {HOME: links("/s/0", "/one")}, spider_depth=0)) == {f"{HOME}s/0": 0}


async def test_it_goes_breadth_first_and_stops_after_so_many_pages(tmp_path: Path) -> None:
    answers = {HOME: links("/one", "/two", "/three"), f"{HOME}one": links("/deep"), f"{HOME}two": links("/s/2")}
    assert found_urls(await walk(tmp_path, answers, spider_pages=3)) == {f"{HOME}s/2": 1}


async def test_a_page_that_fails_does_not_end_the_walk(tmp_path: Path) -> None:
    answers = {
        HOME: links("/one", "/two", "/three"),
        f"{HOME}one": 404,
        f"{HOME}two": links("/s/2"),
        f"{HOME}three": 500,
    }
    result = await walk(tmp_path, answers)
    assert found_urls(result) == {f"{HOME}s/2": 1}
    assert [problem["url"] for problem in result["state"]["problems"]] == [f"{HOME}one", f"{HOME}three"]


async def test_a_site_that_wants_to_be_left_alone_is(tmp_path: Path) -> None:
    result = await walk(tmp_path, {HOME: links("/s/0", "/one", "/two"), f"{HOME}one": 429})
    assert found_urls(result) == {f"{HOME}s/0": 0}


async def test_a_home_page_that_fails_ends_it(tmp_path: Path) -> None:
    with pytest.raises(HeadwaterError) as caught:
        await walk(tmp_path, {HOME: 404})
    assert caught.value.reason is Reason.NOT_FOUND


async def test_links_to_other_hosts_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_spider, "_MAX_EXTERNAL", 2)
    monkeypatch.setattr(site_spider, "_MAX_ARTICLES", 1)
    page = links(*(f"https://b{number}.example/" for number in range(9)), "/s/1", "/s/2")
    assert len(found_urls(await walk(tmp_path, {HOME: page}))) == 3


async def test_without_a_home_page_it_starts_at_the_root_of_the_host(tmp_path: Path) -> None:
    result = await walk(tmp_path, {HOME: links("/s/0")}, site_url=None, feed_url="https://a.example/deep/feed.xml")
    assert found_urls(result) == {f"{HOME}s/0": 0}
