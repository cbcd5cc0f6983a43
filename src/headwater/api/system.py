"""The routes of the system itself: versions, settings, and the doctor."""

from fastapi import FastAPI

from headwater.api.common import ADMIN
from headwater.app.operations import Operations
from headwater.app.system import DoctorReport, SettingLine
from headwater.core.history import HistoryWindow
from headwater.core.record import record
from headwater.history.operations import History

_TAG = "system"


@record
class SettingList:
    """The settings of the process that answers."""

    settings: list[SettingLine]


def add_system(app: FastAPI, operations: Operations) -> None:
    """Add the routes."""
    app.get("/ops/system", tags=[_TAG])(operations.system.report)

    @app.get("/ops/settings", tags=[_TAG], dependencies=ADMIN)
    async def list_settings() -> SettingList:
        """List the settings of this process, with the origin of each. Secrets are masked."""
        return SettingList(await operations.system.list_settings())

    @app.get("/ops/history", tags=[_TAG])
    async def measure_history(window: HistoryWindow = HistoryWindow.DAY) -> History:
        """Return what Headwater did in the last hour, day, month or year, and the events that may explain it."""
        return await operations.history.measure(window)

    @app.post("/ops/doctor", tags=[_TAG], dependencies=ADMIN)
    async def run_doctor() -> DoctorReport:
        """Check settings, machine and database, and change nothing. It takes less than ten seconds."""
        return await operations.system.run_doctor()
