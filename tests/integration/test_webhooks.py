"""Outboxes and webhooks: no change is lost, order holds per document (spec 4.3, 4.4, 8.5)."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from headwater.app.maintenance import rescue_expired
from headwater.app.roles import run_roles
from headwater.app.runtime import open_runtime
from headwater.changes.operations import DismissedDeliveries, NewWebhook, RetriedDeliveries
from headwater.changes.outbox import DelivererRole
from headwater.core.errors import LeaseLost
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import changes
from headwater.db.context import open_database_context
from headwater.db.pool import Database
from tests.api import TOKEN, open_api
from tests.database_state import count, held_leases
from tests.harness import AppHarness, open_harness
from tests.receiver import HANG, RESET, ReceiverServer
from tests.server import Answer, Site, page, rss
from tests.stored_rows import fail_job, write_all
from tests.waiting import until


@pytest.fixture
async def receiver() -> AsyncIterator[ReceiverServer]:
    async with ReceiverServer() as serving:
        yield serving


@pytest.fixture
async def quick(make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    async with open_harness(make_settings()) as harness:
        yield harness


@asynccontextmanager
async def delivering(harness: AppHarness) -> AsyncIterator[None]:
    """Run a deliverer during the block."""
    stop = asyncio.Event()
    role = DelivererRole(harness.runtime.outbox, harness.operations.metrics.count_delivery, look_seconds=0.02)
    working = asyncio.create_task(run_roles([role], stop))
    try:
        yield
    finally:
        stop.set()
        await working


async def until_settled(harness: AppHarness) -> None:
    """Wait until nothing is pending and every change has become a delivery."""
    give_up = time.monotonic() + 30
    while any(webhook.waiting for webhook in await harness.operations.webhooks.list_webhooks()):
        assert time.monotonic() < give_up, "it was not delivered"
        await asyncio.sleep(0.01)


async def statuses(harness: AppHarness, name: str) -> list[tuple[str, str]]:
    rows = (await harness.operations.webhooks.list_deliveries(name)).deliveries
    return [(row.url.rpartition("/")[2], row.status) for row in reversed(rows)]


def database_of(harness: AppHarness) -> Database:
    return harness.runtime.context.database


async def test_a_receiver_gets_signed_documents_and_failed_jobs(
    quick: AppHarness, receiver: ReceiverServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spec 8.5: the receiver checks the signature with its own code; the secret is in no log."""
    added = await quick.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    await write_all(database_of(quick), "a")
    async with quick.runtime.context.database.connection() as connection:
        job_id = await fail_job(connection, "gone", "not_found")
    async with delivering(quick):
        await until_settled(quick)
    first, second = sorted(receiver.received("hook"), key=lambda one: one.payload["cursor"])
    assert (first.payload["event"], first.payload["what"], first.document) == ("document.ready", "new", ("a", 1))
    assert (second.payload["event"], second.payload["job"]["id"], second.payload["job"]["reason"]) == (
        "job.failed",
        job_id,
        "not_found",
    )
    assert first.payload["delivery"] == first.id != second.id
    assert first.headers["Content-Type"] == "application/json"
    assert all(one.is_signed_with(added.secret) for one in (first, second))
    assert not first.is_signed_with("whsec_AAAA")
    sent = datetime.fromtimestamp(int(first.headers["Webhook-Timestamp"]), UTC)
    assert abs(datetime.now(UTC) - sent) < timedelta(minutes=1)
    logged = capsys.readouterr().out
    assert "delivery.done" in logged
    assert added.secret.removeprefix("whsec_") not in logged


async def test_a_receiver_gets_a_handed_off_item_when_its_page_ends(
    receiver: ReceiverServer, site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Spec 7.3, 8.5: through the whole flow, a stored page and a missing one."""
    site.answers["http://news.test/feed"] = rss("http://news.test/a", "http://news.test/gone")
    site.answers["http://news.test/a"] = Answer(page("river"), headers={"Content-Type": "text/html"})
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        await harness.operations.sources.create("news", "site", {"feed_url": "http://news.test/feed"})
        await harness.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
        async with open_api(settings) as api:
            assert (await api.post("/scraping/news/sync", {}))[0] == 200
        await harness.work()
        async with delivering(harness):
            await until_settled(harness)
    arrived = {one.payload["url"]: one.payload for one in receiver.received("hook")}
    assert arrived["http://news.test/a"]["document"]["title"] == "river"
    failed = arrived["http://news.test/gone"]
    assert (failed["event"], failed["job"]["reason"]) == ("job.failed", "not_found")
    assert failed["job"]["reference_id"] == hashlib.sha256(b"news:http://news.test/gone").hexdigest()


async def test_a_receiver_gets_only_its_events_since_it_was_added(quick: AppHarness, receiver: ReceiverServer) -> None:
    await write_all(database_of(quick), "before")
    await quick.operations.webhooks.add(NewWebhook("jobs", receiver.url("jobs"), ["job.failed"]))
    await quick.operations.webhooks.add(NewWebhook("now", receiver.url("now"), ["document.ready"]))
    await quick.operations.webhooks.add(NewWebhook("all", receiver.url("all"), since="c0"))
    await write_all(database_of(quick), "after")
    async with delivering(quick):
        await until_settled(quick)
    arrived = {hook: sorted(one.document[0] for one in receiver.received(hook)) for hook in ("jobs", "now", "all")}
    assert arrived == {"jobs": [], "now": ["after"], "all": ["after", "before"]}


async def test_passing_faults_lose_no_delivery_and_keep_each_document_in_order(
    quick: AppHarness, receiver: ReceiverServer
) -> None:
    """Spec 4.4: 500s, resets and time-outs, while documents keep changing."""
    receiver.behaviours["hook"] = [500, RESET, 503, 429, 425, 408, RESET, 500, 200, 500, 200]
    await quick.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    async with delivering(quick):
        for text in ("first", "second", "third"):
            await write_all(database_of(quick), "a", "b", "c", text=text)
        await until_settled(quick)
    taken = [
        row for row in (await quick.operations.webhooks.list_deliveries("hook")).deliveries if row.status == "delivered"
    ]
    assert len(taken) == 9
    for name in "abc":
        arrived = [one for one in receiver.received("hook") if one.document[0] == name]
        revisions = [one.document[1] for one in arrived]
        assert revisions == sorted(revisions), "a later revision came before an earlier one was taken"
        assert set(revisions) == {1, 2, 3}
        for revision in (1, 2, 3):
            assert len({one.id for one in arrived if one.document[1] == revision}) == 1
    reasons = {attempt.reason for row in taken for attempt in row.log}
    resets = {Reason.NETWORK, Reason.CONNECTION_LOST}  # of a new connection, and of one that was kept
    assert reasons & resets
    assert reasons - resets == {Reason.HTTP_5XX, Reason.RATE_LIMITED, Reason.DELIVERED}


@pytest.mark.parametrize(
    ("status", "reason"), [(410, Reason.GONE), (400, Reason.HTTP_4XX), (404, Reason.NOT_FOUND), (302, Reason.HTTP_ODD)]
)
async def test_a_refused_delivery_is_parked_and_blocks_no_other(
    status: int, reason: Reason, quick: AppHarness, receiver: ReceiverServer
) -> None:
    """Spec 4.4: it blocks no later delivery of the same document either; no redirect is followed."""
    receiver.behaviours["hook"] = [(status, {"Location": receiver.url("elsewhere")}), 200]
    await quick.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    async with delivering(quick):
        await write_all(database_of(quick), "a")
        await until_settled(quick)
        await write_all(database_of(quick), "b")
        await write_all(database_of(quick), "a", text="second")
        await until_settled(quick)
    assert await statuses(quick, "hook") == [("a", "parked"), ("b", "delivered"), ("a", "delivered")]
    (parked,) = (await quick.operations.webhooks.list_deliveries("hook", status="parked")).deliveries
    assert (parked.reason, [attempt.http_status for attempt in parked.log]) == (reason, [status])
    assert receiver.received("elsewhere") == []


async def test_a_parked_delivery_is_retried_on_request_unless_a_later_one_was_taken(
    quick: AppHarness, receiver: ReceiverServer
) -> None:
    """Spec 4.4: order holds per document."""
    receiver.behaviours["hook"] = [410, 410, 200]
    await quick.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    async with delivering(quick):
        await write_all(database_of(quick), "a")
        await until_settled(quick)
        await write_all(database_of(quick), "b")
        await until_settled(quick)
        await write_all(database_of(quick), "a", text="second")
        await until_settled(quick)
        assert await quick.operations.webhooks.retry_parked("hook", None) == RetriedDeliveries(1, 1, 0)
        await until_settled(quick)
    assert [one.document for one in receiver.received("hook")] == [("a", 1), ("b", 1), ("a", 2), ("b", 1)]
    assert await statuses(quick, "hook") == [("a", "dismissed"), ("b", "delivered"), ("a", "delivered")]
    ids = [one.id for one in receiver.received("hook") if one.document[0] == "b"]
    assert ids[0] == ids[1]


async def test_a_receiver_that_is_down_or_hangs_delays_no_other_and_gets_every_change_later(
    receiver: ReceiverServer, make_settings: Callable[..., Settings]
) -> None:
    """Spec 4.4: it gets also the changes that its outbox had no room for; the outbox does not grow."""
    async with open_harness(make_settings()) as harness:
        receiver.held = {"slow"}
        receiver.behaviours["down"] = [500]
        for name in ("down", "slow", "well"):
            await harness.operations.webhooks.add(NewWebhook(name, receiver.url(name)))
        names = [f"d{number}" for number in range(12)]

        async def are_sent() -> bool:
            """Check that one receiver has all changes, and that the failure of another is known."""
            (down, _, well) = await harness.operations.webhooks.list_webhooks()
            return well.waiting == 0 and len(receiver.received("well")) == len(names) and bool(down.failing_reason)

        async with delivering(harness):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(changes, "MOST_PENDING", 5)
                await write_all(database_of(harness), *names)
                await until(are_sent)
                assert {one.document[0] for one in receiver.received("slow")} < set(names)
                outboxes = [await harness.operations.webhooks.list_deliveries(name) for name in ("down", "slow")]
                assert max(len(outbox.deliveries) for outbox in outboxes) == 5
                assert len(receiver.received("slow")) <= changes.AT_ONCE
                (down, _, well) = await harness.operations.webhooks.list_webhooks()
                assert (down.waiting, well.waiting) == (12, 0)
                assert down.failing_reason == Reason.HTTP_5XX
                receiver.behaviours["down"] = [200]
                receiver.release()
                await until_settled(harness)
        for name in ("down", "slow"):
            assert {one.document[0] for one in receiver.received(name)} == set(names)


async def test_a_failing_receiver_is_asked_ever_more_rarely_and_by_one_delivery_only(
    receiver: ReceiverServer, make_settings: Callable[..., Settings]
) -> None:
    """Spec 4.4, 8.5: back-off."""
    receiver.behaviours["hook"] = [500]
    async with open_harness(make_settings(retry_base_seconds=600)) as harness:
        await harness.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
        await write_all(database_of(harness), *(f"d{number}" for number in range(20)))
        pauses = []
        for expected in (4, 4, 4, 1, 1, 1, 1):
            claimed = await harness.runtime.outbox.claim(64)
            assert len(claimed) == expected
            for delivery in claimed:
                await harness.runtime.outbox.deliver(delivery)
            not_before = (await harness.operations.webhooks.get("hook")).not_before
            pauses.append((not_before - datetime.now(UTC)) / timedelta(minutes=1) if not_before else 0)
            if not_before:
                assert await harness.runtime.outbox.claim(64) == []
                await harness.execute("UPDATE webhooks SET not_before = NULL")
        assert pauses[:2] == [0, 0]
        assert 9 <= pauses[2] <= 13 < 19 <= pauses[3] <= 25 < 39 <= pauses[4] <= 50
        outbox = (await harness.operations.webhooks.list_deliveries("hook")).deliveries
        assert max(one.due_at for one in outbox) - datetime.now(UTC) < timedelta(minutes=61)
        await harness.operations.webhooks.enable("hook", enabled=True)
        assert (await harness.runtime.outbox.claim(1))[0].lease.attempts > 1, "enabling makes all deliveries due"


async def test_a_receiver_gets_all_missed_deliveries_as_soon_as_it_takes_one(
    receiver: ReceiverServer, make_settings: Callable[..., Settings]
) -> None:
    """Spec 4.4: they do not wait until each is due."""
    receiver.behaviours["hook"] = [500] * 7 + [200]
    async with open_harness(make_settings(retry_base_seconds=3600)) as harness:
        await harness.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
        await write_all(database_of(harness), *(f"d{number}" for number in range(7)))
        for _ in range(7):
            for delivery in await harness.runtime.outbox.claim(1):
                await harness.runtime.outbox.deliver(delivery)
            await harness.execute("UPDATE webhooks SET not_before = NULL")
        await write_all(database_of(harness), "new")
        async with delivering(harness):
            await until_settled(harness)
    assert len({one.document[0] for one in receiver.received("hook")[7:]}) == 8


async def test_retry_after_is_honoured(receiver: ReceiverServer, quick: AppHarness) -> None:
    """Spec 8.5."""
    receiver.behaviours["hook"] = [(503, {"Retry-After": "7200"})]
    await quick.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    await write_all(database_of(quick), "a")
    (delivery,) = await quick.runtime.outbox.claim(10)
    await quick.runtime.outbox.deliver(delivery)
    (row,) = (await quick.operations.webhooks.list_deliveries("hook")).deliveries
    for moment in ((await quick.operations.webhooks.get("hook")).not_before, row.due_at):
        assert moment is not None
        assert timedelta(minutes=119) < moment - datetime.now(UTC) <= timedelta(hours=2)
    await write_all(database_of(quick), "b")
    assert await quick.runtime.outbox.claim(10) == []


async def test_a_failing_delivery_is_given_up_only_if_others_are_taken(
    receiver: ReceiverServer, quick: AppHarness
) -> None:
    """Spec 4.4: a receiver that is down for days loses nothing."""
    receiver.behaviours["hook"] = [500]
    await quick.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    await write_all(database_of(quick), "a")
    box = quick.runtime.outbox

    async def attempt() -> None:
        await quick.execute("UPDATE webhooks SET not_before = NULL, failures = 0")
        await quick.execute("UPDATE deliveries SET due_at = now()")
        for delivery in await box.claim(10):
            await box.deliver(delivery)

    await attempt()
    await quick.execute("UPDATE deliveries SET attempts = 100")
    await attempt()
    assert await statuses(quick, "hook") == [("a", "pending")]
    await quick.execute("UPDATE webhooks SET delivered_at = now()")
    await attempt()
    (row,) = (await quick.operations.webhooks.list_deliveries("hook")).deliveries
    assert (row.status, row.reason) == ("parked", Reason.MAX_RETRIES)


async def test_an_unsettled_delivery_is_sent_again_with_the_same_id(
    receiver: ReceiverServer, quick: AppHarness, make_settings: Callable[..., Settings]
) -> None:
    """Spec 2.4, 4.4: the lease of a dead holder expires; the old holder can change nothing any more."""
    await quick.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    await write_all(database_of(quick), "a")
    async with open_database_context(make_settings(lease_seconds=5)) as context, open_runtime(context) as runtime:
        (lost,) = await runtime.outbox.claim(10)
        await runtime.sender.send(lost.receiver, lost.id, lost.message)
    assert await quick.runtime.outbox.claim(10) == []
    await quick.execute("UPDATE deliveries SET lease_until = now()")
    assert await rescue_expired(quick.runtime.context) == 1
    async with delivering(quick):
        await until_settled(quick)
    first, second = receiver.received("hook")
    assert first.id == second.id
    assert first.payload == second.payload
    (row,) = (await quick.operations.webhooks.list_deliveries("hook")).deliveries
    assert [attempt.reason for attempt in row.log] == [Reason.WORKER_LOST, Reason.DELIVERED]
    with pytest.raises(LeaseLost):
        await quick.runtime.outbox.deliver(lost)
    assert (await quick.operations.webhooks.list_deliveries("hook")).deliveries[0].attempts == 2


async def test_a_stop_releases_the_deliveries_under_way(receiver: ReceiverServer, quick: AppHarness) -> None:
    """Spec 2.4."""
    receiver.behaviours["hook"] = [HANG]
    await quick.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    await write_all(database_of(quick), "a")
    stop = asyncio.Event()
    working = asyncio.create_task(DelivererRole(quick.runtime.outbox).run(stop, 0.01))
    await until(lambda: receiver.received("hook"))
    stop.set()
    await working
    (row,) = (await quick.operations.webhooks.list_deliveries("hook")).deliveries
    assert (row.status, row.attempts, row.log[0].reason) == ("pending", 0, Reason.SHUTDOWN)
    assert await held_leases(quick) == {}


async def test_a_private_address_is_refused_on_connect_and_no_delivery_is_lost(
    receiver: ReceiverServer, make_settings: Callable[..., Settings]
) -> None:
    """Spec 4.3: a setting can permit it; then the delivery is sent."""
    async with open_harness(make_settings(allow_networks=())) as harness:
        await harness.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
        assert (await harness.operations.webhooks.send_test("hook")).reason is Reason.ADDRESS_REFUSED
        await write_all(database_of(harness), "a")
        (delivery,) = await harness.runtime.outbox.claim(10)
        assert (await harness.runtime.outbox.deliver(delivery)).reason is Reason.ADDRESS_REFUSED
        assert await statuses(harness, "hook") == [("a", "pending")]
    assert receiver.seen == []
    async with open_harness(make_settings()) as harness, delivering(harness):
        await until_settled(harness)
    assert [one.document for one in receiver.seen] == [("a", 1)]


async def test_a_receiver_that_refuses_everything_gets_no_more_until_an_operator_acts(
    receiver: ReceiverServer, quick: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 4.4: the outbox does not grow with the backlog, and no change is lost."""
    monkeypatch.setattr(changes, "MOST_PARKED", 4)
    receiver.behaviours["hook"] = [401]
    await quick.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    await write_all(database_of(quick), *"abcd")
    async with delivering(quick):
        await until_settled(quick)
        await write_all(database_of(quick), *"efgh")
        await write_all(database_of(quick), "a", text="second")
        (row,) = await quick.operations.webhooks.list_webhooks()
        assert (row.parked, row.waiting) == (4, 5)
        receiver.behaviours["hook"] = [200]
        parked = (await quick.operations.webhooks.list_deliveries("hook", status="parked")).deliveries
        assert await quick.operations.webhooks.dismiss_parked("hook", [str(parked[0].id)]) == DismissedDeliveries(1, 3)
        assert (await quick.operations.webhooks.retry_parked("hook", [str(parked[1].id)])).queued == 1
        await until_settled(quick)
    assert [one for one in await statuses(quick, "hook") if one[1] != "delivered"] == [
        ("a", "parked"),
        ("b", "parked"),
        ("d", "dismissed"),
    ]


async def test_a_disabled_webhook_misses_no_change_when_it_is_enabled_again(
    receiver: ReceiverServer, quick: AppHarness
) -> None:
    """Spec 4.4."""
    await quick.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    await quick.operations.webhooks.add(NewWebhook("other", receiver.url("other")))
    await quick.operations.webhooks.enable("hook", enabled=False)
    async with delivering(quick):
        await write_all(database_of(quick), *"abc")
        await until(lambda: len(receiver.received("other")) == 3)
        assert receiver.received("hook") == []
        assert (await quick.operations.webhooks.get("hook")).waiting == 3
        await quick.operations.webhooks.enable("hook", enabled=True)
        await until_settled(quick)
    assert {one.document[0] for one in receiver.received("hook")} == set("abc")


async def test_old_deliveries_are_deleted_and_waiting_ones_stay(receiver: ReceiverServer, quick: AppHarness) -> None:
    """Spec 4.4: the retry of a superseded delivery is still refused after the deletion."""
    receiver.behaviours["hook"] = [410, 200]
    await quick.operations.webhooks.add(NewWebhook("hook", receiver.url("hook")))
    async with delivering(quick):
        await write_all(database_of(quick), "a")
        await until_settled(quick)
        await write_all(database_of(quick), "a", text="second")
        await write_all(database_of(quick), "b")
        await until_settled(quick)
    await quick.execute("UPDATE deliveries SET ended_at = ended_at - interval '2 days'")
    await quick.execute("UPDATE delivery_log SET ended_at = ended_at - interval '2 days'")
    now = quick.runtime.context.clock.now()

    async def prune(keep: timedelta) -> None:
        await database_of(quick).transact(lambda connection: changes.prune_deliveries(connection, now - keep))

    await prune(timedelta(days=3))
    assert len(await statuses(quick, "hook")) == 3
    await prune(timedelta(days=1))
    assert await statuses(quick, "hook") == [("a", "parked"), ("a", "delivered")]
    assert await count(quick, "delivery_log") == 0
    assert (await quick.operations.webhooks.retry_parked("hook", None)).superseded == 1
