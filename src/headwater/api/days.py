"""Routes about days and the runs that read them."""

from dataclasses import asdict
from typing import Annotated

from fastapi import Depends, FastAPI, Path, Query

from headwater.api import day_shapes as shapes
from headwater.api.common import TOKEN
from headwater.app.operations import Operations
from headwater.documents.days import DayView
from headwater.documents.operations import DayFilter

_READING = "reading"
_RUNS = "runs"
_LARGEST_ID = 2**63 - 1  # that the database can hold


def add_days(app: FastAPI, operations: Operations) -> None:
    """Add what is asked of days."""

    def wanted(
        source: str | None = None,
        bucket: shapes.Bucket | None = None,
        organisation: Annotated[str | None, Query(description="An organisation's title.")] = None,
        document_type: Annotated[str | None, Query(alias="type", description="Such as press_release.")] = None,
    ) -> DayFilter:
        return DayFilter(source, bucket, organisation, document_type)

    Only = Annotated[DayFilter, Depends(wanted)]  # noqa: N806 - a type

    @app.get("/daily/today", tags=[_READING])
    async def today(only: Only) -> shapes.Day:
        """Tell what is NEW and what is LATEST today, in the time zone of this program."""
        return _day(await operations.days.today(only))

    @app.get("/daily/latest", tags=[_READING])
    async def latest(only: Only) -> shapes.Day:
        """Tell the last day that was read whole, and which sources should have a later one by now."""
        return _day(await operations.days.day(None, only))

    @app.get("/daily/{day}", tags=[_READING])
    async def daily(day: shapes.IsoDay, only: Only) -> shapes.Day:
        """Tell what was NEW and what was LATEST on a day, and how its sources stand with it."""
        return _day(await operations.days.day(day, only))


def add_runs(app: FastAPI, operations: Operations) -> None:
    """Add what is asked of runs."""

    @app.post("/ops/ingest", tags=[_RUNS], status_code=202, dependencies=TOKEN)
    async def ingest(given: shapes.IngestRequest) -> shapes.Run:
        """Begin to read a day of a source and answer with the run; `/ops/runs/ID` tells how it ends."""
        return shapes.Run(**await operations.runs.begin_ingest(given.source, given.day))

    @app.get("/ops/runs", tags=[_RUNS])
    async def listed(
        source: str | None = None,
        status: shapes.RunStatus | None = None,
        day: Annotated[shapes.IsoDay | None, Query(alias="date")] = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        before: Annotated[int | None, Query(ge=1, le=_LARGEST_ID)] = None,
    ) -> shapes.Runs:
        """List runs, newest first; `next` is the `before` of the page after."""
        rows = await operations.runs.listed(source=source, status=status, day=day, before=before, limit=limit)
        following = rows[-1]["id"] if len(rows) == limit else None
        return shapes.Runs(runs=[shapes.Run(**row) for row in rows], next=following)

    @app.get("/ops/runs/{run_id}", tags=[_RUNS])
    async def shown(run_id: Annotated[int, Path(ge=1, le=_LARGEST_ID)]) -> shapes.Run:
        """Return a run."""
        return shapes.Run(**await operations.runs.get(run_id))


def _day(view: DayView) -> shapes.Day:
    return shapes.Day(
        day=view.day,
        sources=[shapes.SourceDay(**asdict(source)) for source in view.sources],
        behind=[shapes.SourceDay(**asdict(source)) for source in view.behind],
        items=[shapes.DayItem(**row) for row in view.items],
    )
