"""Jobs wait for the pages of items: every end of a page settles its jobs at once (spec 7.3)."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from headwater.app.maintenance import rescue_expired
from headwater.core.errors import OperatorError
from headwater.core.frontier import Claim, FetchOutcome, HostRelease, UrlStatus
from headwater.core.poll import HandoffCounts
from headwater.core.reasons import Reason
from headwater.core.urls import url_hash
from headwater.db.frontier import lock_claims, save_aliases
from headwater.db.handoffs import HandoffFilter
from headwater.db.jobs import Job, JobFilter, JobStatus
from headwater.db.pool import Connection
from headwater.frontier.claim import Finish, claim, finish
from headwater.handoff.handoffs import HandoffRunner, promote_successors
from tests import catalog
from tests.catalog import HTML, address, handoffs, jobs, listing, serving, sync
from tests.database_state import end_leases, make_due, until_blocked
from tests.harness import AppHarness
from tests.server import Answer, Site, page

pytestmark = pytest.mark.both_servers


@pytest.fixture(autouse=True)
def _catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.install(monkeypatch)


def to(url: str) -> Answer:
    return Answer(status=302, headers={"Location": url})


async def listed(harness: AppHarness) -> list[Job]:
    return (await harness.operations.handoffs.list_jobs(JobFilter())).jobs


async def take(harness: AppHarness) -> Claim:
    """Claim the one due URL, as a worker does."""
    context = harness.runtime.context
    (taken,) = await claim(
        context.database,
        now=context.clock.now(),
        lease=timedelta(seconds=10),
        holder="me",
        limit=1,
        default_delay_ms=0,
    )
    return taken


async def end(harness: AppHarness, taken: Claim, ending: FetchOutcome) -> bool:
    """Finish a claim, as a worker does; return False if the lease is lost."""
    now = harness.runtime.context.clock.now()

    async def work(connection: Connection) -> bool:
        if not await lock_claims(connection, [taken]):
            return False
        release = HostRelease(taken.host.politeness_key, taken.lease.token, now)
        await finish(connection, [Finish(taken, ending, release)], now)
        return True

    return await harness.runtime.context.database.transact(work)


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (Answer(page("a story"), headers=HTML), "ready", None),
        (Answer(status=404), "failed", "not_found"),
        (Answer(status=410), "failed", "gone"),
        (Answer(status=403), "failed", "http_4xx"),
        (Answer("too short", headers=HTML), "failed", "bad_html"),
        (to("http://other.test/far"), "ready", None),
        (to("/near"), "ready", None),
        (to("http://other.test/gone"), "failed", "gone"),
        (to("http://other.test/back"), "failed", "redirect"),
    ],
    ids=["stored", "404", "410", "403", "short", "moved", "near", "moved and gone", "in a circle"],
)
async def test_a_job_ends_as_its_page_does(
    site: Site, harness: AppHarness, answer: Answer, status: str, reason: str | None
) -> None:
    """Spec 7.3: ready with a document at the end of all redirects; else failed with the reason of the frontier."""
    listing(site, a="A")
    site.answers[address("a")] = answer
    for place in ("http://other.test/far", address("near")):
        site.answers[place] = Answer(page(f"at {place}"), headers=HTML)
    site.answers["http://other.test/gone"] = Answer(status=410)
    site.answers["http://other.test/back"] = to(address("a"))
    await sync(harness)
    assert [(job.status, job.settled_at) for job in await listed(harness)] == [("queued", None)]
    await harness.work()
    (job,) = await listed(harness)
    assert (job.status, job.reason) == (status, reason)
    assert (job.document_id is not None) is (status == "ready")
    assert job.settled_at is not None


async def test_pages_that_share_a_text_or_have_not_changed_are_ready_as_well(site: Site, harness: AppHarness) -> None:
    """Spec 7.3: linked text, 304, already fetched."""
    listing(site, a="A", b="B")
    for name in "ab":
        site.answers[address(name)] = Answer(page("one story"), headers={**HTML, "ETag": '"1"'})
    await sync(harness)
    await harness.work()
    assert sorted(str(reason) for reason in (await harness.outcomes()).values()) == ["linked", "stored"]
    assert [status for _, status, _ in await jobs(harness)] == ["ready", "ready"]
    listing(site, a="Another title", b="B")
    site.answers[address("a")] = Answer(status=304)
    await sync(harness)
    await harness.work()
    assert (await harness.outcomes())[address("a")] == "unchanged"
    assert [status for _, status, _ in await jobs(harness)] == ["ready"] * 3


async def test_jobs_of_several_sources_wait_for_one_page(site: Site, harness: AppHarness) -> None:
    """Spec 7.3."""
    listing(site, a="A")
    serving(site, "a")
    for name in ("shop", "market"):
        await sync(harness, name)
    await harness.work()
    assert [(job.source, job.status) for job in await listed(harness)] == [("market", "ready"), ("shop", "ready")]
    assert site.visits(address("a")) == 1


async def test_a_job_of_an_address_that_becomes_an_alias_is_ready_with_the_page(
    site: Site, harness: AppHarness
) -> None:
    """Spec 7.3: a queued address becomes the same page as an address that redirects to it."""
    listing(site, a="A", z="Z")
    serving(site, "z")
    site.answers[address("a")] = to(address("z"))
    await sync(harness)
    await harness.work()
    assert {status for _, status, _ in await jobs(harness)} == {"ready"}
    assert len({job.document_id for job in await listed(harness)}) == 1


async def test_a_page_that_moved_to_a_fetched_one_is_ready(site: Site, harness: AppHarness) -> None:
    """Spec 7.3: redirect target, already fetched."""
    serving(site, "old")
    await harness.fetch(address("old"))
    listing(site, a="A")
    site.answers[address("a")] = to(address("old"))
    await sync(harness)
    await harness.work()
    assert await jobs(harness) == [("a", "ready", None)]
    assert site.visits(address("old")) == 1


async def test_a_lost_worker_and_a_removed_source_settle_jobs(site: Site, harness: AppHarness) -> None:
    """Spec 7.3: by the rescuer, and by an operator."""
    listing(site, a="A")
    await sync(harness)
    for _ in range(harness.runtime.context.settings.max_retries + 1):
        await make_due(harness)
        assert [job.status for job in await listed(harness)] == ["queued"]
        await take(harness)
        assert [job.status for job in await listed(harness)] == ["running"]
        await end_leases(harness)
        await rescue_expired(harness.runtime.context)
    assert await jobs(harness) == [("a", "failed", "worker_lost")]

    listing(site, b="B")
    await sync(harness)
    await harness.operations.sources.remove("shop")
    assert (await jobs(harness))[1:] == [("b", "failed", "source_removed")]


async def test_a_changed_payload_of_a_ready_item_has_its_page_fetched_again(site: Site, harness: AppHarness) -> None:
    """Spec 7.3."""
    listing(site, a="A", b="B")
    serving(site, "a", "b")
    await sync(harness)
    await harness.work()
    listing(site, a="Another title", b="B")
    assert (await sync(harness)).handoffs == HandoffCounts(completed=1, skipped=1)
    assert await jobs(harness) == [("a", "ready", None), ("a", "queued", None), ("b", "ready", None)]
    await harness.work()
    assert {status for _, status, _ in await jobs(harness)} == {"ready"}
    assert (site.visits(address("a")), site.visits(address("b"))) == (2, 1)


async def test_a_payload_that_changes_while_its_page_waits_is_satisfied_by_one_fetch(
    site: Site, harness: AppHarness
) -> None:
    """Spec 7.3: a successor."""
    listing(site, a="A")
    serving(site, "a")
    await sync(harness)
    listing(site, a="Another title")
    assert (await sync(harness)).handoffs == HandoffCounts(completed=1)
    assert await jobs(harness) == [("a", "queued", None)] * 2
    await harness.work()
    assert await jobs(harness) == [("a", "ready", None)] * 2
    assert site.visits(address("a")) == 1


async def test_a_payload_that_changes_while_its_page_is_fetched_waits_for_the_fetch_after(
    site: Site, harness: AppHarness
) -> None:
    """Spec 7.3: the fetch under way may bring the page before its change."""
    context = harness.runtime.context
    listing(site, a="A")
    serving(site, "a")
    await sync(harness)
    taken = await take(harness)
    listing(site, a="Another title")
    await sync(harness)
    assert await promote_successors(context.database, context.clock.now()) == 0, "the fetch is under way"
    assert await end(harness, taken, FetchOutcome(Reason.NOT_FOUND, UrlStatus.DEAD))
    assert await jobs(harness) == [("a", "failed", "not_found"), ("a", "queued", None)]
    assert await promote_successors(context.database, context.clock.now()) == 1
    await harness.work()
    assert await jobs(harness) == [("a", "failed", "not_found"), ("a", "ready", None)]
    assert site.visits(address("a")) == 1


async def test_a_stale_finish_settles_nothing(site: Site, harness: AppHarness) -> None:
    """Issue 9."""
    listing(site, a="A")
    await sync(harness)
    taken = await take(harness)
    await end_leases(harness, "frontier_queue")
    await rescue_expired(harness.runtime.context)
    assert not await end(harness, taken, FetchOutcome(Reason.NOT_FOUND, UrlStatus.DEAD))
    assert await jobs(harness) == [("a", "queued", None)]


async def test_a_finish_during_a_hand_off_waits_for_its_job_and_settles_it(
    site: Site, harness: AppHarness, database_url: str
) -> None:
    """Spec 7.3: no job is missed in either order."""
    listing(site, a="A")
    await sync(harness)
    (job,) = await listed(harness)
    url_id = (await harness.urls())[address("a")].id
    taken = await take(harness)
    handing = await asyncpg.connect(database_url)
    try:
        async with handing.transaction():
            await handing.execute("DELETE FROM ingestion_handoffs")
            await handing.execute("UPDATE ingestion_jobs SET status = 'failed', reason = 'gone', settled_at = now()")
            await handing.fetch("SELECT * FROM find_final_page($1)", url_id)
            finishing = asyncio.create_task(end(harness, taken, FetchOutcome(Reason.NOT_FOUND, UrlStatus.DEAD)))
            await until_blocked(harness)
            await handing.execute(
                "INSERT INTO ingestion_jobs (reference_id, payload_hash, source_id, url_id, created_at, updated_at) "
                "SELECT reference_id, payload_hash, source_id, url_id, now(), now() FROM ingestion_jobs "
                "WHERE job_id = $1",
                job.job_id,
            )
        assert await finishing
    finally:
        await handing.close()
    assert await jobs(harness) == [("a", "failed", "gone"), ("a", "failed", "not_found")]


async def test_a_hand_off_that_waits_for_a_page_to_end_makes_no_second_job(
    site: Site, harness: AppHarness, database_url: str
) -> None:
    """Spec 7.3: it does not rely on the older row of the queue."""
    listing(site, a="A")
    await sync(harness)
    await take(harness)
    (handoff,) = (await harness.operations.handoffs.list_handoffs(HandoffFilter())).handoffs
    url_id = (await harness.urls())[address("a")].id
    await harness.execute(
        "UPDATE ingestion_handoffs SET status = 'queued', reason_code = 'queued_from_scrape', job_id = NULL"
    )
    ending = await asyncpg.connect(database_url)
    try:
        async with ending.transaction():
            await ending.execute("UPDATE url_frontier SET status = 'dead', reason = 'not_found' WHERE id = $1", url_id)
            await ending.execute("DELETE FROM frontier_queue WHERE url_id = $1", url_id)
            handing = asyncio.create_task(HandoffRunner(harness.runtime.context).execute([handoff.handoff_id]))
            await until_blocked(harness)
        await handing
    finally:
        await ending.close()
    assert await jobs(harness) == [("a", "failed", "not_found")]
    assert [reason for _, reason, _ in await handoffs(harness)] == ["ingestion_job_already_failed"]


async def test_a_failed_job_is_retried_only_on_request(site: Site, harness: AppHarness) -> None:
    """Spec 2.2, 7.3: a new sighting does not fetch a dead page again; an operator does."""
    listing(site, a="A", b="B")
    await sync(harness)
    await harness.work()
    assert await jobs(harness) == [("a", "failed", "not_found"), ("b", "failed", "not_found")]
    assert (await sync(harness)).handoffs == HandoffCounts(skipped=2)
    assert [reason for _, reason, _ in await handoffs(harness)] == ["ingestion_job_already_failed"] * 2
    assert len(await jobs(harness)) == 2

    serving(site, "a", "b")
    first, second = (await harness.operations.handoffs.list_handoffs(HandoffFilter("shop"))).handoffs
    assert (await harness.operations.handoffs.retry_handoff(first.handoff_id)).job_status is JobStatus.QUEUED
    assert (await harness.operations.handoffs.retry_jobs(JobFilter("shop", reason="not_found"))).retried == 1
    await harness.work()
    assert await jobs(harness) == [("a", "ready", None), ("b", "ready", None)]
    assert second.job_id
    with pytest.raises(OperatorError) as refused:
        await harness.operations.handoffs.retry_job(second.job_id)
    assert refused.value.reason is Reason.NOT_FAILED


async def test_a_retry_during_a_hand_off_of_the_payload_leaves_it_to_the_new_job(
    site: Site, harness: AppHarness, database_url: str
) -> None:
    """Spec 7.3: a payload has at most one active or ready job, and no database error occurs."""
    listing(site, a="A")
    await sync(harness)
    await harness.work()
    (job,) = await listed(harness)
    url_id = (await harness.urls())[address("a")].id
    handing = await asyncpg.connect(database_url)
    try:
        async with handing.transaction():
            await handing.fetch("SELECT * FROM find_final_page($1)", url_id)
            retrying = asyncio.create_task(harness.operations.handoffs.retry_job(job.job_id))
            await until_blocked(harness)
            await handing.execute("UPDATE url_frontier SET status = 'pending', reason = NULL WHERE id = $1", url_id)
            await handing.execute(
                "INSERT INTO ingestion_jobs (reference_id, payload_hash, source_id, url_id, created_at, updated_at) "
                "SELECT reference_id, payload_hash, source_id, url_id, now(), now() FROM ingestion_jobs"
            )
        with pytest.raises(OperatorError) as refused:
            await retrying
        assert refused.value.reason is Reason.NOT_FAILED
    finally:
        await handing.close()
    assert await jobs(harness) == [("a", "failed", "not_found"), ("a", "queued", None)]


async def test_a_failed_job_is_ready_when_its_page_is_fetched_later(site: Site, harness: AppHarness) -> None:
    """Spec 7.3: any terminal change of the URL settles the job, also a fetch after the job failed."""
    listing(site, a="A")
    await sync(harness)
    await harness.work()
    serving(site, "a")
    await harness.operations.frontier.retry([address("a")])
    await harness.work()
    assert await jobs(harness) == [("a", "ready", None)]
    (job,) = await listed(harness)
    assert job.document_id is not None
    assert job.settled_at is not None
    assert site.visits(address("a")) == 2


async def test_a_failed_job_follows_a_page_that_moved_before_its_retry(site: Site, harness: AppHarness) -> None:
    """Spec 7.3: the end of the redirect settles the job."""
    listing(site, a="A")
    await sync(harness)
    await harness.work()
    site.answers[address("a")] = to("http://other.test/far")
    site.answers["http://other.test/far"] = Answer(page("moved"), headers=HTML)
    await harness.operations.frontier.retry([address("a")])
    await harness.work()
    (job,) = await listed(harness)
    assert (job.status, job.url) == ("ready", "http://other.test/far")


async def test_a_failed_job_stays_failed_when_its_item_has_a_newer_job(site: Site, harness: AppHarness) -> None:
    """Spec 7.3: only the last payload of an item waits for its page."""
    listing(site, a="A")
    await sync(harness)
    await harness.work()
    listing(site, a="Another title")
    await sync(harness)
    serving(site, "a")
    await harness.work()
    assert await jobs(harness) == [("a", "failed", "not_found"), ("a", "ready", None)]


async def test_the_database_refuses_two_jobs_for_one_payload_and_failures_without_reason(
    site: Site, harness: AppHarness
) -> None:
    """Spec 7.3: constraints encode the states."""
    listing(site, a="A")
    await sync(harness)
    again = (
        "INSERT INTO ingestion_jobs (reference_id, payload_hash, source_id, url_id, created_at, updated_at) "
        "SELECT reference_id, payload_hash, source_id, url_id, now(), now() FROM ingestion_jobs"
    )
    with pytest.raises(asyncpg.UniqueViolationError):
        await harness.execute(again)
    for wrong in ("status = 'ready'", "reason = 'gone'", "status = 'done'", "status = 'failed', settled_at = now()"):
        with pytest.raises(asyncpg.CheckViolationError):
            await harness.execute(f"UPDATE ingestion_jobs SET {wrong}")


async def test_a_page_without_jobs_costs_no_scan_of_all_jobs(site: Site, harness: AppHarness) -> None:
    """Spec 2.5: also in a session that planned the query before there were jobs."""
    listing(site, a="A", b="B")
    finishing = "UPDATE url_frontier SET status = 'dead', reason = 'gone' WHERE url = $1"
    async with harness.runtime.context.database.connection() as connection:
        await connection.execute("VACUUM ANALYZE ingestion_jobs")
        await connection.execute(finishing, "http://news.test/before")
        await harness.operations.frontier.submit(["http://news.test/unlisted"])
        await connection.execute(finishing, "http://news.test/unlisted")
        await sync(harness)
        async with connection.transaction():
            await connection.execute(finishing, address("a"))
            read = "SELECT seq_scan, n_tup_upd FROM pg_stat_xact_user_tables WHERE relname = 'ingestion_jobs'"
            assert tuple(await connection.fetchrow(read) or ()) == (0, 1)


async def test_the_jobs_of_a_new_alias_move_to_its_page(site: Site, harness: AppHarness) -> None:
    """Spec 7.3: the alias was queued while the page was fetched that led to it."""
    listing(site, a="A")
    await sync(harness)
    taken = await take(harness)
    listing(site, z="Z")
    await sync(harness)
    now = harness.runtime.context.clock.now()
    twins = [(taken.url_id, address("z"), url_hash(address("z")))]
    await harness.runtime.context.database.transact(lambda connection: save_aliases(connection, twins, now))
    assert await jobs(harness) == [("a", "queued", None), ("z", "queued", None)]
    assert {job.url for job in await listed(harness)} == {address("a")}
    assert await end(harness, taken, FetchOutcome(Reason.GONE, UrlStatus.DEAD))
    assert await jobs(harness) == [("a", "failed", "gone"), ("z", "failed", "gone")]
