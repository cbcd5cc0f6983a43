"""The `concurrency` of a source holds for its pages and its list requests, in all processes (spec 11.6)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from aiohttp import web

from headwater.core.settings import Settings
from headwater.core.source import Method
from headwater.db import permits
from headwater.db.permits import Permit
from tests.database_state import count
from tests.harness import AppHarness, open_harness
from tests.server import Answer, Site, page, rss
from tests.waiting import until

pytestmark = pytest.mark.both_servers

FEED, HOME = "http://news.test/feed", "http://news.test/"
HTML = {"Content-Type": "text/html"}
SERVER_SECONDS = 0.05


class SlowSite(Site):
    """A server that needs a moment for each answer and counts the requests that it has at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            await asyncio.sleep(SERVER_SECONDS)
            return await super()._serve(request)
        finally:
            self.now -= 1


@pytest.fixture
async def site() -> AsyncIterator[SlowSite]:
    async with SlowSite() as server:
        yield server


def serve(site: Site, name: str, hosts: int) -> list[str]:
    """Serve a feed with a page on each of several hosts. Return the pages."""
    links = [f"http://{name}{number}.test/page" for number in range(hosts)]
    site.answers[f"http://{name}.test/feed"] = rss(*links)
    site.answers |= {link: Answer(page(link), headers=HTML) for link in links}
    return links


async def create(harness: AppHarness, name: str, concurrency: int) -> None:
    settings = {"feed_url": f"http://{name}.test/feed", "concurrency": concurrency, "ingestion_mode": "both"}
    await harness.operations.sources.create(name, "site", {**settings, "rate_per_second": 1000})


async def test_pages_and_lists_in_all_processes_keep_the_concurrency_together(
    site: SlowSite, make_settings: Callable[..., Settings]
) -> None:
    links = serve(site, "news", 8)
    site.answers[HOME] = Answer('<a href="/a">a</a><a href="/b">b</a>', headers=HTML)
    settings = make_settings(connect_to=site.connect_to, host_delay_ms=0)
    async with open_harness(settings) as one, open_harness(settings) as other:
        await create(one, "news", 2)
        await one.poll("news")
        site.peak = 0
        async with asyncio.TaskGroup() as group:
            for harness in (one, other):
                group.create_task(harness.work())
            for method in Method:
                group.create_task(other.poll("news", method))
        assert site.peak == 2
        stored = {url for url, outcome in (await one.outcomes()).items() if outcome == "stored"}
        assert stored >= set(links)
        assert {site.visits(link) for link in links} == {1}
        assert await count(one, "source_permits", "token IS NOT NULL") == 0
        assert await one.rows("SELECT max(attempt) FROM fetch_log") == [(1,)]


async def test_a_source_without_a_free_permit_delays_no_other(
    site: SlowSite, make_settings: Callable[..., Settings]
) -> None:
    """Spec 2.5: it has more hosts than a worker claims at once."""
    busy, free = serve(site, "busy", 30), serve(site, "free", 1)
    site.hanging |= set(busy)
    settings = make_settings(connect_to=site.connect_to, host_delay_ms=0, fetch_workers=4)
    async with open_harness(settings) as harness:
        await create(harness, "busy", 1)
        await harness.poll("busy")
        working = asyncio.create_task(harness.work())
        await until(lambda: site.waiting)
        await create(harness, "free", 1)
        await harness.poll("free")
        await until(lambda: site.visits(free[0]))
        assert len(site.waiting) == 1
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def test_a_list_request_that_waits_for_its_rate_takes_no_permit_from_pages(
    site: SlowSite, make_settings: Callable[..., Settings]
) -> None:
    (link,) = serve(site, "news", 1)
    async with open_harness(make_settings(connect_to=site.connect_to, host_delay_ms=0)) as harness:
        await create(harness, "news", 1)
        await harness.poll("news")
        moment = datetime.now(UTC) + timedelta(minutes=5)
        await harness.rows("UPDATE sources SET next_request_at = $1", moment)
        reading = asyncio.create_task(harness.poll("news", Method.SPIDER))
        await until(lambda: harness.rows("SELECT FROM sources WHERE next_request_at > $1", moment))
        working = asyncio.create_task(harness.work())
        await until(lambda: site.visits(link))
        for task in (reading, working):
            task.cancel()
        await asyncio.gather(reading, working, return_exceptions=True)


async def test_the_permits_of_a_lost_process_are_free_at_their_ends(
    make_settings: Callable[..., Settings],
) -> None:
    now = datetime.now(UTC)
    async with open_harness(make_settings()) as harness:
        source = await harness.operations.sources.create("news", "site", {"feed_url": FEED, "concurrency": 2})

        async def take(requests: int, at: datetime) -> int:
            wanted = [Permit(source.id, uuid4(), at + timedelta(minutes=1)) for _ in range(requests)]
            return len(await harness.runtime.context.database.run(permits.take_permits, wanted, at))

        assert [await take(1, now), await take(3, now), await take(1, now)] == [1, 1, 0]
        assert await take(5, now + timedelta(minutes=2)) == 2
        assert await take(5, now) == 0


async def test_a_change_of_the_setting_holds_at_once(make_settings: Callable[..., Settings]) -> None:
    async with open_harness(make_settings()) as harness:
        sources = harness.operations.sources
        await sources.create("news", "site", {"feed_url": FEED})
        counts = [await count(harness, "source_permits")]
        for concurrency in (7, 2):
            await sources.edit("news", {"concurrency": concurrency})
            counts.append(await count(harness, "source_permits"))
    assert counts == [4, 7, 2]
