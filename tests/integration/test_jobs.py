"""Jobs wait for the pages of items: whatever ends a page settles who waits for it, at once (spec 7.3)."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from headwater.errors import OperatorError
from headwater.frontier.claim import claim
from headwater.frontier.finish import Finish, finish, still_held
from headwater.handoff.jobs import promote_successors
from headwater.model.frontier import Claim, Ending, UrlStatus
from headwater.model.handoff import HandoffCounts, JobFilter
from headwater.model.reasons import Reason
from headwater.policy.urls import url_hash
from headwater.service.maintenance import rescue_expired
from headwater.store.frontier import name_twins
from headwater.store.pool import Connection
from tests import catalog
from tests.catalog import HTML, address, handoffs, jobs, listing, serving, sync
from tests.house import House
from tests.server import Answer, Site, page

pytestmark = pytest.mark.both_servers


@pytest.fixture(autouse=True)
def _catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.install(monkeypatch)


def to(url: str) -> Answer:
    return Answer(status=302, headers={"Location": url})


async def listed(house: House, **only: Any) -> list[dict[str, Any]]:
    return (await house.desk.handoffs.jobs(JobFilter(**only)))[0]


async def take(house: House) -> Claim:
    """Claim the one URL that is due, as a worker does."""
    records = house.parts.records
    (taken,) = await claim(
        records.database,
        now=records.clock.now(),
        lease=timedelta(seconds=10),
        holder="me",
        limit=1,
        default_delay_ms=0,
    )
    return taken


async def end(house: House, taken: Claim, ending: Ending) -> bool:
    """Finish a claim, as a worker does; False where it is no longer its own."""
    now = house.parts.records.clock.now()

    async def work(connection: Connection) -> bool:
        if not await still_held(connection, [taken]):
            return False
        await finish(connection, [Finish(taken, ending, house.parts.gate.hold_of(taken).release(now))], now)
        return True

    return await house.parts.records.database.transact(work)


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
    site: Site, house: House, answer: Answer, status: str, reason: str | None
) -> None:
    """Spec 7.3: ready with a document, wherever redirects lead; else failed, with the frontier's reason."""
    listing(site, a="A")
    site.answers[address("a")] = answer
    for place in ("http://other.test/far", address("near")):
        site.answers[place] = Answer(page(f"at {place}"), headers=HTML)
    site.answers["http://other.test/gone"] = Answer(status=410)
    site.answers["http://other.test/back"] = to(address("a"))
    await sync(house)
    assert [(job["status"], job["settled_at"]) for job in await listed(house)] == [("queued", None)]
    await house.work()
    (job,) = await listed(house)
    assert (job["status"], job["reason"]) == (status, reason)
    assert (job["document_id"] is not None) is (status == "ready")
    assert job["settled_at"] is not None


async def test_pages_that_share_a_text_or_have_not_changed_are_ready_as_well(site: Site, house: House) -> None:
    """Spec 7.3: linked text, 304, already fetched."""
    listing(site, a="A", b="B")
    for name in "ab":
        site.answers[address(name)] = Answer(page("one story"), headers={**HTML, "ETag": '"1"'})
    await sync(house)
    await house.work()
    assert sorted(str(reason) for reason in (await house.fates()).values()) == ["linked", "stored"]
    assert [status for _, status, _ in await jobs(house)] == ["ready", "ready"]
    listing(site, a="Another title", b="B")
    site.answers[address("a")] = Answer(status=304)
    await sync(house)
    await house.work()
    assert (await house.fates())[address("a")] == "unchanged"
    assert [status for _, status, _ in await jobs(house)] == ["ready"] * 3


async def test_jobs_of_several_sources_wait_for_one_page(site: Site, house: House) -> None:
    """Spec 7.3."""
    listing(site, a="A")
    serving(site, "a")
    for name in ("shop", "market"):
        await sync(house, name)
    await house.work()
    assert [(job["source"], job["status"]) for job in await listed(house)] == [("market", "ready"), ("shop", "ready")]
    assert site.visits(address("a")) == 1


async def test_who_waits_for_what_turns_out_to_be_another_address_is_ready_with_the_page(
    site: Site, house: House
) -> None:
    """Spec 7.3: an address that is queued itself becomes the same page as one that led to it."""
    listing(site, a="A", z="Z")
    serving(site, "z")
    site.answers[address("a")] = to(address("z"))
    await sync(house)
    await house.work()
    assert {status for _, status, _ in await jobs(house)} == {"ready"}
    assert len({job["document_id"] for job in await listed(house)}) == 1


async def test_a_page_that_moved_to_one_that_is_known_is_ready_as_that_is(site: Site, house: House) -> None:
    """Spec 7.3: redirect target, already fetched."""
    serving(site, "old")
    await house.fetch(address("old"))
    listing(site, a="A")
    site.answers[address("a")] = to(address("old"))
    await sync(house)
    await house.work()
    assert await jobs(house) == [("a", "ready", None)]
    assert site.visits(address("old")) == 1


async def test_a_worker_that_is_lost_for_good_and_a_source_that_is_removed_settle_jobs(
    site: Site, house: House
) -> None:
    """Spec 7.3: by the rescuer, and by an operator."""
    listing(site, a="A")
    await sync(house)
    for _ in range(house.parts.records.settings.max_retries + 1):
        await house.rows("UPDATE frontier_queue SET due_at = now() - interval '1 s'")
        await house.rows("UPDATE host_state SET not_before = '-infinity', ready_at = now() - interval '1 s'")
        assert [job["status"] for job in await listed(house)] == ["queued"]
        await take(house)
        assert [job["status"] for job in await listed(house)] == ["running"]
        for table in ("frontier_queue", "host_state"):
            await house.rows(f"UPDATE {table} SET lease_until = now() - interval '1 s' WHERE lease_token IS NOT NULL")
        await rescue_expired(house.parts.records)
    assert await jobs(house) == [("a", "failed", "worker_lost")]

    listing(site, b="B")
    await sync(house)
    await house.desk.sources.remove("shop")
    assert (await jobs(house))[1:] == [("b", "failed", "source_removed")]


async def test_a_changed_payload_of_a_ready_item_has_its_page_fetched_again(site: Site, house: House) -> None:
    """Spec 7.3."""
    listing(site, a="A", b="B")
    serving(site, "a", "b")
    await sync(house)
    await house.work()
    listing(site, a="Another title", b="B")
    assert (await sync(house)).handoffs == HandoffCounts(completed=1, skipped=1)
    assert await jobs(house) == [("a", "ready", None), ("a", "queued", None), ("b", "ready", None)]
    await house.work()
    assert {status for _, status, _ in await jobs(house)} == {"ready"}
    assert (site.visits(address("a")), site.visits(address("b"))) == (2, 1)


async def test_a_payload_that_changes_while_its_page_waits_is_satisfied_by_one_fetch(site: Site, house: House) -> None:
    """Spec 7.3: a successor."""
    listing(site, a="A")
    serving(site, "a")
    await sync(house)
    listing(site, a="Another title")
    assert (await sync(house)).handoffs == HandoffCounts(completed=1)
    assert await jobs(house) == [("a", "queued", None)] * 2
    await house.work()
    assert await jobs(house) == [("a", "ready", None)] * 2
    assert site.visits(address("a")) == 1


async def test_a_payload_that_changes_while_its_page_is_fetched_waits_for_the_fetch_after(
    site: Site, house: House
) -> None:
    """Spec 7.3: what is on its way may be from before the change."""
    records = house.parts.records
    listing(site, a="A")
    serving(site, "a")
    await sync(house)
    taken = await take(house)
    listing(site, a="Another title")
    await sync(house)
    assert await promote_successors(records.database, records.clock.now()) == 0, "the fetch is under way"
    assert await end(house, taken, Ending(Reason.NOT_FOUND, UrlStatus.DEAD))
    assert await jobs(house) == [("a", "failed", "not_found"), ("a", "queued", None)]
    assert await promote_successors(records.database, records.clock.now()) == 1
    await house.work()
    assert await jobs(house) == [("a", "failed", "not_found"), ("a", "ready", None)]
    assert site.visits(address("a")) == 1


async def test_a_stale_finish_settles_nothing(site: Site, house: House) -> None:
    """Issue 9."""
    listing(site, a="A")
    await sync(house)
    taken = await take(house)
    await house.rows("UPDATE frontier_queue SET lease_until = now() - interval '1 s'")
    await rescue_expired(house.parts.records)
    assert not await end(house, taken, Ending(Reason.NOT_FOUND, UrlStatus.DEAD))
    assert await jobs(house) == [("a", "queued", None)]


async def test_a_finish_that_meets_a_hand_off_half_way_waits_for_its_job_and_settles_it(
    site: Site, house: House, database_url: str
) -> None:
    """Spec 7.3: none is forgotten, whoever is first."""
    listing(site, a="A")
    await sync(house)
    ((job_id, url_id),) = await house.rows("SELECT job_id, url_id FROM ingestion_jobs")
    taken = await take(house)
    handing = await asyncpg.connect(database_url)
    try:
        async with handing.transaction():
            await handing.execute("DELETE FROM ingestion_handoffs")
            await handing.execute("UPDATE ingestion_jobs SET status = 'failed', reason = 'gone', settled_at = now()")
            await handing.fetch("SELECT * FROM page_waited_for($1)", url_id)
            finishing = asyncio.create_task(end(house, taken, Ending(Reason.NOT_FOUND, UrlStatus.DEAD)))
            while not await house.rows("SELECT FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0.01)
            await handing.execute(
                "INSERT INTO ingestion_jobs (reference_id, payload_hash, source_id, url_id, created_at, updated_at) "
                "SELECT reference_id, payload_hash, source_id, url_id, now(), now() FROM ingestion_jobs "
                "WHERE job_id = $1",
                job_id,
            )
        assert await finishing
    finally:
        await handing.close()
    assert await jobs(house) == [("a", "failed", "gone"), ("a", "failed", "not_found")]


async def test_a_hand_off_that_waits_for_a_page_to_end_makes_no_second_job(
    site: Site, house: House, database_url: str
) -> None:
    """Spec 7.3: what the queue said of the page before that is not believed."""
    listing(site, a="A")
    await sync(house)
    await take(house)
    ((handoff_id, url_id),) = await house.rows(
        "SELECT handoff_id, url_id FROM ingestion_handoffs JOIN ingestion_jobs USING (job_id)"
    )
    await house.rows(
        "UPDATE ingestion_handoffs SET status = 'queued', reason_code = 'queued_from_scrape', job_id = NULL"
    )
    ending = await asyncpg.connect(database_url)
    try:
        async with ending.transaction():
            await ending.execute("UPDATE url_frontier SET status = 'dead', reason = 'not_found' WHERE id = $1", url_id)
            await ending.execute("DELETE FROM frontier_queue WHERE url_id = $1", url_id)
            handing = asyncio.create_task(house.parts.records.handoffs.carry_out([handoff_id]))
            while not await house.rows("SELECT FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0.01)
        await handing
    finally:
        await ending.close()
    assert await jobs(house) == [("a", "failed", "not_found")]
    assert [reason for _, reason, _ in await handoffs(house)] == ["ingestion_job_already_failed"]


async def test_a_job_that_failed_is_tried_again_only_when_asked(site: Site, house: House) -> None:
    """Spec 2.2, 7.3: seeing a dead page again does not fetch it again; an operator does."""
    listing(site, a="A", b="B")
    await sync(house)
    await house.work()
    assert await jobs(house) == [("a", "failed", "not_found"), ("b", "failed", "not_found")]
    assert (await sync(house)).handoffs == HandoffCounts(skipped=2)
    assert [reason for _, reason, _ in await handoffs(house)] == ["ingestion_job_already_failed"] * 2
    assert len(await jobs(house)) == 2

    serving(site, "a", "b")
    first, second = (await house.desk.handoffs.listed(source="shop"))[0]
    assert (await house.desk.handoffs.retry(first["handoff_id"]))["job_status"] == "queued"
    assert await house.desk.handoffs.retry_all(source="shop", reason="not_found") == 1
    await house.work()
    assert await jobs(house) == [("a", "ready", None), ("b", "ready", None)]
    with pytest.raises(OperatorError, match=f"Job {second['job_id']} has not failed"):
        await house.desk.handoffs.retry_job(second["job_id"])


async def test_a_job_that_is_retried_while_its_payload_is_handed_off_leaves_that_to_the_new_one(
    site: Site, house: House, database_url: str
) -> None:
    """Spec 7.3: at most one is active or ready for a payload, and nobody meets an error of the database."""
    listing(site, a="A")
    await sync(house)
    await house.work()
    ((job_id, url_id),) = await house.rows("SELECT job_id, url_id FROM ingestion_jobs")
    handing = await asyncpg.connect(database_url)
    try:
        async with handing.transaction():
            await handing.fetch("SELECT * FROM page_waited_for($1)", url_id)
            retrying = asyncio.create_task(house.desk.handoffs.retry_job(job_id))
            while not await house.rows("SELECT FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0.01)
            await handing.execute("UPDATE url_frontier SET status = 'pending', reason = NULL WHERE id = $1", url_id)
            await handing.execute(
                "INSERT INTO ingestion_jobs (reference_id, payload_hash, source_id, url_id, created_at, updated_at) "
                "SELECT reference_id, payload_hash, source_id, url_id, now(), now() FROM ingestion_jobs"
            )
        with pytest.raises(OperatorError, match=f"Job {job_id} has not failed"):
            await retrying
    finally:
        await handing.close()
    assert await jobs(house) == [("a", "failed", "not_found"), ("a", "queued", None)]


async def test_a_failed_job_whose_page_was_fetched_since_is_ready_without_another_visit(
    site: Site, house: House
) -> None:
    """Spec 7.3: already fetched."""
    listing(site, a="A")
    await sync(house)
    await house.work()
    serving(site, "a")
    await house.desk.frontier.retry([address("a")])
    await house.work()
    assert await jobs(house) == [("a", "failed", "not_found")]
    (job,) = await listed(house)
    assert (await house.desk.handoffs.retry_job(job["job_id"]))["status"] == "ready"
    assert site.visits(address("a")) == 2


async def test_the_database_refuses_two_jobs_for_one_payload_and_ends_without_reason(site: Site, house: House) -> None:
    """Spec 7.3: constraints encode the states."""
    listing(site, a="A")
    await sync(house)
    again = (
        "INSERT INTO ingestion_jobs (reference_id, payload_hash, source_id, url_id, created_at, updated_at) "
        "SELECT reference_id, payload_hash, source_id, url_id, now(), now() FROM ingestion_jobs"
    )
    with pytest.raises(asyncpg.UniqueViolationError):
        await house.rows(again)
    for wrong in ("status = 'ready'", "reason = 'gone'", "status = 'done'", "status = 'failed', settled_at = now()"):
        with pytest.raises(asyncpg.CheckViolationError):
            await house.rows(f"UPDATE ingestion_jobs SET {wrong}")


async def test_a_page_that_nobody_waits_for_costs_no_look_at_all_jobs(site: Site, house: House) -> None:
    """Spec 2.5: also where a session has made its plan before there were jobs."""
    listing(site, a="A", b="B")
    finishing = "UPDATE url_frontier SET status = 'dead', reason = 'gone' WHERE url = $1"
    async with house.parts.records.database.connection() as connection:
        await connection.execute("VACUUM ANALYZE ingestion_jobs")
        await connection.execute(finishing, "http://news.test/before")
        await house.desk.frontier.submit(["http://news.test/nobody"])
        await connection.execute(finishing, "http://news.test/nobody")
        await sync(house)
        async with connection.transaction():
            await connection.execute(finishing, address("a"))
            read = "SELECT seq_scan, n_tup_upd FROM pg_stat_xact_user_tables WHERE relname = 'ingestion_jobs'"
            assert tuple(await connection.fetchrow(read) or ()) == (0, 1)


async def test_an_address_that_is_named_another_of_a_page_hands_its_jobs_over(site: Site, house: House) -> None:
    """Spec 7.3: it was queued while the page was fetched that led to it."""
    listing(site, a="A")
    await sync(house)
    taken = await take(house)
    listing(site, z="Z")
    await sync(house)
    now = house.parts.records.clock.now()
    twins = [(taken.url_id, address("z"), url_hash(address("z")))]
    await house.parts.records.database.transact(lambda connection: name_twins(connection, twins, now))
    assert await jobs(house) == [("a", "queued", None), ("z", "queued", None)]
    assert {job["url"] for job in await listed(house)} == {address("a")}
    assert await end(house, taken, Ending(Reason.GONE, UrlStatus.DEAD))
    assert await jobs(house) == [("a", "failed", "gone"), ("z", "failed", "gone")]
