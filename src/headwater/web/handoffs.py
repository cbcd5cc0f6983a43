"""The pages of hand-offs and of jobs, with filters and with retries."""

from typing import Annotated

from fastapi import FastAPI, Form, Query, Request, Response

from headwater.core.record import LARGEST_ID, RowId
from headwater.handoff.operations import HandoffFilter, HandoffStatus, JobFilter, JobStatus
from headwater.web.texts import count, query_string
from headwater.web.view import View

_LINES = 50
Text = Annotated[str, Query(max_length=300)]
Field = Annotated[str, Form(max_length=300)]
Before = Annotated[int | None, Query(ge=1, le=LARGEST_ID)]
Run = Annotated[str, Query(pattern="^[0-9]{0,18}$")]


def add_pages(app: FastAPI, view: View) -> None:
    """Add the pages."""
    _add_handoffs(app, view)
    _add_jobs(app, view)


def _add_handoffs(app: FastAPI, view: View) -> None:
    handoffs = view.operations.handoffs

    @app.get("/handoffs")
    async def show(
        request: Request, source: Text = "", status: HandoffStatus | None = None, run: Run = "", before: Before = None
    ) -> Response:
        chosen = {"source": source.strip(), "status": status or "", "run": run}
        only = HandoffFilter(chosen["source"] or None, status, int(run) if run else None)
        page = await handoffs.list_handoffs(only, limit=_LINES, before=before)

        def link(**changes: object) -> str:
            return request.url.path + query_string(**(chosen | changes))

        return view.page(
            request,
            "handoffs.html",
            page=page,
            backlog=await handoffs.count_backlog(),
            chosen=chosen,
            used=any(chosen.values()),
            statuses=list(HandoffStatus),
            link=link,
            first=link() if before else "",
            next=link(before=page.handoffs[-1].handoff_id) if len(page.handoffs) == _LINES else "",
        )

    @app.post("/handoffs/{handoff_id}/retry")
    async def retry(request: Request, handoff_id: RowId) -> Response:
        handoff = await handoffs.retry_handoff(handoff_id)
        return view.redirect(request, "/handoffs", f"Hand-off {handoff_id} is {handoff.status}.")


def _add_jobs(app: FastAPI, view: View) -> None:
    handoffs = view.operations.handoffs

    @app.get("/jobs")
    async def show(
        request: Request,
        source: Text = "",
        status: JobStatus | None = None,
        reason: Text = "",
        run: Run = "",
        before: Before = None,
    ) -> Response:
        chosen = {"source": source.strip(), "status": status or "", "reason": reason.strip(), "run": run}
        only = JobFilter(chosen["source"] or None, status, int(run) if run else None, chosen["reason"] or None)
        page = await handoffs.list_jobs(only, limit=_LINES, before=before)

        def link(**changes: object) -> str:
            return request.url.path + query_string(**(chosen | changes))

        return view.page(
            request,
            "jobs.html",
            page=page,
            backlog=await handoffs.count_backlog(),
            chosen=chosen,
            used=any(chosen.values()),
            statuses=list(JobStatus),
            # One retry needs a filter, and only failed jobs can be retried.
            may_retry=status in (None, JobStatus.FAILED) and any((chosen["source"], chosen["reason"], run)),
            link=link,
            first=link() if before else "",
            next=link(before=page.jobs[-1].job_id) if len(page.jobs) == _LINES else "",
        )

    @app.post("/jobs/retry")
    async def retry_matching(
        request: Request,
        source: Field = "",
        reason: Field = "",
        run: Annotated[int | None, Form(ge=1, le=LARGEST_ID)] = None,
    ) -> Response:
        retried = await handoffs.retry_jobs(JobFilter(source or None, None, run, reason or None))
        path = "/jobs" + query_string(source=source, reason=reason, run=run)
        return view.redirect(request, path, f"{count(retried.retried, 'job')} wait for their pages again.")

    @app.post("/jobs/{job_id}/retry")
    async def retry(request: Request, job_id: RowId) -> Response:
        job = await handoffs.retry_job(job_id)
        return view.redirect(request, "/jobs", f"Job {job_id} is {job.status}.")
