"""A sitemap of 50,000 addresses costs our process little memory and never stalls its loop (spec 3.3, issue 6)."""

import asyncio
import gc
import gzip
import tracemalloc
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from headwater.core.http import Response
from headwater.sandbox.pool import Sandbox
from headwater.sources.run import Page
from tests.loop_work import watched_work
from tests.replaying import urlset

ADDRESSES = 50_000
NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
HOST = "https://big.example"
LEAST_BYTES = 6_000_000


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(preload=["headwater.feeds.sitemap_selection"]) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain() -> bytes:
    pages = (
        (f"{HOST}/news/2025/some-section/article-number-{number:06}-about-things", NOW - timedelta(hours=number))
        for number in range(ADDRESSES)
    )
    body = urlset(*((url, changed.isoformat()) for url, changed in pages)).encode()
    assert len(body) > LEAST_BYTES
    return body


async def count(body: bytes, sandbox: Sandbox, since: datetime) -> int:
    page = Page(Response(f"{HOST}/sitemap.xml", 200, {}, body, NOW, 0.0), sandbox)
    reading = await page.sitemap(since, ["big.example"], "/")
    found = 0
    for entries in reading.batches():
        found += len(entries)
        await asyncio.sleep(0)  # like the batches that are submitted meanwhile
    return found


@pytest.fixture(params=[False, True], ids=["xml", "gz"])
def body(request: pytest.FixtureRequest, plain: bytes) -> bytes:
    """The sitemap, plain or compressed."""
    return gzip.compress(plain) if request.param else plain


REACHES = pytest.mark.parametrize(
    ("since", "wanted"), [(NOW - timedelta(hours=48), 50), (datetime(2000, 1, 1, tzinfo=UTC), ADDRESSES)]
)


@REACHES
async def test_it_takes_less_than_30_megabytes(since: datetime, wanted: int, body: bytes, sandbox: Sandbox) -> None:
    await count(b"<urlset></urlset>", sandbox, since)  # one-time allocations are done now
    tracemalloc.start()
    try:
        assert await count(body, sandbox, since) == wanted
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak + len(body) < 30_000_000


@REACHES
async def test_the_event_loop_is_not_blocked(since: datetime, wanted: int, body: bytes, sandbox: Sandbox) -> None:
    gc.collect()
    gc.freeze()  # otherwise objects of other tests slow down the collector
    async with watched_work() as worked:
        assert await count(body, sandbox, since) == wanted
    assert max(worked) < 0.1
