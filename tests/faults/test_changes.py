"""Readers and receivers get every change, in order for each document, after any kill (spec 4.4, 8.5, 9.3)."""

import asyncio
import random
from collections import defaultdict

import pytest

from headwater.changes.operations import ChangeFeed, NewWebhook, WebhookOperations
from headwater.core.settings import Settings
from headwater.db.changes import Change
from headwater.db.context import open_database_context
from headwater.db.pool import Database, open_database
from tests.faults.conftest import Crawl
from tests.faults.victim import DELIVERY_POINTS
from tests.receiver import HANG, RESET, ReceiverServer

BRISK = "brisk rescuer"


def position(change: Change) -> int:
    return int(change.cursor.removeprefix("c"))


async def consume(database: Database, is_over: asyncio.Event) -> list[Change]:
    """Read all changes, by small pages, until they are over."""
    found: list[Change] = []
    while True:
        was_over = is_over.is_set()
        page = await ChangeFeed(database).list_after(position(found[-1]) if found else 0, 3)
        found += page
        if not page:
            if was_over:
                return found
            await asyncio.sleep(0.01)


@pytest.mark.timeout(180)
async def test_a_consumer_reads_every_document_in_order_while_writers_are_killed(crawl: Crawl) -> None:
    """Spec 8.5, 9.3: two programs commit at once and are killed at random; each change comes exactly once."""
    chance = random.Random(9)
    is_over = asyncio.Event()
    async with crawl(hosts=40, pages=8, feeds=8) as harness:
        async with open_database(Settings(database_url=harness.database_url)) as database:
            consuming = asyncio.create_task(consume(database, is_over))
            for words in ("up", "worker", "worker"):
                await harness.start(words, plant=BRISK)
            await harness.until_under_way(0.02)
            while harness.kills < 12:
                words = await harness.kill(chance.choice(list(harness.programs)))
                await harness.start(*words, plant=BRISK)
                await asyncio.sleep(chance.uniform(0.05, 0.3))
            await harness.until_done(90)
            await harness.stop()
            is_over.set()
            found = await asyncio.wait_for(consuming, 30)
        documents = dict(
            await harness.rows("SELECT url, revision FROM documents d JOIN url_frontier u ON u.id = d.url_id")
        )
    assert len(documents) > 100
    positions = [position(change) for change in found]
    assert positions == sorted(set(positions))
    seen = defaultdict(list)
    for change in found:
        assert change.document
        seen[change.url].append(change.document.revision)
    assert seen == {url: list(range(1, last + 1)) for url, last in documents.items()}


@pytest.mark.timeout(180)
async def test_receivers_get_every_document_in_order_after_a_kill_at_every_point(crawl: Crawl) -> None:
    """Spec 4.4, 9.3: each change arrives at least once and always under the same id, also at a faulty receiver."""
    async with (
        ReceiverServer() as receiver,
        crawl(hosts=20, pages=4, plain=True, allow_networks="127.0.0.0/8") as harness,
    ):
        receiver.behaviours["flaky"] = [500, RESET, HANG, 503, 200, RESET, 429, 200]
        settings = Settings(database_url=harness.database_url, data_dir=harness.data)
        async with open_database_context(settings) as context:
            for name in ("well", "flaky"):
                await WebhookOperations(context).add(NewWebhook(name, receiver.url(name), since="c0"))
        for point in DELIVERY_POINTS:
            victim = await harness.start("up", point=point, plant=BRISK)
            assert await asyncio.wait_for(victim.wait(), 30) == -9
            del harness.programs[victim]
        await harness.start("up", plant=BRISK)
        await harness.until_done(60)
        async with asyncio.timeout(60):
            await harness.until_delivered(2 * 80)
        await harness.stop()
        ((lost,),) = await harness.rows("SELECT count(*) FROM delivery_log WHERE reason = 'worker_lost'")
        documents = {
            url for (url,) in await harness.rows("SELECT url FROM documents JOIN url_frontier u ON u.id = url_id")
        }
    assert lost > 0, "the kills must meet deliveries under way"
    assert len(documents) == 80
    for hook in ("well", "flaky"):
        ids_by_url = defaultdict(set)
        for one in receiver.received(hook):
            ids_by_url[one.payload["url"]].add(one.id)
        assert set(ids_by_url) == documents
        assert {len(ids) for ids in ids_by_url.values()} == {1}
