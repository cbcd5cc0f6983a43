"""Routes about days and runs."""

from typing import Annotated, Literal

from fastapi import Depends, FastAPI, Query

from headwater.api.common import Content, IsoDay
from headwater.app.operations import Operations
from headwater.core.record import RowId, extend, record
from headwater.core.run import RunStatus
from headwater.discovery.operations import RunFilter, RunRecord
from headwater.documents.days import DayCompleteness, DayCounts, DayView, MissingPage
from headwater.documents.operations import DayFilter

_READING = "reading"
_RUNS = "runs"


@record
class IngestRequest:
    """A day to read."""

    source: str
    date: IsoDay | None = None
    """By default the last day that is over."""


@record
class RunPage:
    """Runs, newest first."""

    runs: list[RunRecord]
    next: int | None
    """The `before` of the next page."""


def add_days(app: FastAPI, operations: Operations) -> None:
    """Add the routes about days."""

    def read_filter(
        content: Content,
        bucket: Literal["NEW", "LATEST"] | None = None,
        organisation: Annotated[str | None, Query(description="An organisation's title.")] = None,
        document_type: Annotated[str | None, Query(alias="type", description="Such as press_release.")] = None,
    ) -> DayFilter:
        return extend(content, DayFilter, bucket=bucket, organisation=organisation, document_type=document_type)

    Only = Annotated[DayFilter, Depends(read_filter)]  # noqa: N806 - a type
    Limit = Annotated[int, Query(ge=1, le=500)]  # noqa: N806 - a type
    After = Annotated[str | None, Query(description="The `next` of the page before.")]  # noqa: N806 - a type

    @app.get("/daily/today", tags=[_READING])
    async def today(only: Only, limit: Limit = 50, after: After = None) -> DayView:
        """Return the NEW and LATEST items of today, in the time zone of this program."""
        return await operations.days.today(only, limit=limit, after=after)

    @app.get("/daily/latest", tags=[_READING])
    async def latest(only: Only, limit: Limit = 50, after: After = None) -> DayView:
        """Return the last day that was read to its end, and the sources that should have a later day by now."""
        return await operations.days.day(None, only, limit=limit, after=after)

    @app.get("/daily/{day}", tags=[_READING])
    async def daily(day: IsoDay, only: Only, limit: Limit = 50, after: After = None) -> DayView:
        """Return the NEW and LATEST items of a day, and the state of the day for each of its sources."""
        return await operations.days.day(day, only, limit=limit, after=after)

    @app.get("/daily/{day}/counts", tags=[_READING])
    async def count_day(day: IsoDay, only: Only) -> DayCounts:
        """Count the items of a day by source, category and topic."""
        return await operations.days.count(day, only)


def add_runs(app: FastAPI, operations: Operations) -> None:
    """Add the routes about runs."""

    @app.post("/ops/ingest", tags=[_RUNS], status_code=202)
    async def ingest(request: IngestRequest) -> RunRecord:
        """Start to read a day of a source, and return the run. `/ops/runs/ID` shows how it ends."""
        return await operations.runs.begin_ingest(request.source, request.date)

    @app.get("/ops/runs", tags=[_RUNS])
    async def list_runs(
        source: str | None = None,
        status: RunStatus | None = None,
        day: Annotated[IsoDay | None, Query(alias="date")] = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        before: RowId | None = None,
    ) -> RunPage:
        """List runs, newest first."""
        found = await operations.runs.list_runs(RunFilter(source, status, day, before), limit)
        return RunPage(found, found[-1].id if len(found) == limit else None)

    @app.get("/daily/{day}/completeness", tags=[_READING])
    async def measure(day: IsoDay, source: str | None = None) -> DayCompleteness:
        """Count the items that sources list for a day, and those whose page is stored, waits or failed."""
        return await operations.days.measure(day, source=source)

    @app.get("/daily/{day}/missing", tags=[_READING])
    async def list_missing(
        day: IsoDay,
        source: str | None = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        after: str | None = None,
    ) -> MissingPage:
        """List the items of a day whose page is not stored, each with the reason."""
        return await operations.days.list_missing(day, source=source, limit=limit, after=after)

    app.get("/ops/runs/{run_id}", tags=[_RUNS])(operations.runs.get)
