"""Jobs: made together with what their pages need, in one transaction; successors and failed ones get their turn."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from uuid import UUID

from headwater.core.handoff import Handoff, HandoffStatus, NewJob
from headwater.db import frontier, handoffs, jobs
from headwater.db.handoffs import HandoffEnding
from headwater.db.jobs import Page
from headwater.db.pool import Connection, Database
from headwater.frontier.retry import PRIORITY
from headwater.handoff.rules import Verdict, decide

SLICE = 500


async def make_jobs(
    connection: Connection, handoff_ids: Collection[int], token: UUID, now: datetime
) -> list[HandoffEnding]:
    """Hand off what is still held by this token: make the jobs that are due, and have their pages fetched."""
    ended = []
    for batch in _rounds(await handoffs.hold_handoffs(connection, handoff_ids, token)):
        ended += await _hand_off(connection, batch, token, now)
    return ended


async def promote_successors(database: Database, now: datetime) -> int:
    """Let successors wait for a fetch of their own, now that the one they came too late for is over; count them."""
    return await database.transact(lambda connection: jobs.promote_successors(connection, SLICE, PRIORITY, now))


async def retry_jobs(database: Database, job_ids: Collection[int], now: datetime) -> set[int]:
    """Let failed jobs wait for their pages again; return which of these had failed."""
    return await database.transact(lambda connection: jobs.retry_jobs(connection, job_ids, PRIORITY, now))


def _rounds(held: Sequence[Handoff]) -> Iterator[list[Handoff]]:
    """Yield each once, but never two payloads of one item together: the one has to know of the other's job."""
    while held:
        first = {handoff.reference_id: handoff for handoff in reversed(held)}
        yield list(first.values())
        held = [handoff for handoff in held if first[handoff.reference_id] is not handoff]


async def _hand_off(
    connection: Connection, batch: Sequence[Handoff], token: UUID, now: datetime
) -> list[HandoffEnding]:
    references = [handoff.reference_id for handoff in batch]
    pages = await jobs.lock_pages(connection, references)
    # Read once the pages are locked: whoever hands off another payload of the same item has made its job by now.
    past = await jobs.past_jobs(connection, references)
    verdicts = [
        (handoff, decide(handoff.payload_hash, pages[handoff.reference_id].status, past.get(handoff.reference_id, {})))
        for handoff in batch
    ]
    made = await _make(connection, verdicts, pages, now)
    endings = []
    for handoff, verdict in verdicts:
        known = past.get(handoff.reference_id, {}).get(handoff.payload_hash)
        job_id = made.get(handoff.reference_id, known.id if known else None)
        endings.append(HandoffEnding(handoff.id, HandoffStatus.COMPLETED, verdict.reason, job_id))
    return await handoffs.end_handoffs(connection, endings, token)


async def _make(
    connection: Connection, verdicts: Sequence[tuple[Handoff, Verdict]], pages: dict[str, Page], now: datetime
) -> dict[str, int]:
    """Make jobs, and queue the pages again whose payload has changed; return the ids of the jobs by item."""
    wanted: list[NewJob] = []
    again: list[int] = []
    for handoff, verdict in verdicts:
        page = pages[handoff.reference_id]
        if not verdict.makes_job or page.id is None:
            continue
        if verdict.fetches_again:
            again.append(page.id)
        wanted.append(
            NewJob(
                handoff.reference_id,
                handoff.payload_hash,
                page.source_id,
                page.id,
                handoff.scrape_run_id,
                verdict.is_successor,
            )
        )
    if again:
        await frontier.retry_urls(connection, again, PRIORITY, now)
    return await jobs.add_jobs(connection, wanted, now) if wanted else {}
