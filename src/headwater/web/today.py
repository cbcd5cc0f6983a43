"""The page Today: the NEW and LATEST items of a day."""

from datetime import date, timedelta
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response

from headwater.documents.operations import DayFilter
from headwater.web.texts import query_string
from headwater.web.view import View

_LINES = 50


def add_pages(app: FastAPI, view: View) -> None:
    """Add the page."""
    days = view.operations.days

    @app.get("/today")
    @app.get("/days/{day}")
    async def today(
        request: Request,
        day: date | None = None,
        source: str = "",
        category: str = "",
        topic: str = "",
        bucket: str = "",
        after: Annotated[str | None, Query(max_length=500)] = None,
    ) -> Response:
        chosen = {"source": source, "category": category, "topic": topic, "bucket": bucket}
        only = DayFilter(source or None, category or None, topic or None, bucket=bucket or None)
        if day is None:
            shown = await days.today(only, limit=_LINES, after=after)
        else:
            shown = await days.day(day, only, limit=_LINES, after=after)
        return view.page(
            request,
            "today.html",
            shown=shown,
            chosen=chosen,
            day_before=shown.day - timedelta(days=1),
            day_after=shown.day + timedelta(days=1),
            first=request.url.path + query_string(**chosen) if after else "",
            next=request.url.path + query_string(**chosen, after=shown.next) if shown.next else "",
        )
