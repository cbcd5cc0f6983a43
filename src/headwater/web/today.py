"""The pages of news: the NEW and LATEST items of a day, and the changes since this browser last looked."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from itertools import groupby
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from headwater.api.common import OPEN
from headwater.changes.operations import ChangePage
from headwater.core.dates import day_of
from headwater.core.errors import BadRequest
from headwater.documents.days import DayState, SourceDay
from headwater.documents.operations import DayFilter
from headwater.web.sessions import ROOT, cookie_name, set_cookie
from headwater.web.stories import fold_stories
from headwater.web.texts import query_string
from headwater.web.view import View

_LINES = 50
_MOST_NAMES = 12  # in each list of filters
_SEEN_LASTS = timedelta(days=400)
_FIRST_LOOK = timedelta(days=1)
_WHOLE = (DayState.COMPLETE, DayState.RECONSTRUCTED)


def add_pages(app: FastAPI, view: View) -> None:
    """Add the pages."""
    _add_days(app, view)
    _add_changes(app, view)


def _add_days(app: FastAPI, view: View) -> None:
    days = view.operations.days

    @app.get("/today")
    @app.get("/days/{day}")
    async def show(
        request: Request,
        day: date | None = None,
        source: str = "",
        category: str = "",
        topic: str = "",
        bucket: Literal["NEW", "LATEST", ""] = "",
        after: Annotated[str | None, Query(max_length=500)] = None,
    ) -> Response:
        chosen = {"source": source, "category": category, "topic": topic, "bucket": bucket}
        only = DayFilter(source or None, category or None, topic or None, bucket=bucket or None)
        today = day_of(view.now(), view.operations.settings.timezone)
        shown, counts = await asyncio.gather(
            days.day(day or today, only, limit=_LINES, after=after), days.count(day or today, only)
        )
        lines = await fold_stories(view, shown.items, lambda item: item.document_id)
        path = request.url.path

        def link(**changes: str) -> str:
            return path + query_string(**(chosen | changes))

        return view.page(
            request,
            "today.html",
            shown=shown,
            counts=counts,
            groups=[(name, list(group)) for name, group in groupby(lines, key=lambda one: one.line.source)],
            leads=await _read_leads(view, [item.document_id for item in shown.items]),
            chosen=chosen,
            link=link,
            most=_MOST_NAMES,
            is_today=shown.day == today,
            banner=_describe_day(shown.sources, is_over=shown.day < today),
            day_before=shown.day - timedelta(days=1),
            day_after=shown.day + timedelta(days=1) if shown.day < today else None,
            first=link() if after else "",
            next=link(after=shown.next) if shown.next else "",
        )

    @app.get("/latest")
    async def latest() -> RedirectResponse:
        """Lead to the last day that was read to its end."""
        return RedirectResponse(f"{ROOT}/days/{(await days.day(None, limit=1)).day}")


def _describe_day(sources: Sequence[SourceDay], *, is_over: bool) -> dict[str, Any]:
    """Describe whether a day is complete, or which sources lack what."""
    lacking = [source for source in sources if source.state not in _WHOLE]
    late = [source for source in sources if source.state is DayState.RECONSTRUCTED]
    failed = any(source.state is DayState.FAILED for source in lacking)
    if not is_over:
        kind, text = ("bad" if failed else "quiet", "This day is not over. Items appear as sources publish them.")
    elif not sources:
        kind, text = "quiet", "No source here reports whole days, so none can be missing a part of this day."
    elif lacking:
        kind, text = ("bad" if failed else "warn", "This day is not complete.")
    else:
        kind, text = "good", "This day is complete: each source that reports whole days was read to its end."
    shown = lacking if is_over else [source for source in lacking if source.state is not DayState.NOT_READ]
    return {"kind": kind, "text": text, "sources": [*shown, *late]}


async def _read_leads(view: View, ids: Iterable[int | None]) -> dict[int, str]:
    known = [document_id for document_id in ids if document_id is not None]
    if not known:
        return {}
    found = await view.operations.documents.list_leads(known)
    return {lead.id: lead.lead for lead in found.leads}


def _add_changes(app: FastAPI, view: View) -> None:
    changes = view.operations.changes

    @app.get("/since")
    async def since(request: Request, after: Annotated[str | None, Query(max_length=40)] = None) -> Response:
        seen = request.cookies.get(cookie_name(request, "seen"))
        is_first = seen is None
        try:
            page = await changes.list_changes(after or seen or await changes.find_cursor(_FIRST_LOOK), _LINES)
        except BadRequest:
            if after is not None:
                raise
            page, is_first = await changes.list_changes(await changes.find_cursor(_FIRST_LOOK), _LINES), True
        return view.page(
            request,
            "since.html",
            page=page,
            days=_group_by_day(page, view),
            leads=await _read_leads(view, [change.document.id if change.document else None for change in page.changes]),
            is_first=is_first,
            next=f"{ROOT}/since{query_string(after=page.next)}" if len(page.changes) == _LINES else "",
            first=f"{ROOT}/since" if after else "",
        )

    @app.post("/since", dependencies=OPEN)
    async def mark_seen(request: Request, cursor: Annotated[str, Form(pattern="^c[0-9]{1,18}$")]) -> Response:
        response = view.redirect(request, "/since")
        set_cookie(request, response, cookie_name(request, "seen"), cursor, _SEEN_LASTS)
        return response


def _group_by_day(page: ChangePage, view: View) -> list[tuple[date, list[Any]]]:
    zone = view.operations.settings.timezone
    return [(day, list(group)) for day, group in groupby(page.changes, key=lambda change: day_of(change.at, zone))]
