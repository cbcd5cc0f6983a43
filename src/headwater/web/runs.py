"""The pages of runs, and of the completeness of a day: expected, got, and each missing item with its reason."""

import asyncio
from datetime import date, timedelta
from typing import Annotated

from fastapi import FastAPI, Form, Query, Request, Response

from headwater.core.dates import day_of
from headwater.core.history import HistoryWindow
from headwater.core.record import LARGEST_ID, RowId
from headwater.core.run import RunStatus
from headwater.discovery.operations import RunFilter
from headwater.handoff.operations import HandoffFilter
from headwater.web.history import Window, draw_history
from headwater.web.texts import query_string
from headwater.web.view import View

_LINES = 50
_MOST_SOURCES = 50
_MOST_RUNS = 20  # of sources of dated days, on the page of a day
Text = Annotated[str, Query(max_length=300)]


def add_pages(app: FastAPI, view: View) -> None:
    """Add the pages."""
    _add_runs(app, view)
    _add_completeness(app, view)


def _add_runs(app: FastAPI, view: View) -> None:
    operations = view.operations

    @app.get("/runs")
    async def show(
        request: Request,
        source: Text = "",
        status: RunStatus | None = None,
        day: Annotated[str, Query(pattern=r"^(\d{4}-\d\d-\d\d)?$")] = "",
        before: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
        window: Window = HistoryWindow.HOUR,
    ) -> Response:
        chosen = {"source": source.strip(), "status": status or "", "day": day}
        only = RunFilter(source.strip() or None, status, date.fromisoformat(day) if day else None, before)
        runs = await operations.runs.list_runs(only, _LINES)

        def link(**changes: object) -> str:
            return request.url.path + query_string(**(chosen | changes))

        return view.page(
            request,
            "runs.html",
            runs=runs,
            chosen=chosen,
            statuses=list(RunStatus),
            link=link,
            first=link() if before else "",
            next=link(before=runs[-1].id) if len(runs) == _LINES else "",
            **await draw_history(operations, window),
        )

    @app.get("/runs/{run_id}")
    async def show_run(request: Request, run_id: RowId) -> Response:
        run = await operations.runs.get(run_id)
        handoffs = await operations.handoffs.list_handoffs(HandoffFilter(scrape_run_id=run_id), limit=1)
        return view.page(request, "run.html", run=run, handoffs=handoffs.total)

    @app.post("/runs")
    async def begin(
        request: Request,
        source: Annotated[str, Form(max_length=300)] = "",
        day: Annotated[date | None, Form()] = None,
    ) -> Response:
        run = await operations.runs.begin_ingest(source.strip(), day)
        return view.redirect(request, f"/runs/{run.id}", f"Run {run.id} reads {run.day} now.")


def _add_completeness(app: FastAPI, view: View) -> None:
    operations = view.operations

    @app.get("/completeness")
    @app.get("/completeness/{day}")
    async def show(
        request: Request,
        day: date | None = None,
        source: Text = "",
        after: Annotated[str | None, Query(max_length=200)] = None,
    ) -> Response:
        today = day_of(view.now(), operations.settings.timezone)
        found, missing = await asyncio.gather(
            operations.days.measure(day or today, source=source or None),
            operations.days.list_missing(day or today, source=source or None, limit=_LINES, after=after),
        )
        ids = [state.run_id for state in found.days if state.run_id is not None][:_MOST_RUNS]
        path = f"/ui/completeness/{found.day}"
        return view.page(
            request,
            "completeness.html",
            found=found,
            sources=found.sources[:_MOST_SOURCES],
            runs={run_id: await operations.runs.get(run_id) for run_id in ids},
            missing=missing,
            source=source,
            path=path,
            is_today=found.day == today,
            day_before=found.day - timedelta(days=1),
            day_after=found.day + timedelta(days=1) if found.day < today else None,
            first=path + query_string(source=source) if after else "",
            next=path + query_string(source=source, after=missing.next) if missing.next else "",
        )
