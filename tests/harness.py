"""The application for a test: the runtime, its operations, and ways to run its roles until all work is done."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from headwater.app.maintenance import MaintenanceRole
from headwater.app.metrics import Metrics
from headwater.app.operations import Operations
from headwater.app.roles import Role, make_fetch_pool, run_roles
from headwater.app.runtime import Runtime, open_runtime
from headwater.core.settings import Settings
from headwater.core.waiting import wait_for
from headwater.db.context import DatabaseContext, open_database_context


@dataclass(frozen=True)
class AppHarness:
    """An open runtime and its operations."""

    runtime: Runtime
    operations: Operations

    async def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Read rows from the database directly."""
        async with self.runtime.context.database.connection() as connection:
            return [tuple(row) for row in await connection.fetch(query, *arguments)]

    async def outcomes(self) -> dict[str, str | None]:
        """Return the reason of each URL. A pending URL has None."""
        return {url.url: url.reason for url in (await self.operations.frontier.list_urls()).urls}

    async def fetch(self, *urls: str) -> dict[str, str | None]:
        """Submit URLs, work until all have ended, and return their reasons."""
        await self.operations.frontier.submit(urls)
        await self.work()
        return await self.outcomes()

    async def attempts(self) -> list[tuple[Any, ...]]:
        """Return the fetch log: the reason, the number and the HTTP status of each attempt."""
        return await self.rows("SELECT reason, attempt, http_status FROM fetch_log ORDER BY id")

    async def work(self, *, until_idle_seconds: float = 30.0, until_attempts: int | None = None) -> None:
        """Run fetchers and maintenance until the queue is empty or the number of attempts is reached."""
        stop = asyncio.Event()

        async def watch() -> None:
            give_up = time.monotonic() + until_idle_seconds
            while (await self.operations.unfinished())[0] and time.monotonic() < give_up:
                if until_attempts is not None and len(await self.attempts()) >= until_attempts:
                    break
                await asyncio.sleep(0.02)
            stop.set()

        roles: list[Role] = [
            make_fetch_pool(self.runtime, self.operations.metrics),
            _LaterMaintenance(self.runtime.context),
        ]
        async with asyncio.TaskGroup() as group:
            group.create_task(run_roles(roles, stop))
            group.create_task(watch())


class _LaterMaintenance(MaintenanceRole):
    """Maintenance that starts a little later, so that fetchers do most of the work."""

    def __init__(self, context: DatabaseContext) -> None:
        super().__init__(context, interval_seconds=0.2)

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        await wait_for(stop, 0.2)
        await super().run(stop, grace_seconds)


@contextlib.asynccontextmanager
async def open_harness(settings: Settings) -> AsyncIterator[AppHarness]:
    """Open the runtime without its roles."""
    async with open_database_context(settings) as context, open_runtime(context) as runtime:
        yield AppHarness(runtime, Operations(runtime, Metrics()))
