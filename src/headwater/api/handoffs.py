"""Routes about hand-offs: read a source and hand off what came, and what became of that."""

from typing import Annotated, Any

from fastapi import FastAPI, Path, Query

from headwater.api import handoff_shapes as shapes
from headwater.api.source_shapes import SyncRequest, told
from headwater.api.token import TOKEN
from headwater.app.operations import Operations
from headwater.core.errors import OperatorError
from headwater.core.handoff import JobFilter, named_counts

_TAG = "hand-off"
_LAST_ID = 2**63 - 1  # that the database can hold

Source = Annotated[str, Path(description="A source's name.")]
Id = Annotated[int, Path(ge=1, le=_LAST_ID)]
RunId = Annotated[int | None, Query(ge=1, le=_LAST_ID)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=_LAST_ID)]


def add_handoffs(app: FastAPI, operations: Operations) -> None:
    """Add the routes."""
    _add_scraping(app, operations)
    _add_jobs(app, operations)


def _add_scraping(app: FastAPI, operations: Operations) -> None:
    @app.post("/scraping/{source}/sync", tags=[_TAG], dependencies=TOKEN)
    async def sync(source: Source, wanted: SyncRequest | None = None) -> shapes.Synced:
        """Read a source now, due or not, save its items, hand off each of them, and tell what became of them."""
        polled = await operations.sources.sync(source, wanted.method if wanted else None)
        if polled.error:
            raise OperatorError(f"{source} was not read: {polled.error}", reason=polled.reason)
        brought: dict[str, Any] = {"scrape_run_id": polled.run_id} | told(polled) | named_counts(polled.handoffs)
        return shapes.Synced(**brought)

    @app.get("/scraping/{source}/handoffs", tags=[_TAG])
    async def handoffs(
        source: Source,
        status: shapes.HandoffStatus | None = None,
        scrape_run_id: RunId = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> shapes.Handoffs:
        """List the hand-offs of a source, newest first."""
        rows, total = await operations.handoffs.listed(
            source=source, status=status, scrape_run_id=scrape_run_id, limit=limit, offset=offset
        )
        return shapes.Handoffs(
            handoffs=[shapes.Handoff(**row) for row in rows], total=total, limit=limit, offset=offset
        )

    @app.get("/handoffs/{handoff_id}", tags=[_TAG])
    async def handoff(handoff_id: Id) -> shapes.Handoff:
        """Return a hand-off."""
        return shapes.Handoff(**await operations.handoffs.get(handoff_id))

    @app.post("/handoffs/{handoff_id}/retry", tags=[_TAG], dependencies=TOKEN)
    async def retry(handoff_id: Id) -> shapes.Handoff:
        """Try again what failed of a hand-off: itself, or its job."""
        return shapes.Handoff(**await operations.handoffs.retry(handoff_id))


def _add_jobs(app: FastAPI, operations: Operations) -> None:
    @app.get("/jobs", tags=[_TAG])
    async def jobs(
        source: str | None = None,
        status: shapes.JobStatus | None = None,
        reason: Annotated[str | None, Query(description="A code from the closed list of reasons.")] = None,
        scrape_run_id: RunId = None,
        reference_id: Annotated[str | None, Query(description="An item's id.")] = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> shapes.Jobs:
        """List jobs, newest first."""
        only = JobFilter(source, status, reason, scrape_run_id, reference_id)
        rows, total = await operations.handoffs.jobs(only, limit=limit, offset=offset)
        return shapes.Jobs(jobs=[shapes.Job(**row) for row in rows], total=total, limit=limit, offset=offset)

    @app.get("/jobs/{job_id}", tags=[_TAG])
    async def job(job_id: Id) -> shapes.Job:
        """Return a job."""
        return shapes.Job(**await operations.handoffs.job(job_id))

    @app.post("/jobs/retry", tags=[_TAG], dependencies=TOKEN)
    async def retry_all(chosen: shapes.JobChoice) -> shapes.RetriedJobs:
        """Let all failed jobs wait for their pages again that are chosen."""
        return shapes.RetriedJobs(retried=await operations.handoffs.retry_all(**chosen.model_dump()))

    @app.post("/jobs/{job_id}/retry", tags=[_TAG], dependencies=TOKEN)
    async def retry(job_id: Id) -> shapes.Job:
        """Let a failed job wait for its page again, which is fetched anew if it is still dead."""
        return shapes.Job(**await operations.handoffs.retry_job(job_id))
