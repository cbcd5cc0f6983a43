"""Outboxes when this side is late, offline or far behind (spec 4.4)."""

import ipaddress
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from headwater.app.maintenance import MaintenanceRole, rescue_expired
from headwater.changes.operations import NewWebhook, RetriedDeliveries
from headwater.changes.outbox import Outbox, settle
from headwater.changes.webhooks import WebhookSender
from headwater.core.errors import LeaseLost
from headwater.core.reasons import Reason
from headwater.db import changes
from headwater.db.changes import ClaimedDelivery, SendResult
from headwater.db.clock import DatabaseClock
from headwater.db.pool import Database
from headwater.http.client import HttpClient
from headwater.http.guard import AddressGuard
from tests.database_state import count
from tests.harness import AppHarness
from tests.integration.test_webhooks import database_of, delivering, statuses, until_settled
from tests.receiver import ReceiverServer
from tests.stored_rows import fail_job, write_all

LEASE_SECONDS = 10.0


class HandClock(DatabaseClock):
    """A clock that a test sets."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.shown = now

    def now(self) -> datetime:
        return self.shown


class Holder:
    """A second deliverer, which a test can stop for a while."""

    def __init__(self, harness: AppHarness) -> None:
        self.clock = HandClock(harness.runtime.context.clock.now())
        self.client = HttpClient(guard=AddressGuard([ipaddress.ip_network("127.0.0.0/8")]), clock=self.clock.now)
        self.sender = WebhookSender(self.client, self.clock, user_agent="test", lease_seconds=LEASE_SECONDS)
        context = harness.runtime.context
        settings = replace(context.settings, lease_seconds=LEASE_SECONDS, retry_base_seconds=1)
        self.outbox = Outbox(replace(context, settings=settings, clock=self.clock, holder="late"), self.sender)

    def pause(self) -> None:
        """Advance the clock so far that a send could outlast the lease."""
        self.clock.shown += timedelta(seconds=LEASE_SECONDS / 2)


@pytest.fixture
async def receiver() -> AsyncIterator[ReceiverServer]:
    async with ReceiverServer() as serving:
        yield serving


@pytest.fixture
async def holder(harness: AppHarness) -> AsyncIterator[Holder]:
    late = Holder(harness)
    async with late.client:
        yield late


async def count_changes(database: Database, name: str, times: int) -> None:
    """Add many changes of one document."""
    await write_all(database, name)
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO changes (url_id, document_id, revision, changed_at) "
            "SELECT url_id, id, 1, now() FROM documents, generate_series(1, $1) ORDER BY 1",
            times,
        )


async def test_a_late_holder_sends_no_superseded_delivery(
    harness: AppHarness, holder: Holder, receiver: ReceiverServer
) -> None:
    """Spec 4.4: order holds per document, also if a machine pauses with a claimed delivery."""
    await harness.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    await write_all(database_of(harness), "a")
    (lost,) = await holder.outbox.claim(10)
    await harness.execute("UPDATE deliveries SET lease_until = now()")
    assert await rescue_expired(harness.runtime.context) == 1
    await write_all(database_of(harness), "a", text="second")
    async with delivering(harness):
        await until_settled(harness)
    holder.pause()
    with pytest.raises(LeaseLost):
        await holder.outbox.deliver(lost)
    assert [one.document for one in receiver.received("hook")] == [("a", 1), ("a", 2)]


async def test_a_failed_job_is_not_superseded_by_another_job(harness: AppHarness, receiver: ReceiverServer) -> None:
    """Spec 4.4: each delivery is about its own job, although both jobs waited for the same page."""
    receiver.behaviours["hook"] = [410, 410, 200]
    await harness.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    async with delivering(harness):
        async with database_of(harness).connection() as connection:
            first = await fail_job(connection, "gone", "not_found")
        await until_settled(harness)
        await harness.execute(
            "INSERT INTO items (id, source_id, url, url_id, title, published_at, published_is_sighting, first_seen_at, "
            "last_seen_at) SELECT repeat('b', 64), source_id, url || '2', url_id, title, published_at, false, "
            "first_seen_at, last_seen_at FROM items"
        )
        ((second,),) = await harness.rows(
            "INSERT INTO ingestion_jobs (reference_id, payload_hash, source_id, url_id, created_at, updated_at) "
            "SELECT repeat('b', 64), repeat('b', 64), source_id, url_id, now(), now() FROM ingestion_jobs "
            "RETURNING job_id"
        )
        for _ in range(2):
            await harness.execute("SELECT settle_jobs(ARRAY[$1::bigint])", second)
            await until_settled(harness)
            await harness.execute(
                "UPDATE ingestion_jobs SET status = 'queued', reason = NULL, settled_at = NULL WHERE job_id = $1",
                second,
            )
        assert await harness.operations.webhooks.retry_parked("hook", None) == RetriedDeliveries(1, 1, 0)
        await until_settled(harness)
    assert [one.payload["job"]["id"] for one in receiver.received("hook")] == [first, second, second, first]
    assert await statuses(harness, "hook") == [("gone", "delivered"), ("gone", "dismissed"), ("gone", "delivered")]


async def test_a_receiver_of_failed_jobs_does_not_wait_behind_documents(
    harness: AppHarness, receiver: ReceiverServer
) -> None:
    """Spec 4.4: one claim skips them."""
    await harness.operations.webhooks.add(NewWebhook("jobs", receiver.url("jobs"), ["job.failed"]))
    await count_changes(database_of(harness), "a", 25_000)
    async with database_of(harness).connection() as connection:
        job_id = await fail_job(connection, "gone", "not_found")
    await harness.operations.changes.find_cursor(timedelta(days=1))
    (shown,) = await harness.operations.webhooks.list_webhooks()
    assert shown.waiting == 1
    (delivery,) = await harness.runtime.outbox.claim(64)
    assert delivery.message.job
    assert delivery.message.job.id == job_id


async def test_a_full_outbox_continues_where_it_stopped(
    harness: AppHarness, receiver: ReceiverServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 4.4: no wanted change is skipped."""
    monkeypatch.setattr("headwater.db.changes.MOST_PENDING", 3)
    monkeypatch.setattr("headwater.db.changes.SCANNED", 4)
    await harness.operations.webhooks.add(NewWebhook("docs", receiver.url("docs"), ["document.ready"]))
    await harness.operations.webhooks.add(NewWebhook("jobs", receiver.url("jobs"), ["job.failed"]))
    for number in range(12):
        await write_all(database_of(harness), f"d{number}")
        if number % 5 == 0:
            async with database_of(harness).connection() as connection:
                await fail_job(connection, f"gone{number}", "not_found")
    async with delivering(harness):
        await until_settled(harness)
    arrived = {
        hook: [one.payload["url"].rpartition("/")[2] for one in receiver.received(hook)] for hook in ("docs", "jobs")
    }
    assert sorted(arrived["docs"]) == sorted(f"d{number}" for number in range(12))
    assert sorted(arrived["jobs"]) == ["gone0", "gone10", "gone5"]


async def test_a_fault_on_our_side_does_not_change_the_receiver(harness: AppHarness, receiver: ReceiverServer) -> None:
    """Spec 4.4: a failing receiver keeps its pause when we are offline."""
    await harness.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    await write_all(database_of(harness), "a")
    (delivery,) = await harness.runtime.outbox.claim(10)
    await harness.execute(
        "UPDATE webhooks SET failures = 3, failing_reason = 'http_5xx', error = 'down', not_before = now() + '1 hour'"
    )
    before = await harness.operations.webhooks.get("hook")
    assert await save_result(harness, delivery, SendResult(Reason.OFFLINE, 1))
    assert await harness.operations.webhooks.get("hook") == before
    (row,) = (await harness.operations.webhooks.list_deliveries("hook")).deliveries
    assert (row.status, row.reason, row.attempts) == ("pending", Reason.OFFLINE, 0)


async def save_result(harness: AppHarness, delivery: ClaimedDelivery, result: SendResult) -> bool:
    now = harness.runtime.context.clock.now()
    settlement = settle(delivery, result, now, base_seconds=1, chance=0)
    async with database_of(harness).connection() as connection:
        return await changes.settle_delivery(connection, delivery, result, settlement, now)


async def test_maintenance_numbers_changes(harness: AppHarness) -> None:
    """Spec 8.5: so that the next reader does not wait for it."""
    await write_all(database_of(harness), "a")
    await MaintenanceRole(harness.runtime.context)._run_duties()
    assert await count(harness, "changes", "position IS NULL") == 0
