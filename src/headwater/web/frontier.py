"""The pages of the frontier: the state of all URLs, and the URLs that match a filter."""

from typing import Annotated

from fastapi import FastAPI, Form, Query, Request, Response

from headwater.core.frontier import FrontierStatus, UrlFilter
from headwater.core.history import HistoryWindow
from headwater.core.reasons import Reason
from headwater.core.record import LARGEST_ID
from headwater.frontier.retry import PRIORITY
from headwater.web.history import Window, draw_history
from headwater.web.texts import count, query_string
from headwater.web.view import View

_LINES = 50
_MOST_REASONS = 20
_RETRIED = (FrontierStatus.FETCHED, FrontierStatus.DEAD)
Text = Annotated[str, Query(max_length=300)]
Field = Annotated[str, Form(max_length=300)]


def add_pages(app: FastAPI, view: View) -> None:
    """Add the pages."""
    _add_state(app, view)
    _add_urls(app, view)


def _add_state(app: FastAPI, view: View) -> None:
    @app.get("/frontier")
    async def show(request: Request, window: Window = HistoryWindow.HOUR) -> Response:
        stats = await view.operations.frontier.get_stats()
        dead = sorted(stats.reasons[FrontierStatus.DEAD].items(), key=lambda one: -one[1])
        return view.page(
            request,
            "frontier.html",
            stats=stats,
            statuses=[(status.value, stats.urls[status]) for status in FrontierStatus],
            dead=dead[:_MOST_REASONS],
            sentences={reason: Reason.of(reason).sentence for reason, _ in dead[:_MOST_REASONS]},
            has_fetcher=await view.operations.frontier.has_fetcher(),
            **await draw_history(view.operations, window),
        )


def _add_urls(app: FastAPI, view: View) -> None:
    frontier = view.operations.frontier

    @app.get("/frontier/urls")
    async def show(
        request: Request,
        status: FrontierStatus | None = None,
        reason: Text = "",
        host: Text = "",
        source: Text = "",
        after: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
    ) -> Response:
        chosen = {"status": status or "", "reason": reason.strip(), "host": host.strip(), "source": source.strip()}
        only = UrlFilter(**{name: value or None for name, value in chosen.items()})
        page = await frontier.list_urls(only, limit=_LINES, after=after)

        def link(**changes: object) -> str:
            return request.url.path + query_string(**(chosen | changes))

        return view.page(
            request,
            "frontier_urls.html",
            urls=page.urls,
            chosen=chosen,
            used={name: value for name, value in chosen.items() if value},
            statuses=list(FrontierStatus),
            total=await frontier.count_urls(only),
            may_retry=any(chosen.values()) and status in (None, *_RETRIED),
            link=link,
            first=link() if after else "",
            next=link(after=page.next) if page.next else "",
        )

    @app.post("/frontier/urls/retry")
    async def retry(
        request: Request,
        status: Field = "",
        reason: Field = "",
        host: Field = "",
        source: Field = "",
        after: Annotated[int, Form(ge=0, le=LARGEST_ID)] = 0,
    ) -> Response:
        chosen = {"status": status, "reason": reason, "host": host, "source": source}
        only = UrlFilter(**{name: value or None for name, value in chosen.items()})
        retried = await frontier.retry_page(only, PRIORITY, after)
        notice = f"{count(retried.queued, 'URL')} queued again."
        if retried.next is None:
            return view.redirect(request, "/frontier/urls" + query_string(**(chosen | {"status": ""})), notice)
        # More match than one form queues. The page that follows has the button for the next part.
        return view.page(request, "frontier_retry.html", notice_text=notice, chosen=chosen, next=retried.next)
