"""Routes of hand-offs and jobs: sync a source, list both, and retry the failed ones."""

from typing import Annotated

from fastapi import FastAPI, Query

from headwater.app.operations import Operations
from headwater.core.record import LARGEST_ID, RowId, extend, record
from headwater.core.source import Method
from headwater.discovery.source_operations import SyncedSource, describe_sync
from headwater.handoff import operations as records

_TAG = "hand-off"

Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=LARGEST_ID)]


@record
class JobChoice:
    """The failed jobs to retry; at least one field is required."""

    source: str | None = None
    reason: str | None = None
    scrape_run_id: RowId | None = None


@record
class SyncRequest:
    """The method to poll a source by. By default it is the first method of the source."""

    method: Method | None = None


def add_handoffs(app: FastAPI, operations: Operations) -> None:
    """Add the routes."""
    handoffs = operations.handoffs

    @app.post("/scraping/{source}/sync", tags=[_TAG])
    async def sync(source: str, request: SyncRequest | None = None) -> SyncedSource:
        """Poll a source now, hand off its items, and return the counts."""
        return describe_sync(await operations.sources.sync(source, request.method if request else None))

    @app.get("/scraping/{source}/handoffs", tags=[_TAG])
    async def list_handoffs(
        source: str,
        status: records.HandoffStatus | None = None,
        scrape_run_id: RowId | None = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> records.HandoffPage:
        """List the hand-offs of a source, the newest first."""
        only = records.HandoffFilter(source, status, scrape_run_id)
        return await handoffs.list_handoffs(only, limit=limit, offset=offset)

    app.get("/handoffs/{handoff_id}", tags=[_TAG])(handoffs.get_handoff)
    app.post("/handoffs/{handoff_id}/retry", tags=[_TAG])(handoffs.retry_handoff)

    @app.get("/jobs", tags=[_TAG])
    async def list_jobs(
        source: str | None = None,
        status: records.JobStatus | None = None,
        reason: Annotated[str | None, Query(description="A code from the closed list of reasons.")] = None,
        scrape_run_id: RowId | None = None,
        reference_id: Annotated[str | None, Query(description="An item's id.")] = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> records.JobPage:
        """List jobs, the newest first."""
        only = records.JobFilter(source, status, scrape_run_id, reason, reference_id)
        return await handoffs.list_jobs(only, limit=limit, offset=offset)

    app.get("/jobs/{job_id}", tags=[_TAG])(handoffs.get_job)
    app.post("/jobs/{job_id}/retry", tags=[_TAG])(handoffs.retry_job)

    @app.post("/jobs/retry", tags=[_TAG])
    async def retry_jobs(choice: JobChoice) -> records.RetriedJobs:
        """Reopen the chosen failed jobs, so that they wait for their pages again."""
        return await handoffs.retry_jobs(extend(choice, records.JobFilter))
