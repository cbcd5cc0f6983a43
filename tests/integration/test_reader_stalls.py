"""No request of one reader stalls the others: the loop that answers all of them is never busy for long (issue 21)."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable

import pytest

from headwater.core.settings import Settings
from tests.api import TOKEN, Api
from tests.harness import open_harness
from tests.server import Answer, Site, page

SOURCES = 5000
URLS = 10_000
SENTENCES = 100_000
LONGEST_STALL = 0.2
LARGEST_ANSWER = 4_000_000
HTML = {"Content-Type": "text/html; charset=utf-8"}
PAGE = "http://news.test/a"


class Stalls:
    """Measures the longest work of the loop in one piece, as CPU time, which other programs do not change."""

    longest = 0.0

    async def measure(self) -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            self.longest = max(self.longest, now - before)
            before = now


@contextlib.asynccontextmanager
async def no_stall(name: str) -> AsyncIterator[None]:
    """Check the work of the loop during the block."""
    stalls = Stalls()
    measuring = asyncio.create_task(stalls.measure())
    try:
        yield
        await asyncio.sleep(0.01)  # the measure sees the end of the work
    finally:
        measuring.cancel()
    assert stalls.longest < LONGEST_STALL, (name, stalls.longest)


@pytest.fixture
async def api_settings(site: Site, make_settings: Callable[..., Settings]) -> Settings:
    """Settings of a database with many sources and a document of two huge revisions."""
    site.answers[PAGE] = [Answer(page("river"), headers=HTML), Answer(page("lake"), headers=HTML)]
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        await harness.fetch(PAGE)
        await harness.operations.frontier.retry([PAGE])
        await harness.work()
        await harness.execute(
            "INSERT INTO sources (name, kind, settings, created_at) "
            "SELECT 'source-' || n, 'site', jsonb_build_object('feed_url', 'http://news.test/' || n), now() "
            f"FROM generate_series(1, {SOURCES}) n"
        )
        await harness.execute("INSERT INTO poll_state (source_id) SELECT id FROM sources WHERE name LIKE 'source-%'")
        for word in ("river", "lake"):
            await harness.execute(
                "UPDATE texts SET body = (SELECT string_agg('The ' || $1 || ' rose by ' || n || ' cm. ' "
                f"|| CASE WHEN n % 5 = 0 THEN E'\\n\\n' ELSE '' END, '') FROM generate_series(1, {SENTENCES}) n) "
                "WHERE body LIKE '%' || $1 || '%'",
                word,
            )
    return settings


READS = [
    "/sources",
    "/sources/export",
    "/sources/export?format=opml",
    "/disk",
    "/daily/today",
    "/daily/2026-03-12?limit=500",
    "/why?url=http://news.test/a",
    "/documents/1",
    "/documents/1/diff",
    "/documents/1/trace",
    "/frontier/urls?limit=1000",
    "/frontier/hosts?limit=1000",
    "/search?q=river&limit=100",
    "/changes?limit=1000",
    "/metrics",
    "/openapi.json",
    "/docs",
]


async def test_no_reader_stalls_the_others(api: Api) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    body = json.dumps({"urls": [f"http://many.test/{number}" for number in range(URLS)]})
    async with (
        no_stall("submit"),
        api.session.post(api.base + "/frontier/urls", data=body, headers=headers) as response,
    ):
        assert response.status == 200
        await response.read()
    for path in READS:
        async with no_stall(path), api.session.get(api.base + path) as response:
            assert response.status == 200, path
            assert len(await response.read()) < LARGEST_ANSWER, path


async def test_sources_come_in_pages(api: Api) -> None:
    names, query, pages = [], "", 0
    while query is not None:
        _, listed = await api.get(f"/sources{query}")
        names += [row["name"] for row in listed["sources"]]
        query = f"?after={listed['next']}" if listed["next"] else None
        pages += 1
    assert (len(names), len(set(names)), pages) == (SOURCES + 1, SOURCES + 1, 11)
    assert listed["total"] == sum(listed["health"].values()) == SOURCES + 1
    _, past = await api.get("/sources?after=disabled:zzzz")
    assert (past["sources"], past["next"]) == ([], None)
    for wrong in ("500", "failing", "ill:a", "failing:"):
        assert (await api.get(f"/sources?after={wrong}"))[0] == 422
