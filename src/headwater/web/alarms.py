"""The page of alarms."""

from fastapi import FastAPI, Request, Response

from headwater.web.view import View

_LINES = 100


def add_pages(app: FastAPI, view: View) -> None:
    """Add the page."""

    @app.get("/alarms")
    async def show(request: Request) -> Response:
        return view.page(request, "alarms.html", alarms=(await view.operations.alarms.list_alarms(limit=_LINES)).alarms)
