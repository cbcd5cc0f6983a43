"""The page that submits URLs."""

from typing import Annotated

from fastapi import FastAPI, Form, Request, Response

from headwater.api.common import WRITE
from headwater.core.errors import BadRequest
from headwater.web.view import View

_MAX_LINES = 1000  # of one form; the API and the command line take more


def add_pages(app: FastAPI, view: View) -> None:
    """Add the page."""
    frontier = view.operations.frontier

    def show(request: Request, status: int = 200, **values: object) -> Response:
        return view.page(request, "urls.html", status, most=_MAX_LINES, **values)

    @app.get("/submit", dependencies=WRITE)
    async def form(request: Request, url: str = "") -> Response:
        return show(request, text=url, source="", priority="", results=None, has_fetcher=True)

    @app.post("/submit")
    async def submit(
        request: Request,
        urls: Annotated[str, Form(max_length=2_000_000)] = "",
        source: Annotated[str, Form(max_length=200)] = "",
        priority: Annotated[str, Form(pattern="^([1-9]|10)?$")] = "",
    ) -> Response:
        given = [line.strip() for line in urls.splitlines() if line.strip()]
        if len(given) > _MAX_LINES:
            raise BadRequest(f"urls: {len(given):,} lines are more than {_MAX_LINES:,}. Submit them in parts.")
        results = (
            await frontier.submit(given, source.strip() or None, int(priority) if priority else None) if given else []
        )
        refused = [result.given for result in results if result.url is None]
        return show(
            request,
            text="\n".join(refused),
            source=source,
            priority=priority,
            results=results,
            has_fetcher=await frontier.has_fetcher(),
        )
