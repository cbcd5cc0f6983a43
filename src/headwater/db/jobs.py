"""Typed functions over queries/jobs.sql. What settles a job is in the database itself: migration 002_jobs."""

from collections.abc import Collection, Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Any, NamedTuple

from headwater.core.handoff import JobFilter, JobStatus, NewJob, PageStatus, PastJob
from headwater.db import frontier
from headwater.db.pool import Connection
from headwater.db.sql import query


class Page(NamedTuple):
    """The page that an item leads to by now; its id is None where it is not fetched."""

    source_id: int
    id: int | None
    status: PageStatus


async def lock_pages(connection: Connection, reference_ids: Collection[str]) -> dict[str, Page]:
    """Return the page that each item leads to; nobody ends one of them before the transaction does."""
    rows = await connection.fetch(query("pages_waited_for"), list(reference_ids))
    return {
        row["reference_id"]: Page(row["source_id"], row["page_id"], PageStatus(row["status"] or PageStatus.NONE))
        for row in rows
    }


async def past_jobs(connection: Connection, reference_ids: Collection[str]) -> dict[str, dict[str, PastJob]]:
    """Return the newest job of each payload of items, by item and payload."""
    found: dict[str, dict[str, PastJob]] = {}
    for row in await connection.fetch(query("jobs_of_items"), list(reference_ids)):
        past = PastJob(row["job_id"], JobStatus(row["status"]))
        found.setdefault(row["reference_id"], {})[row["payload_hash"]] = past
    return found


async def add_jobs(connection: Connection, jobs: Sequence[NewJob], now: datetime) -> dict[str, int]:
    """Make jobs, of different items, and settle at once those whose page has ended; return their ids by item."""
    rows = await connection.fetch(
        query("add_jobs"),
        [job.reference_id for job in jobs],
        [job.payload_hash for job in jobs],
        [job.source_id for job in jobs],
        [job.page_id for job in jobs],
        [job.scrape_run_id for job in jobs],
        [job.is_successor for job in jobs],
        now,
    )
    await connection.execute(query("settle_jobs"), [row["job_id"] for row in rows])
    return {row["reference_id"]: row["job_id"] for row in rows}


async def promote_successors(connection: Connection, limit: int, priority: int, now: datetime) -> int:
    """Let the pages of successors be fetched again, now that the fetch which they came too late for is over."""
    rows = await connection.fetch(query("successors"), limit)
    if not rows:
        return 0
    await frontier.retry_urls(connection, [row["page_id"] for row in rows if row["has_ended"]], priority, now)
    await connection.execute(
        query("promote_successors"), [row["job_id"] for row in rows], [row["page_id"] for row in rows], now
    )
    return len(rows)


async def retry_jobs(connection: Connection, job_ids: Collection[int], priority: int, now: datetime) -> set[int]:
    """Let failed jobs wait for their pages again, which are fetched anew where they are still dead; return which."""
    locked = await connection.fetch(query("lock_failed_jobs"), list(job_ids))
    # Asked once the pages are locked: whoever hands off the same payload has made its job by now.
    alone = {
        row["job_id"] for row in await connection.fetch(query("jobs_to_reopen"), [row["job_id"] for row in locked])
    }
    rows = [row for row in locked if row["job_id"] in alone]
    if not rows:
        return set()
    await frontier.retry_urls(connection, [row["page_id"] for row in rows if row["is_dead"]], priority, now)
    reopened = [row["job_id"] for row in rows]
    await connection.execute(query("reopen_jobs"), reopened, [row["page_id"] for row in rows], now)
    await connection.execute(query("settle_jobs"), reopened)
    return set(reopened)


async def failed_jobs(
    connection: Connection,
    *,
    source: str | None = None,
    reason: str | None = None,
    scrape_run_id: int | None = None,
    after: int = 0,
    limit: int,
) -> list[int]:
    """Return the ids of failed jobs, oldest first."""
    rows = await connection.fetch(query("failed_jobs"), source, reason, scrape_run_id, after, limit)
    return [row["job_id"] for row in rows]


async def list_jobs(
    connection: Connection, only: JobFilter, *, limit: int, offset: int = 0
) -> tuple[list[dict[str, Any]], int]:
    """List jobs, newest first, and count how many there are in all. In a transaction."""
    await connection.execute(query("plan_anew"))
    rows = await connection.fetch(query("list_jobs"), *astuple(only), limit, offset)
    return [dict(row) for row in rows], await connection.fetchval(query("count_jobs"), *astuple(only))


async def count_unsettled(connection: Connection, limit: int) -> tuple[int, int]:
    """Count the jobs that wait and those that have failed, each up to a limit."""
    row = await connection.fetchrow(query("count_unsettled_jobs"), limit)
    assert row is not None
    return row["queued"], row["failed"]
