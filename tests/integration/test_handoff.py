"""Hand-offs: each payload of the items of a run becomes one job (spec 7.1, 7.2, 7.5; issue 9)."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn
from uuid import UUID, uuid4

import asyncpg
import pytest

from headwater.app.maintenance import MaintenanceRole, rescue_expired
from headwater.core.errors import ExchangeFailed, HandoffsMissing, HeadwaterError
from headwater.core.lease import Lease
from headwater.core.poll import HandoffCounts, PollResult
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import migrate
from headwater.db.handoffs import HandoffFilter, HandoffOutcome, HandoffStatus, claim_handoffs
from headwater.db.jobs import JobFilter
from headwater.db.pool import Connection, Database, open_database
from headwater.demo.answers import always, status
from headwater.demo.api import ApiRequest
from headwater.handoff.handoffs import BATCH, HandoffRunner, MakeJobs, make_jobs
from headwater.storage.backup import back_up
from headwater.storage.restore import restore
from tests import catalog
from tests.catalog import handoffs, jobs, listing, serving, sync
from tests.database_state import end_leases
from tests.govuk import NIGHT, open_day_harness
from tests.govuk import page as govuk_page
from tests.harness import AppHarness, open_harness
from tests.server import Site, rss

FEED = "http://news.test/feed"
MANY = {f"p{number}": f"Page {number}" for number in range(2000)}


@pytest.fixture(autouse=True)
def _catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.install(monkeypatch)


def make_runner(
    harness: AppHarness,
    make: MakeJobs = make_jobs,
    *,
    base_seconds: float = 0.0,
    database: Database | None = None,
    lease_seconds: float = 10,
) -> HandoffRunner:
    """Return a runner with a faulty step and short leases."""
    context = harness.runtime.context
    settings = replace(context.settings, lease_seconds=lease_seconds, handoff_base_seconds=base_seconds)
    context = replace(context, settings=settings, database=database or context.database, holder="me")
    return HandoffRunner(context, make=make, patience=timedelta(seconds=0 if database else 10))


async def queue(harness: AppHarness, names: Collection[str], site: Site) -> list[int]:
    """Add items with queued hand-offs, as right after a run has saved them."""
    await sync_of(site, harness, *names)
    await harness.execute("DELETE FROM ingestion_handoffs")
    await harness.execute("DELETE FROM ingestion_jobs")
    ids = await harness.rows(
        "INSERT INTO ingestion_handoffs (reference_id, payload_hash, source_id, scrape_run_id, reason_code) "
        "SELECT id, repeat('a', 64), source_id, 1, 'queued_from_scrape' FROM items ORDER BY url RETURNING handoff_id"
    )
    return [handoff_id for (handoff_id,) in ids]


async def sync_of(site: Site, harness: AppHarness, *names: str) -> PollResult:
    """Sync a source that lists these names."""
    listing(site, **dict.fromkeys(names, "A title"))
    return await sync(harness)


@pytest.mark.both_servers
async def test_two_thousand_items_are_handed_off_once(site: Site, harness: AppHarness) -> None:
    """Issue 9: the same payloads are skipped and make no job; one changed payload makes one job."""
    listing(site, **MANY)
    first = await sync(harness)
    assert (first.items, first.handoffs) == (2000, HandoffCounts(completed=2000))
    assert len(await jobs(harness)) == 2000

    again = await sync(harness)
    assert (again.items, again.handoffs) == (2000, HandoffCounts(skipped=2000))
    assert len(await jobs(harness)) == 2000
    assert set(await handoffs(harness)) == {("completed", "ingestion_job_already_active", 1)}

    listing(site, **MANY | {"p7": "Another title"})
    changed = await sync(harness)
    assert changed.handoffs == HandoffCounts(completed=1, skipped=1999)
    of_run = [JobFilter(scrape_run_id=run.run_id) for run in (first, changed)]
    listed = [(await harness.operations.handoffs.list_jobs(one, limit=3000)).jobs for one in of_run]
    assert list(map(len, listed)) == [2000, 1]
    assert len([name for name, *_ in await jobs(harness) if name == "p7"]) == 2


async def test_a_hand_off_of_two_thousand_items_takes_less_than_two_seconds(site: Site, harness: AppHarness) -> None:
    """Issue 9: the extra time of a sync over one without hand-offs, from the best of three of both."""
    took: dict[bool, list[float]] = {False: [], True: []}
    database = harness.runtime.context.database
    await sync_of(site, harness, "warm")
    for number in range(3):
        for hands_off in (True, False):
            if not hands_off:
                await migrate.down_only(database, "handoffs")
            began = time.monotonic()
            synced = await sync_of(site, harness, *(f"{hands_off}-{number}-{name}" for name in MANY))
            took[hands_off].append(time.monotonic() - began)
            assert (synced.new_items, synced.handoffs) == (2000, HandoffCounts(completed=2000) if hands_off else None)
        await migrate.up(database)
    beyond = min(took[True]) - min(took[False])
    assert beyond < 2, f"of {min(took[True]):.2f} s"


async def test_the_items_of_a_poll_are_handed_off_by_the_next_sync(site: Site, harness: AppHarness) -> None:
    """Spec 7.1: a poll hands off no item, a sync every item that it touches."""
    site.answers[FEED] = rss("http://news.test/a", "http://news.test/b")
    serving(site, "a", "b")
    await harness.operations.sources.add(FEED, "news")
    await harness.work()
    assert await handoffs(harness) == []
    assert (await harness.operations.sources.sync("news")).handoffs == HandoffCounts(completed=2)
    assert await jobs(harness) == [("a", "ready", None), ("b", "ready", None)]
    assert site.visits("http://news.test/a") == 1, "already fetched"
    assert (await harness.operations.sources.sync("news")).handoffs == HandoffCounts(skipped=2)
    assert {reason for _, reason, _ in await handoffs(harness)} == {"ingestion_job_already_ready"}


async def test_a_dated_run_hands_off_its_items(make_settings: Callable[..., Settings]) -> None:
    """Spec 7.1."""
    async with open_day_harness(
        make_settings(), [govuk_page("/a"), govuk_page("/b")], at=NIGHT, fetch_items=None
    ) as harness:
        await harness.ingest()
        found = (await harness.operations.handoffs.list_handoffs(HandoffFilter())).handoffs
    handed = [(one.status, one.reason_code, one.scrape_run_id, one.job_status) for one in found]
    assert handed == [("completed", "ingestion_job_queued", 1, "queued")] * 2


async def test_items_whose_pages_are_not_fetched_are_skipped_with_their_reason(site: Site, harness: AppHarness) -> None:
    """Spec 7.2."""
    await harness.operations.sources.create("shop", "catalog", {"fetch_items": False})
    listing(site, a="A", b="B")
    assert (await sync(harness)).handoffs == HandoffCounts(skipped=2)
    assert await handoffs(harness) == [("completed", "page_not_fetched", 1)] * 2
    assert await jobs(harness) == []


def _raising(error: Exception) -> MakeJobs:
    async def make(connection: Connection, ids: Collection[int], token: UUID, now: datetime) -> NoReturn:
        await make_jobs(connection, ids, token, now)
        raise error

    return make


PASSING = [
    ExchangeFailed("It took too long.", reason=Reason.TIMEOUT),
    ExchangeFailed("It was reset.", reason=Reason.NETWORK),
    ExchangeFailed("It answered 503.", reason=Reason.HTTP_5XX),
    ExchangeFailed("It answered 429.", reason=Reason.RATE_LIMITED),
    TimeoutError("a statement took too long"),
    ConnectionResetError("the server has gone"),
    asyncpg.CannotConnectNowError("the database system is starting up"),
    asyncpg.LockNotAvailableError("canceling statement due to lock timeout"),
    asyncpg.DeadlockDetectedError("deadlock detected"),
]


@pytest.mark.parametrize("error", PASSING, ids=str)
async def test_a_passing_fault_is_tried_three_times(site: Site, harness: AppHarness, error: Exception) -> None:
    """Spec 7.2: then the hand-off fails with retry_exhausted, and no failed attempt leaves a job."""
    ids = await queue(harness, ["a", "b"], site)
    assert await make_runner(harness, _raising(error)).execute(ids) == HandoffCounts(failed=2)
    assert await handoffs(harness) == [("failed", "retry_exhausted", 3)] * 2
    assert await jobs(harness) == []
    for handoff in (await harness.operations.handoffs.list_handoffs(HandoffFilter())).handoffs:
        assert str(error) in (handoff.error or "")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (HeadwaterError("No such page.", reason=Reason.NOT_FOUND), "not_found"),
        (HeadwaterError("It may not be asked.", reason=Reason.ROBOTS_BLOCKED), "robots_blocked"),
        (ValueError("nonsense"), "internal"),
        (asyncpg.CheckViolationError("violates a constraint"), "internal"),
    ],
    ids=str,
)
async def test_a_permanent_fault_is_not_tried_again(
    site: Site, harness: AppHarness, error: Exception, reason: str
) -> None:
    """Spec 7.2."""
    ids = await queue(harness, ["a"], site)
    assert await make_runner(harness, _raising(error)).execute(ids) == HandoffCounts(failed=1)
    assert await handoffs(harness) == [("failed", reason, 1)]


async def test_a_passing_fault_costs_only_attempts(site: Site, harness: AppHarness) -> None:
    """Spec 7.2."""
    ids, calls = await queue(harness, ["a", "b"], site), 0

    async def make(connection: Connection, batch: Collection[int], token: UUID, now: datetime) -> list[HandoffOutcome]:
        nonlocal calls
        calls += 1
        made = await make_jobs(connection, batch, token, now)
        if calls < 3:
            raise ConnectionResetError
        return made

    assert await make_runner(harness, make).execute(ids) == HandoffCounts(completed=2)
    assert await handoffs(harness) == [("completed", "ingestion_job_queued", 3)] * 2
    assert len(await jobs(harness)) == 2


async def test_the_wait_between_attempts_doubles(site: Site, harness: AppHarness) -> None:
    """Spec 7.2: base * 2^(attempt - 1), and no wait after the last attempt."""
    ids = await queue(harness, ["a"], site)
    tried: list[float] = []

    async def make(connection: Connection, batch: Collection[int], token: UUID, now: datetime) -> NoReturn:
        tried.append(time.monotonic())
        raise ConnectionResetError

    await make_runner(harness, make, base_seconds=0.1).execute(ids)
    assert len(tried) == 3
    assert tried[1] - tried[0] >= 0.1
    assert tried[2] - tried[1] >= 0.2


async def test_a_failing_item_does_not_fail_the_others_of_its_batch(site: Site, harness: AppHarness) -> None:
    """Spec 7.2."""
    ids = await queue(harness, ["a", "b", "c"], site)

    async def make(connection: Connection, batch: Collection[int], token: UUID, now: datetime) -> list[HandoffOutcome]:
        made = await make_jobs(connection, batch, token, now)
        if ids[1] in batch:
            raise ValueError("this one is odd")
        return made

    assert await make_runner(harness, make).execute(ids) == HandoffCounts(completed=2, failed=1)
    assert [status for status, *_ in await handoffs(harness)] == ["completed", "failed", "completed"]
    assert [name for name, *_ in await jobs(harness)] == ["a", "c"]


async def test_a_failed_hand_off_is_retried_on_request(site: Site, harness: AppHarness) -> None:
    """Spec 7.2."""
    ids = await queue(harness, ["a", "b"], site)
    await make_runner(harness, _raising(ConnectionResetError())).execute(ids)
    assert (await harness.operations.handoffs.retry_handoff(ids[0])).status is HandoffStatus.COMPLETED
    assert await handoffs(harness) == [("completed", "ingestion_job_queued", 1), ("failed", "retry_exhausted", 3)]
    with pytest.raises(HeadwaterError) as refused:
        await harness.operations.handoffs.retry_handoff(ids[0])
    assert refused.value.reason is Reason.NOT_FAILED


async def test_the_hand_offs_of_a_dead_holder_are_executed_after_their_lease(site: Site, harness: AppHarness) -> None:
    """Issue 9: no hand-off is stuck past its lease, and a stale finish changes nothing."""
    ids = await queue(harness, ["a", "b"], site)
    held = asyncio.Event()
    stale: list[UUID] = []

    async def make(connection: Connection, batch: Collection[int], token: UUID, now: datetime) -> NoReturn:
        stale.append(token)
        held.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    dying = asyncio.create_task(make_runner(harness, make).execute(ids))
    await held.wait()
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    assert await handoffs(harness) == [("running", "queued_from_scrape", 1)] * 2

    await end_leases(harness, "ingestion_handoffs")
    assert await rescue_expired(harness.runtime.context) == 2
    assert await handoffs(harness) == [("queued", "worker_lost", 1)] * 2
    await MaintenanceRole(harness.runtime.context)._run_duties()
    assert await handoffs(harness) == [("completed", "ingestion_job_queued", 2)] * 2

    async with harness.runtime.context.database.connection() as connection:
        await make_jobs(connection, ids, stale[0], harness.runtime.context.clock.now())
    assert len(await jobs(harness)) == 2


async def test_abandoned_hand_offs_are_executed_soon(site: Site, harness: AppHarness) -> None:
    """Issue 9: they do not wait a whole lease, but they wait while their run still hands off others."""
    ids = await queue(harness, ["a", "b"], site)
    patient = make_runner(harness, lease_seconds=120)
    assert await patient.execute_abandoned() == 0
    await harness.execute("ALTER TABLE ingestion_handoffs DISABLE TRIGGER trg_update_ingestion_handoff_timestamp")
    await harness.execute(
        f"UPDATE ingestion_handoffs SET updated_at = now() - interval '16 s' WHERE handoff_id = {ids[0]}"
    )
    assert await patient.execute_abandoned() == 0
    await harness.execute("UPDATE ingestion_handoffs SET updated_at = now() - interval '16 s'")
    assert await make_runner(harness, lease_seconds=120, base_seconds=30).execute_abandoned() == 0, (
        "its process may still wait between attempts"
    )
    assert await patient.execute_abandoned() == 2
    assert await handoffs(harness) == [("completed", "ingestion_job_queued", 1)] * 2


async def test_a_hand_off_that_loses_its_holder_at_every_attempt_fails(site: Site, harness: AppHarness) -> None:
    """Spec 7.2: a claim counts as an attempt."""
    ids, now = await queue(harness, ["a"], site), harness.runtime.context.clock.now()
    for attempt in (1, 2, 3):
        lease = Lease("dead", uuid4(), now + timedelta(seconds=10), 1)
        claimed = await harness.runtime.context.database.run(claim_handoffs, ids, lease, len(ids))
        assert [one.attempts for one in claimed] == [attempt]
        await end_leases(harness, "ingestion_handoffs")
        await rescue_expired(harness.runtime.context)
    assert await handoffs(harness) == [("failed", "retry_exhausted", 3)]


async def test_the_counts_are_right_when_the_database_goes_away_midway(site: Site, harness: AppHarness) -> None:
    """Issue 9: earlier hand-offs are completed; the rest is queued."""
    ids = await queue(harness, list(MANY)[: 2 * BATCH], site)
    async with contextlib.AsyncExitStack() as going_away:
        context = harness.runtime.context
        database = await going_away.enter_async_context(open_database(context.settings))

        async def make(
            connection: Connection, batch: Collection[int], token: UUID, now: datetime
        ) -> list[HandoffOutcome]:
            if ids[-1] in batch:
                await going_away.aclose()
            return await make_jobs(connection, batch, token, now)

        counts = await make_runner(harness, make, database=database).execute(ids)
    assert counts == HandoffCounts(completed=BATCH, queued=BATCH)
    assert len(await jobs(harness)) == BATCH


async def test_a_later_sync_of_the_same_items_changes_no_counts(site: Site, harness: AppHarness) -> None:
    """Spec 7.2: each call counts its own results; another call executes what it queued again."""
    ids = await queue(harness, ["a", "b", "c"], site)

    async def make(connection: Connection, batch: Collection[int], token: UUID, now: datetime) -> list[HandoffOutcome]:
        if len(batch) > 1:
            raise ValueError("one by one, please")
        if ids[2] in batch:
            await harness.execute("UPDATE ingestion_handoffs SET status = 'queued' WHERE handoff_id = $1", ids[0])
        return await make_jobs(connection, batch, token, now)

    assert await make_runner(harness, make).execute(ids) == HandoffCounts(completed=3)
    assert [status for status, *_ in await handoffs(harness)] == ["queued", "completed", "completed"]
    assert await make_runner(harness).execute(ids) == HandoffCounts(skipped=3)


async def test_a_sync_whose_items_cannot_be_saved_counts_no_hand_offs(site: Site, harness: AppHarness) -> None:
    """Spec 7.2: the failed transaction would have queued them."""
    await harness.execute("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$")
    await harness.execute("CREATE TRIGGER refuse BEFORE INSERT ON daily_index FOR EACH ROW EXECUTE FUNCTION refuse()")
    await harness.operations.sources.create("shop", "catalog", {})
    listing(site, a="A", b="B")
    failed = await harness.operations.sources.sync("shop")
    assert "RaiseError" in (failed.error or "")
    assert (failed.items, failed.handoff_ids, failed.handoffs) == (0, None, None)
    assert await handoffs(harness) == []


async def test_concurrent_hand_offs_of_the_same_items_make_one_job_each(site: Site, harness: AppHarness) -> None:
    """Issue 9: no duplicate job."""
    ids = await queue(harness, list(MANY)[:300], site)
    counts = await asyncio.gather(*(make_runner(harness).execute(ids) for _ in range(4)))
    assert {sum((one.queued, one.completed, one.failed, one.skipped)) for one in counts if one} == {300}
    assert sum(one.completed for one in counts if one) == 300, "each job is counted once"
    found = await jobs(harness)
    assert len(found) == len({name for name, *_ in found}) == 300


async def test_two_payloads_of_one_item_in_one_batch_are_handed_off_in_order(site: Site, harness: AppHarness) -> None:
    """Spec 7.3: the later one is a successor; the page settles both."""
    serving(site, "a")
    ids = await queue(harness, ["a"], site)
    await harness.work()
    ((later,),) = await harness.rows(
        "INSERT INTO ingestion_handoffs (reference_id, payload_hash, source_id, reason_code) "
        "SELECT id, repeat('b', 64), source_id, 'queued_from_scrape' FROM items RETURNING handoff_id"
    )
    assert await make_runner(harness).execute([*ids, later]) == HandoffCounts(completed=2)
    assert await jobs(harness) == [("a", "ready", None), ("a", "queued", None)], (
        "the page is fetched again for the later"
    )
    await harness.work()
    assert await jobs(harness) == [("a", "ready", None)] * 2


async def test_the_items_of_a_failed_day_are_handed_off(make_settings: Callable[..., Settings]) -> None:
    """Spec 6.5, 7.1: a failed run has touched the items that it saved."""
    pages = [
        govuk_page("/a"),
        govuk_page("/b", NIGHT - timedelta(days=90), public_timestamp=NIGHT - timedelta(hours=9)),
    ]
    async with open_day_harness(make_settings(), pages, at=NIGHT, fetch_items=None) as harness:
        harness.api.faults.plan(always(status(500)), when=ApiRequest.is_content, times=None)
        ended = await harness.ingest()
        assert ended.status == "failed"
        assert ended.items
        kept = (await harness.operations.handoffs.list_handoffs(HandoffFilter(), limit=1000)).handoffs
    assert [(one.status, one.reason_code) for one in kept] == [("completed", "ingestion_job_queued")] * ended.items


@pytest.mark.both_servers
async def test_everything_runs_while_hand_offs_are_rolled_back(site: Site, harness: AppHarness) -> None:
    """Spec 7.5, in a running process."""
    listing(site, a="A", b="B")
    serving(site, "a", "b")
    await sync(harness)
    database = harness.runtime.context.database
    await migrate.down_only(database, "handoffs")

    listing(site, a="A", b="B", c="C")
    without = await sync(harness)
    assert (without.items, without.new_items, without.handoffs) == (3, 1, None)
    with pytest.raises(HandoffsMissing):
        await harness.operations.handoffs.list_handoffs(HandoffFilter("shop"))
    assert len(await jobs(harness)) == 2, "jobs stay"
    await MaintenanceRole(harness.runtime.context)._run_duties()
    await harness.work()
    assert await jobs(harness) == [("a", "ready", None), ("b", "ready", None)]

    await migrate.up(database)
    assert (await sync(harness)).handoffs == HandoffCounts(completed=1, skipped=2)
    assert (await harness.operations.handoffs.list_handoffs(HandoffFilter("shop"))).total == 3


@pytest.mark.parametrize("rolled_back", [False, True])
async def test_a_backup_has_jobs_and_hand_offs_unless_these_are_rolled_back(
    site: Site, harness: AppHarness, make_settings: Callable[..., Settings], tmp_path: Path, rolled_back: bool
) -> None:
    """Spec 7.5, 9.1: a job that waited at the backup is settled after the restore."""
    listing(site, a="A", b="B")
    serving(site, "a")
    await sync(harness)
    if rolled_back:
        await migrate.down_only(harness.runtime.context.database, "handoffs")
    await back_up(make_settings(), tmp_path / "backup")
    settings = make_settings(data_dir=tmp_path / "elsewhere", database_url="", connect_to=site.connect_to)
    await restore(settings, tmp_path / "backup")
    async with open_harness(settings) as restored:
        await restored.work()
        assert await jobs(restored) == [("a", "ready", None), ("b", "failed", "not_found")]
        if rolled_back:
            assert (await sync(restored)).handoffs is None
            assert [step.name for step in await migrate.up(restored.runtime.context.database)] == ["handoffs"]
        assert (await sync(restored)).handoffs == HandoffCounts(skipped=2)
