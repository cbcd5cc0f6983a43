"""What a door may ask of hand-offs and jobs: which there are, and to try again what has failed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headwater.core.errors import HandoffsMissing, HeadwaterError, OperatorError
from headwater.core.handoff import Backlog, HandoffStatus, JobFilter, JobStatus
from headwater.core.reasons import Reason
from headwater.core.text import make_storable
from headwater.core.url_input import redact
from headwater.db import handoffs, jobs, sources
from headwater.db.context import DatabaseContext
from headwater.db.handoffs import HandoffFilter
from headwater.db.pool import Connection
from headwater.handoff.attempts import make_handoffs
from headwater.handoff.jobs import SLICE, retry_jobs
from headwater.sources.settings import unknown

HANDOFF_STATUSES = tuple(HandoffStatus)
JOB_STATUSES = tuple(JobStatus)
COUNTED = 10_000  # of what waits or has failed
Page = tuple[list[dict[str, Any]], int]  # some rows, and how many there are in all


class HandoffOperations:
    """The hand-off's part of the desk; it reaches nothing but the database."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context

    async def listed(
        self,
        *,
        source: str | None = None,
        status: str | None = None,
        scrape_run_id: int | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Page:
        """List hand-offs, newest first; raise for a source that there is not."""
        _require("status", status, HANDOFF_STATUSES)
        only = HandoffFilter(source, status, scrape_run_id)

        async def work(connection: Connection) -> Page:
            await _require_source(connection, source)
            return await handoffs.list_handoffs(connection, only, limit=limit, offset=offset)

        return await self._context.database.transact(work)

    async def backlog(self) -> Backlog:
        """Count what waits and what has failed, up to some thousands."""
        async with self._context.database.connection() as connection:
            queued, failed = await jobs.count_unsettled(connection, COUNTED)
            try:
                waiting, since = await handoffs.waiting_handoffs(connection, COUNTED)
            except HandoffsMissing:
                waiting, since = None, None
        return Backlog(queued, failed, waiting, since)

    async def get(self, handoff_id: int) -> dict[str, Any]:
        """Return a hand-off."""
        only = HandoffFilter(handoff_id=handoff_id)
        rows, _ = await self._context.database.transact(
            lambda connection: handoffs.list_handoffs(connection, only, limit=1)
        )
        if not rows:
            raise HeadwaterError(f"There is no hand-off {handoff_id}.", reason=Reason.UNKNOWN_HANDOFF)
        return rows[0]

    async def retry(self, handoff_id: int) -> dict[str, Any]:
        """Try again what failed of a hand-off: itself, or its job; return how it stands now."""
        row = await self.get(handoff_id)
        if row["status"] == HandoffStatus.FAILED:
            async with self._context.database.connection() as connection:
                again = await handoffs.requeue_handoffs(connection, [handoff_id])
            await make_handoffs(self._context).execute(again)
        elif row["job_status"] == JobStatus.FAILED:
            await self._retry_jobs([row["job_id"]])
        else:
            raise OperatorError(
                f"Hand-off {handoff_id} has not failed, and its job has not either; nothing was changed.",
                reason=Reason.NOT_FAILED,
            )
        return await self.get(handoff_id)

    async def jobs(self, only: JobFilter, *, limit: int = 50, offset: int = 0) -> Page:
        """List jobs, newest first; raise for a source that there is not."""
        _require("status", only.status, JOB_STATUSES)
        _require("reason", only.reason, tuple(Reason))
        chosen = replace(only, reference_id=make_storable(only.reference_id) if only.reference_id else None)

        async def work(connection: Connection) -> Page:
            await _require_source(connection, only.source)
            return await jobs.list_jobs(connection, chosen, limit=limit, offset=offset)

        return await self._context.database.transact(work)

    async def job(self, job_id: int) -> dict[str, Any]:
        """Return a job."""
        rows, _ = await self.jobs(JobFilter(job_id=job_id), limit=1)
        if not rows:
            raise HeadwaterError(f"There is no job {job_id}.", reason=Reason.UNKNOWN_JOB)
        return rows[0]

    async def retry_job(self, job_id: int) -> dict[str, Any]:
        """Let a failed job wait for its page again; return how it stands now."""
        await self.job(job_id)
        if not await self._retry_jobs([job_id]):
            raise OperatorError(
                f"Job {job_id} has not failed, or another was made for its payload since; nothing was changed.",
                reason=Reason.NOT_FAILED,
            )
        return await self.job(job_id)

    async def retry_all(
        self, *, source: str | None = None, reason: str | None = None, scrape_run_id: int | None = None
    ) -> int:
        """Let all failed jobs wait again that filters choose, of which there must be one; return how many."""
        if source is None and reason is None and scrape_run_id is None:
            raise OperatorError("Give at least one of source, reason, scrape_run_id.", reason=Reason.BAD_REQUEST)
        _require("reason", reason, tuple(Reason))
        async with self._context.database.connection() as connection:
            await _require_source(connection, source)
        retried, last = 0, 0
        while ids := await self._failed_jobs(source, reason, scrape_run_id, last):
            retried += len(await self._retry_jobs(ids))
            last = ids[-1]
        return retried

    async def _failed_jobs(
        self, source: str | None, reason: str | None, scrape_run_id: int | None, after: int
    ) -> list[int]:
        async with self._context.database.connection() as connection:
            return await jobs.failed_jobs(
                connection, source=source, reason=reason, scrape_run_id=scrape_run_id, after=after, limit=SLICE
            )

    async def _retry_jobs(self, ids: Sequence[int]) -> set[int]:
        return await retry_jobs(self._context.database, ids, self._context.clock.now())


def _require(field: str, given: str | None, known: Sequence[str]) -> None:
    if given is not None and given not in known:
        choices = "a code from the closed list of reasons" if field == "reason" else f"one of {', '.join(known)}"
        raise OperatorError(f"{field}: is {choices}, not {redact(given)!r}.", reason=Reason.BAD_REQUEST)


async def _require_source(connection: Connection, name: str | None) -> None:
    if name is not None and await sources.get_source(connection, make_storable(name)) is None:
        raise unknown(name)
