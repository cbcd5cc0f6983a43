"""The invariants after any fault, checked from outside: in the database, the raw files and the log of the web."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from headwater.app.maintenance import RESCUERS
from headwater.core.reasons import Reason, ReasonClass
from headwater.db.sql import query
from headwater.demo.visits import TOLERANCE_SECONDS
from tests.database_state import find_wrong_counters
from tests.faults.harness import Harness

Invariant = Callable[[Harness], Awaitable[list[str]]]
ENDS = [reason for reason in Reason if not reason.retryable]


async def every_url_ends_once(harness: Harness) -> list[str]:
    """Each URL of the web is known once and has one expected end in the log. No URL waits."""
    right = harness.swarm.expected.outcomes
    found = await harness.rows(
        "SELECT u.url, u.status, u.reason, array_agg(l.reason) FILTER (WHERE l.reason = ANY ($1)) "
        "FROM url_frontier u LEFT JOIN fetch_log l ON l.url_id = u.id GROUP BY u.id",
        ENDS,
    )
    wrong = [
        f"{url} is {status} ({reason}), its ends are {ends}, expected {' or '.join(right.get(url, ['nothing']))}"
        for url, status, reason, ends in found
        if reason not in right.get(url, ()) or not _is_one_end(status, Reason.of(reason), ends)
    ]
    wrong += [f"{url} is not known" for url in right.keys() - {url for url, *_ in found}]
    wrong += [
        f"{url} is queued after its end"
        for (url,) in await harness.rows(
            "SELECT url FROM url_frontier u JOIN frontier_queue q ON q.url_id = u.id WHERE u.status <> 'pending'"
        )
    ]
    return wrong


def _is_one_end(status: str, reason: Reason, ends: list[str] | None) -> bool:
    """Check that status and log agree. Another address of a page has no request of its own."""
    return (status == "fetched") == (reason.kind is ReasonClass.DONE) and (
        ends is None if reason is Reason.SAME_PAGE else ends == [reason]
    )


async def every_document_is_there_once(harness: Harness) -> list[str]:
    """Each URL that ends with a document has one, with the text that the web serves. Each text is stored once."""
    found = await harness.rows(
        "SELECT u.url, count(*), max(t.body) FROM documents d JOIN url_frontier u ON u.id = d.url_id "
        "JOIN texts t USING (content_hash) GROUP BY u.url"
    )
    openings = harness.swarm.openings()
    wrong = [f"{url} has {count} documents" for url, count, _ in found if count != 1]
    wrong += [f"the text of {url} is another's" for url, _, body in found if openings.get(url, body) not in body]
    wrong += [f"{url} has a document too many or too few" for url in openings.keys() ^ {url for url, *_ in found}]
    ((texts,),) = await harness.rows("SELECT count(*) FROM texts")
    if texts != harness.swarm.expected.texts:
        wrong.append(f"there are {texts} texts, expected {harness.swarm.expected.texts}")
    return wrong


async def every_raw_file_matches_its_row(harness: Harness) -> list[str]:
    """No row names a file that is missing or has changed since (spec 1.5)."""
    rows = await harness.rows("SELECT raw_path, raw_hash FROM documents")
    return await asyncio.to_thread(_wrong_files, harness.data / "corpus", rows)


def _wrong_files(corpus: Path, rows: list[tuple[str, bytes]]) -> list[str]:
    wrong = []
    for path, digest in rows:
        file = corpus / path
        if not file.exists():
            wrong.append(f"{path} is missing")
        elif hashlib.sha256(file.read_bytes()).digest() != digest:
            wrong.append(f"{path} is not what its row says")
    return wrong


async def no_host_is_asked_too_soon(harness: Harness) -> list[str]:
    """A host gets one request at a time, and each after the host's delay (spec 2.3)."""
    broken = harness.swarm.politeness(harness.delay_ms / 1000, tolerance_seconds=TOLERANCE_SECONDS)
    return list(map(str, broken))


async def the_days_equal_a_rebuild(harness: Harness) -> list[str]:
    """The daily index agrees with the observations (spec 6.4)."""
    served = "SELECT source_id, day, item_id, bucket FROM daily_index ORDER BY 1, 2, 3"
    before = await harness.rows(served)
    bounds = await harness.rows(
        "SELECT source_id, array_agg(day), array_agg(day::timestamp AT TIME ZONE $1), "
        "array_agg((day + 1)::timestamp AT TIME ZONE $1) "
        "FROM (SELECT DISTINCT source_id, day FROM daily_index) AS days GROUP BY 1",
        "America/New_York",
    )
    for source, days, starts, ends in bounds:
        await harness.execute("DELETE FROM daily_index WHERE source_id = $1 AND day = ANY ($2)", source, days)
        await harness.rows(query("build_days"), source, days, starts, ends)
    wrong = [] if await harness.rows(served) == before else ["the daily index differs from a rebuild"]
    items = sum(feed.items for feed in harness.swarm.expected.feeds.values())
    if len(before) != items:
        wrong.append(f"the daily index holds {len(before)} of {items} items")
    return wrong


async def every_hand_off_has_one_job_that_ended_as_its_page(harness: Harness) -> list[str]:
    """No payload has two jobs. No job waits for a page that has ended or is ready without a document (spec 7.3)."""
    wrong = [
        f"the same payload of {url} has several jobs: {jobs}"
        for url, jobs in await harness.rows(
            "SELECT i.url, array_agg(concat_ws(' ', j.job_id, j.status, j.reason, j.created_at, j.settled_at)) "
            "FROM ingestion_jobs j JOIN items i ON i.id = j.reference_id "
            "GROUP BY i.url, j.reference_id, j.payload_hash HAVING count(*) > 1"
        )
    ]
    wrong += [
        f"job {job} is {status} ({reason}), its page {url} is {page} ({why}), and its document is {document}"
        for job, status, reason, url, page, why, document in await harness.rows(
            "SELECT j.job_id, j.status, j.reason, u.url, u.status, u.reason, d.id FROM ingestion_jobs j "
            "JOIN url_frontier u ON u.id = j.url_id LEFT JOIN documents d ON d.url_id = u.id "
            "WHERE (j.status, u.status) NOT IN (('ready', 'fetched'), ('failed', 'dead')) "
            "OR j.reason <> u.reason OR (j.status = 'ready') <> (d.id IS NOT NULL)"
        )
    ]
    wrong += [
        f"hand-off {handoff} is {status} ({reason}), and its job is {job}"
        for handoff, status, reason, job in await harness.rows(
            "SELECT handoff_id, status, reason_code, job_id FROM ingestion_handoffs "
            "WHERE status <> 'completed' OR job_id IS NULL"
        )
    ]
    return wrong


async def no_lease_outlives_its_holder(harness: Harness) -> list[str]:
    """After the end of all programs no lease is held (spec 2.4)."""
    held = []
    for table in RESCUERS:
        ((count,),) = await harness.rows(f"SELECT count(*) FROM {table} WHERE lease_token IS NOT NULL")
        if count:
            held.append(f"{count} leases in {table}")
    return held


async def every_change_of_a_document_is_told_of_once(harness: Harness) -> list[str]:
    """Each revision of each document is in the change feed, in order (spec 8.5)."""
    found = await harness.rows(
        "SELECT u.url, d.revision, array_agg(c.revision ORDER BY c.id) FROM documents d "
        "JOIN url_frontier u ON u.id = d.url_id LEFT JOIN changes c ON c.url_id = d.url_id AND c.revision IS NOT NULL "
        "GROUP BY d.id, u.id"
    )
    return [f"of {url} the changes {told} are told" for url, last, told in found if told != [*range(1, last + 1)]]


async def the_counters_equal_a_recount(harness: Harness) -> list[str]:
    """The counters that triggers keep count what is there (spec 2.5, issue 22)."""
    return await find_wrong_counters(harness)


async def the_stories_are_those_of_the_documents(harness: Harness) -> list[str]:
    """All signatures, links and stories are those that the documents give (issue 23)."""
    return [] if await harness.run("story", "verify") == 0 else ["the stories are not those of the documents"]


INVARIANTS: tuple[Invariant, ...] = (
    every_url_ends_once,
    every_document_is_there_once,
    every_raw_file_matches_its_row,
    no_host_is_asked_too_soon,
    the_days_equal_a_rebuild,
    every_hand_off_has_one_job_that_ended_as_its_page,
    no_lease_outlives_its_holder,
    every_change_of_a_document_is_told_of_once,
    the_counters_equal_a_recount,
    the_stories_are_those_of_the_documents,
)


async def violations(harness: Harness) -> dict[str, list[str]]:
    """Check all invariants. Returns those that do not hold, with a few examples each."""
    found = {invariant.__name__: (await invariant(harness))[:5] for invariant in INVARIANTS}
    return {name: examples for name, examples in found.items() if examples}
