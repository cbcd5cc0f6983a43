"""Operations on the system itself: versions, processes, settings with their origins, and the doctor."""

import asyncio
import os
import platform
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path

from headwater import __version__
from headwater.app.doctor_finding import State
from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.core.settings import Settings, masked, survey
from headwater.db import migrate
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection
from headwater.db.processes import ProcessRow, list_processes

_GIVEN = "the program that started it"


@record
class SystemReport:
    """The versions of the parts, and the programs that use the database."""

    version: str
    python: str
    platform: str
    postgres: str
    schema: int
    """The number of the last migration."""
    started_at: datetime
    """When this process opened its operations."""
    timezone: str
    processes: list[ProcessRow]


@record
class SettingLine:
    """A setting, its value, and where the value comes from."""

    name: str
    value: str
    """Secrets are masked."""
    default: str
    is_default: bool
    origin: str
    """default, the environment, or the settings file."""
    help: str
    after_restart: str | None
    """The value that a restart brings, because the file or the environment differs now. Null if it is the same."""


@record
class DoctorFinding:
    """The result of one check of the doctor."""

    name: str
    state: State
    found: str
    fix: str | None
    lines: list[str]


@record
class DoctorReport:
    """The results of all checks."""

    healthy: bool
    """No check failed."""
    checks: list[DoctorFinding]


class SystemOperations:
    """The operations on the system itself."""

    def __init__(
        self, context: DatabaseContext, environment: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        self._context = context
        self._environment = os.environ if environment is None else environment
        self._folder = folder or Path.cwd()
        self._started_at = context.clock.now()
        self._checking = asyncio.Lock()

    async def report(self) -> SystemReport:
        """Return versions and processes."""

        async def work(connection: Connection) -> tuple[str, list[int], list[ProcessRow]]:
            version = connection.get_server_version()
            applied = await migrate.get_applied(connection)
            return f"{version.major}.{version.micro}", applied, await list_processes(connection)

        postgres, applied, processes = await self._context.database.run(work)
        return SystemReport(
            version=__version__,
            python=platform.python_version(),
            platform=platform.platform(terse=True),
            postgres=postgres,
            schema=max(applied, default=0),
            started_at=self._started_at,
            timezone=self._context.settings.timezone,
            processes=processes,
        )

    async def list_settings(self) -> list[SettingLine]:
        """List the settings of this process, with the origin of each."""
        running = self._context.settings
        configuration, _ = await asyncio.to_thread(survey, self._environment, self._folder)
        defaults = Settings()
        lines = []
        for setting in fields(Settings):
            value, next_value = getattr(running, setting.name), getattr(configuration.settings, setting.name)
            origin = configuration.origins[setting.name]
            lines.append(
                SettingLine(
                    name=setting.name,
                    value=masked(setting, value),
                    default=masked(setting, getattr(defaults, setting.name)),
                    is_default=value == getattr(defaults, setting.name),
                    origin=origin if value == next_value else _GIVEN,
                    help=setting.metadata["help"],
                    after_restart=None if value == next_value else masked(setting, next_value),
                )
            )
        return lines

    async def run_doctor(self) -> DoctorReport:
        """Check settings, machine and database, and change nothing. Only one doctor runs at a time."""
        from headwater.app.doctor import run_checks  # it loads much that no other operation needs

        if self._checking.locked():
            raise HeadwaterError("The doctor checks this system already. Try again in ten seconds.", reason=Reason.BUSY)
        async with self._checking:
            findings = await run_checks(self._environment, self._folder, self._context.settings)
        checks = [
            DoctorFinding(name, finding.state, finding.found, finding.fix, list(finding.lines))
            for name, finding in findings.items()
        ]
        return DoctorReport(all(check.state is not State.FAILED for check in checks), checks)
