"""Typed functions over queries/jobs.sql, and the records of jobs. A trigger of the schema settles jobs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.db import frontier
from headwater.db.pool import Connection
from headwater.db.sources import find_source_id
from headwater.db.sql import query, to_columns, to_record


class JobStatus(StrEnum):
    """The status of a job. A running job is stored as queued: its page is being fetched now."""

    QUEUED = "queued"
    RUNNING = "running"
    READY = "ready"
    FAILED = "failed"


class PageStatus(StrEnum):
    """The status of the page that a job waits for."""

    NONE = "none"  # the item has no page to fetch
    PENDING = "pending"
    FETCHING = "fetching"
    FETCHED = "fetched"
    DEAD = "dead"
    DELETED = "deleted"  # only a request of an operator fetches it again


@record
class ItemPayload:
    """One payload of an item, which a hand-off brings to a job."""

    reference_id: str
    """The id of the item."""
    payload_hash: str
    source: str
    title: str
    url: str
    """The present address of the page."""
    scrape_run_id: int | None
    """The last run that brought this payload."""


@record
class Job(ItemPayload):
    """A job waits for the page of an item."""

    job_id: int
    status: JobStatus
    reason: Reason | None
    """The reason of a failed job: a code from the closed list of reasons."""
    document_id: int | None
    """The document of a ready job."""
    created_at: datetime
    updated_at: datetime
    settled_at: datetime | None


@record
class RunItemFilter:
    """A filter of hand-offs and jobs; None permits any value."""

    source: str | None = None
    status: str | None = None
    scrape_run_id: int | None = None


@record
class JobFilter(RunItemFilter):
    """The jobs to list; None permits any value."""

    reason: str | None = None
    reference_id: str | None = None
    job_id: int | None = None


@dataclass(frozen=True, slots=True)
class PastJob:
    """The newest job of a payload."""

    id: int
    status: JobStatus


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to add. A successor waits for the fetch after the one that is under way."""

    reference_id: str
    payload_hash: str
    source_id: int
    page_id: int
    scrape_run_id: int | None
    is_successor: bool


@dataclass(frozen=True, slots=True)
class FinalPage:
    """The page that an item leads to now; the id is None if the page is not fetched."""

    source_id: int
    id: int | None
    status: PageStatus


async def lock_pages(connection: Connection, reference_ids: Collection[str]) -> dict[str, FinalPage]:
    """Return the page that each item leads to, and lock it until the transaction ends."""
    rows = await connection.fetch(query("lock_pages"), list(reference_ids))
    return {
        row["reference_id"]: FinalPage(row["source_id"], row["page_id"], PageStatus(row["status"] or PageStatus.NONE))
        for row in rows
    }


async def find_past_jobs(connection: Connection, reference_ids: Collection[str]) -> dict[str, dict[str, PastJob]]:
    """Return the newest job of each payload, by item and payload."""
    found: dict[str, dict[str, PastJob]] = {}
    for row in await connection.fetch(query("past_jobs"), list(reference_ids)):
        found.setdefault(row["reference_id"], {})[row["payload_hash"]] = to_record(PastJob, row)
    return found


async def add_jobs(connection: Connection, jobs: Sequence[NewJob], now: datetime) -> dict[str, int]:
    """Add one or more jobs of different items, settle those whose page has ended, and return the ids of all by item."""
    rows = await connection.fetch(query("add_jobs"), *to_columns(jobs), now)
    await connection.execute(query("settle_jobs"), [row["job_id"] for row in rows])
    return {row["reference_id"]: row["job_id"] for row in rows}


async def promote_successors(connection: Connection, limit: int, priority: int, now: datetime) -> int:
    """Queue the pages of successors whose earlier fetch is over; return how many successors."""
    rows = await connection.fetch(query("ready_successors"), limit)
    if not rows:
        return 0
    await frontier.retry_urls(connection, [row["page_id"] for row in rows if row["is_to_fetch"]], priority, now)
    await connection.execute(
        query("promote_successors"), [row["job_id"] for row in rows], [row["page_id"] for row in rows], now
    )
    await connection.execute(query("settle_jobs"), [row["job_id"] for row in rows])  # of pages that were deleted
    return len(rows)


async def retry_jobs(connection: Connection, job_ids: Collection[int], priority: int, now: datetime) -> set[int]:
    """Reopen failed jobs, and queue their pages again if these are dead; return the ids of the reopened jobs."""
    locked = await connection.fetch(query("lock_failed_jobs"), list(job_ids))
    # This query must follow the lock of the pages: by then, another hand-off of the same payload has added its job.
    open_ids = {
        row["job_id"] for row in await connection.fetch(query("jobs_to_reopen"), [row["job_id"] for row in locked])
    }
    rows = [row for row in locked if row["job_id"] in open_ids]
    if not rows:
        return set()
    await frontier.retry_urls(connection, [row["page_id"] for row in rows if row["is_dead"]], priority, now)
    reopened = [row["job_id"] for row in rows]
    await connection.execute(query("reopen_jobs"), reopened, [row["page_id"] for row in rows], now)
    await connection.execute(query("settle_jobs"), reopened)
    return set(reopened)


async def list_failed_ids(connection: Connection, only: JobFilter, *, after: int, limit: int) -> list[int]:
    """Return the ids of failed jobs of a source, reason or run, the oldest first."""
    rows = await connection.fetch(query("list_failed_ids"), only.source, only.reason, only.scrape_run_id, after, limit)
    return [row["job_id"] for row in rows]


async def list_jobs(
    connection: Connection, only: JobFilter, *, limit: int, offset: int = 0, before: int | None = None
) -> tuple[list[Job], int]:
    """List jobs, the newest first, and count all that match. Must run inside a transaction."""
    await connection.execute(query("plan_for_values"))
    source = await find_source_id(connection, only.source)
    is_fetching = {"running": True, "queued": False}.get(only.status or "")
    status = JobStatus.QUEUED if is_fetching else only.status
    if only.reason is not None and status is None:
        status = JobStatus.FAILED  # only a failed job has a reason
    chosen = source, status, only.scrape_run_id, only.reason, only.reference_id, only.job_id, is_fetching
    rows = await connection.fetch(query("list_jobs"), *chosen, before, limit, offset)
    if only.scrape_run_id is None and only.reference_id is None and only.job_id is None:
        total = await connection.fetchval(query("count_jobs"), source, status, only.reason)
        if is_fetching is not None:
            fetching = await connection.fetchval(query("count_fetching_jobs"), source) if total else 0
            total = fetching if is_fetching else max(0, total - fetching)
    else:
        total = await connection.fetchval(query("count_jobs_of"), *chosen)
    return [to_record(Job, row) for row in rows], total


async def merge_job_counts(connection: Connection) -> None:
    """Merge the rows of the counts. Must run inside a transaction."""
    await connection.execute(query("merge_job_counts"))


async def count_unsettled_jobs(connection: Connection, limit: int) -> tuple[int, int]:
    """Count queued jobs and failed jobs, each up to a limit."""
    row = await connection.fetchrow(query("count_unsettled_jobs"), limit)
    assert row is not None
    return row["queued"], row["failed"]
