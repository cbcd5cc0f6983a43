"""The page System: versions, processes, disk, settings with their origins, and the doctor."""

from typing import Annotated

from fastapi import FastAPI, Query, Request, Response

from headwater.api.common import ADMIN
from headwater.app.system import DoctorReport
from headwater.core.history import HistoryWindow
from headwater.web.history import Window, draw_history
from headwater.web.texts import query_string
from headwater.web.view import View, find_session

_LINES = 25
_MOST_PROCESSES = 20
_MOST_OFFSET = 1_000_000


def add_pages(app: FastAPI, view: View) -> None:
    """Add the page."""
    operations = view.operations

    async def render(
        request: Request,
        offset: int = 0,
        doctor: DoctorReport | None = None,
        window: HistoryWindow = HistoryWindow.HOUR,
    ) -> Response:
        report = await operations.system.report()
        disk = await operations.upkeep.measure_disk()
        end = offset + _LINES
        path = f"{request.scope['root_path']}/system"
        return view.page(
            request,
            "system.html",
            report=report,
            processes=report.processes[:_MOST_PROCESSES],
            disk=disk,
            sizes=disk.sources[offset:end],
            settings=await operations.system.list_settings() if find_session(request).is_admin else None,
            doctor=doctor,
            first=path if offset else "",
            next=path + query_string(offset=end) if end < len(disk.sources) else "",
            **await draw_history(operations, window),
        )

    @app.get("/system")
    async def show(
        request: Request,
        offset: Annotated[int, Query(ge=0, le=_MOST_OFFSET)] = 0,
        window: Window = HistoryWindow.HOUR,
    ) -> Response:
        return await render(request, offset, window=window)

    @app.post("/system/doctor", dependencies=ADMIN)
    async def check(request: Request) -> Response:
        return await render(request, doctor=await operations.system.run_doctor())
