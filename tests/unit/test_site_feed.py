"""The main pass of a site, and how its feed is found (spec 3.2, 3.4)."""

from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import HeadwaterError, Unreadable
from headwater.core.reasons import Reason
from headwater.sources.kinds.site_discovery import FEED_PATHS
from tests.replaying import replay

HOME = "https://a.example/"
FEED = """<rss version="2.0"><channel><title>Paper</title><item><title>One</title><link>https://a.example/1</link></item>
</channel></rss>"""
NOTHING_GUESSED = {f"https://a.example{path}": 404 for path in FEED_PATHS}


def page(*links: str) -> str:
    return "".join(f'<link rel="alternate" type="application/rss+xml" href="{link}">' for link in links)


@pytest.mark.parametrize(
    ("answers", "feed_url"),
    [
        ({HOME: [FEED, FEED]}, HOME),
        ({HOME: page("/a.rss"), "https://a.example/a.rss": [FEED, FEED]}, "https://a.example/a.rss"),
        (
            {HOME: page("/gone.rss", "/page.rss", "/a.rss"), "https://a.example/gone.rss": 404}
            | {"https://a.example/page.rss": page(), "https://a.example/a.rss": [FEED, FEED]},
            "https://a.example/a.rss",
        ),
        ({HOME: page(), **NOTHING_GUESSED, "https://a.example/atom.xml": [FEED, FEED]}, "https://a.example/atom.xml"),
    ],
    ids=["itself", "named", "named-after-two-that-are-none", "guessed"],
)
async def test_a_feed_is_found_read_and_learned(tmp_path: Path, answers: dict[str, Any], feed_url: str) -> None:
    told = await replay(tmp_path, {"site_url": HOME}, answers)
    assert told["learned"] == {"feed_url": feed_url}
    assert [item["url"] for item in told["items"]] == ["https://a.example/1"]


async def test_a_feed_below_a_page_is_tried_before_those_of_its_host(tmp_path: Path) -> None:
    answers = {"https://a.example/blog/": page(), "https://a.example/blog/feed": [FEED, FEED]}
    told = await replay(tmp_path, {"site_url": "https://a.example/blog/"}, answers)
    assert told["learned"] == {"feed_url": "https://a.example/blog/feed"}


async def test_a_site_without_a_feed_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"https://a\.example/ is none and names none, and none is at /feed, ") as told:
        await replay(tmp_path, {"site_url": HOME}, {HOME: "<h1>Paper</h1>", **NOTHING_GUESSED})
    assert told.value.reason is Reason.NOT_A_FEED


async def test_a_site_that_cannot_be_had_fails_for_that(tmp_path: Path) -> None:
    with pytest.raises(HeadwaterError) as told:
        await replay(tmp_path, {"site_url": HOME}, {HOME: 410})
    assert told.value.reason is Reason.GONE


async def test_a_feed_that_is_given_is_not_looked_for(tmp_path: Path) -> None:
    told = await replay(tmp_path, {"site_url": HOME, "feed_url": "https://a.example/f"}, {"https://a.example/f": FEED})
    assert "learned" not in told


async def test_a_page_where_the_feed_should_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwaterError) as told:
        await replay(tmp_path, {"feed_url": HOME}, {HOME: "<!doctype html><title>Log in</title><form></form>"})
    assert told.value.reason is Reason.NOT_A_FEED
