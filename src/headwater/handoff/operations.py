"""Operations on hand-offs and jobs: list them, and retry the failed ones."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from headwater.core.errors import BadRequest, HandoffsMissing, HeadwaterError, OperatorError
from headwater.core.reasons import Reason
from headwater.core.record import RowId, record
from headwater.core.text import make_storable
from headwater.core.url_input import redact
from headwater.db import handoffs, jobs, sources
from headwater.db.context import DatabaseContext
from headwater.db.handoffs import Handoff
from headwater.db.handoffs import HandoffFilter as HandoffFilter
from headwater.db.handoffs import HandoffStatus as HandoffStatus
from headwater.db.jobs import Job
from headwater.db.jobs import JobFilter as JobFilter
from headwater.db.jobs import JobStatus as JobStatus
from headwater.db.pool import Connection
from headwater.frontier.retry import PRIORITY
from headwater.handoff.handoffs import BATCH, HandoffRunner

COUNT_TO = 10_000


@record
class HandoffPage:
    """A page of hand-offs, the newest first."""

    handoffs: list[Handoff]
    total: int
    """The number of all matching hand-offs."""
    limit: int
    offset: int


@record
class JobPage:
    """A page of jobs, the newest first."""

    jobs: list[Job]
    total: int
    """The number of all matching jobs."""
    limit: int
    offset: int


@record
class RetriedJobs:
    """The number of jobs that wait for their pages again."""

    retried: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """The jobs and hand-offs that wait or have failed, each counted up to 10,000."""

    jobs_queued: int
    jobs_failed: int
    handoffs_queued: int | None
    """None while hand-offs are rolled back."""
    handoffs_since: datetime | None
    """The last change of the oldest queued hand-off."""


@dataclass(frozen=True, slots=True)
class HandoffOperations:
    """The operations on hand-offs and jobs."""

    context: DatabaseContext

    async def list_handoffs(
        self, only: HandoffFilter, *, limit: int = 50, offset: int = 0, before: int | None = None
    ) -> HandoffPage:
        """List hand-offs, the newest first, before an id if it is given."""
        _require("status", only.status, tuple(HandoffStatus))

        async def work(connection: Connection) -> HandoffPage:
            await _require_source(connection, only.source)
            found, total = await handoffs.list_handoffs(connection, only, limit=limit, offset=offset, before=before)
            return HandoffPage(found, total, limit, offset)

        return await self.context.database.transact(work)

    async def get_handoff(self, handoff_id: RowId) -> Handoff:
        """Return a hand-off."""
        page = await self.list_handoffs(HandoffFilter(handoff_id=handoff_id), limit=1)
        if not page.handoffs:
            raise HeadwaterError(f"There is no hand-off {handoff_id}.", reason=Reason.UNKNOWN_HANDOFF)
        return page.handoffs[0]

    async def retry_handoff(self, handoff_id: RowId) -> Handoff:
        """Retry a failed hand-off, or its failed job; return its new state."""
        handoff = await self.get_handoff(handoff_id)
        if handoff.status is HandoffStatus.FAILED:
            requeued = await self.context.database.run(handoffs.requeue_handoffs, [handoff_id])
            await HandoffRunner(self.context).execute(requeued)
        elif handoff.job_id is not None and handoff.job_status is JobStatus.FAILED:
            await self._retry_jobs([handoff.job_id])
        else:
            raise OperatorError(
                f"Neither hand-off {handoff_id} nor its job has failed. Nothing was changed.", reason=Reason.NOT_FAILED
            )
        return await self.get_handoff(handoff_id)

    async def list_jobs(
        self, only: JobFilter, *, limit: int = 50, offset: int = 0, before: int | None = None
    ) -> JobPage:
        """List jobs, the newest first, before an id if it is given."""
        _require("status", only.status, tuple(JobStatus))
        _require("reason", only.reason, tuple(Reason))
        storable = replace(only, reference_id=make_storable(only.reference_id) if only.reference_id else None)

        async def work(connection: Connection) -> JobPage:
            await _require_source(connection, only.source)
            found, total = await jobs.list_jobs(connection, storable, limit=limit, offset=offset, before=before)
            return JobPage(found, total, limit, offset)

        return await self.context.database.transact(work)

    async def get_job(self, job_id: RowId) -> Job:
        """Return a job."""
        page = await self.list_jobs(JobFilter(job_id=job_id), limit=1)
        if not page.jobs:
            raise HeadwaterError(f"There is no job {job_id}.", reason=Reason.UNKNOWN_JOB)
        return page.jobs[0]

    async def retry_job(self, job_id: RowId) -> Job:
        """Reopen a failed job, so that it waits for its page again; a dead page is fetched again."""
        await self.get_job(job_id)
        if not await self._retry_jobs([job_id]):
            raise OperatorError(
                f"Job {job_id} has not failed, or its payload has a newer job. Nothing was changed.",
                reason=Reason.NOT_FAILED,
            )
        return await self.get_job(job_id)

    async def retry_jobs(self, only: JobFilter) -> RetriedJobs:
        """Reopen all failed jobs of a source, reason or run; at least one must be given."""
        if only.source is None and only.reason is None and only.scrape_run_id is None:
            raise BadRequest("Give at least one of source, reason, scrape_run_id.")
        _require("reason", only.reason, tuple(Reason))
        await self.context.database.run(_require_source, only.source)
        retried, last = 0, 0
        while ids := await self.context.database.run(jobs.list_failed_ids, only, after=last, limit=BATCH):
            retried += len(await self._retry_jobs(ids))
            last = ids[-1]
        return RetriedJobs(retried)

    async def count_backlog(self) -> Backlog:
        """Count the jobs and hand-offs that wait or have failed."""
        async with self.context.database.connection() as connection:
            queued, failed = await jobs.count_unsettled_jobs(connection, COUNT_TO)
            try:
                waiting, since = await handoffs.count_waiting_handoffs(connection, COUNT_TO)
            except HandoffsMissing:
                waiting, since = None, None
        return Backlog(queued, failed, waiting, since)

    async def _retry_jobs(self, ids: Collection[int]) -> set[int]:
        return await self.context.database.transact(jobs.retry_jobs, ids, PRIORITY, self.context.clock.now())


def _require(field: str, value: str | None, known: Sequence[str]) -> None:
    if value is not None and value not in known:
        choices = "a code from the closed list of reasons" if field == "reason" else f"one of {', '.join(known)}"
        raise BadRequest(f"{field}: give {choices}, not {redact(value)!r}.")


async def _require_source(connection: Connection, name: str | None) -> None:
    if name is not None:
        await sources.require_source(connection, name)
