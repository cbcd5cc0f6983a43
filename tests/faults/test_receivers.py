"""A receiver of webhooks that disappears and returns during a crawl (spec 4.4). test_canonical_redis.py has Redis."""

import asyncio
from collections import defaultdict

import pytest

from headwater.changes.operations import NewWebhook, WebhookOperations
from headwater.core.settings import Settings
from headwater.db.context import open_database_context
from tests.faults.conftest import Crawl
from tests.faults.invariants import violations
from tests.receiver import ReceiverServer


@pytest.mark.timeout(180)
async def test_a_receiver_that_disappears_and_returns_gets_every_document_in_order(crawl: Crawl) -> None:
    """Issue 21: it is away three times, and the program is killed during the second time."""
    async with (
        ReceiverServer() as receiver,
        crawl(hosts=20, pages=6, feeds=2, allow_networks="127.0.0.0/8") as harness,
    ):
        settings = Settings(database_url=harness.database_url, data_dir=harness.data)
        async with open_database_context(settings) as context:
            await WebhookOperations(context).add(NewWebhook("hook", receiver.url("hook"), since="c0"))
        await harness.start("up", plant="brisk rescuer")
        for time, part in enumerate((0.2, 0.5, 0.8)):
            await harness.until_under_way(part)
            await receiver.go_away()
            before = len(await harness.rows("SELECT FROM delivery_log WHERE reason = 'network'"))
            while len(await harness.rows("SELECT FROM delivery_log WHERE reason = 'network'")) < before + 3:
                await harness.look_again()
            if time == 1:
                (program,) = harness.programs
                await harness.kill(program)
                await harness.start("up", plant="brisk rescuer")
            await receiver.come_back()
        await harness.until_done(60)
        await harness.execute("UPDATE deliveries SET due_at = now() WHERE status = 'pending'")
        ((wanted,),) = await harness.rows("SELECT count(*) FROM changes WHERE revision IS NOT NULL")
        async with asyncio.timeout(90):
            await harness.until_delivered(wanted)
        await harness.stop()
        assert await violations(harness) == {}
    ids: defaultdict[str, set[str]] = defaultdict(set)
    for one in receiver.received("hook"):
        ids[one.payload["url"]].add(one.id)
    assert len(ids) == wanted > 100
    assert {len(found) for found in ids.values()} == {1}
