"""The application for a test: the runtime, its operations, and ways to run its roles until all work is done."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from headwater.app.maintenance import MaintenanceRole
from headwater.app.metrics import Metrics
from headwater.app.operations import Operations
from headwater.app.roles import Role, make_fetch_pool, run_roles
from headwater.app.runtime import Runtime, open_runtime
from headwater.core.frontier import UrlFilter
from headwater.core.poll import PollResult
from headwater.core.settings import Settings
from headwater.core.source import Method
from headwater.core.waiting import wait_for
from headwater.db import sources
from headwater.db.context import DatabaseContext, open_database_context
from headwater.db.documents import Document
from headwater.db.frontier import UrlLine
from headwater.db.why import FetchAttempt, QueueEntry
from headwater.sources.health import SourceMethod
from tests.database_state import count


@dataclass(frozen=True)
class AppHarness:
    """An open runtime and its operations."""

    runtime: Runtime
    operations: Operations

    async def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Read rows from the database directly, where no operation shows them."""
        async with self.runtime.context.database.connection() as connection:
            return [tuple(row) for row in await connection.fetch(query, *arguments)]

    async def execute(self, statement: str, *arguments: object) -> None:
        """Change the database directly, to the state that a test begins with."""
        async with self.runtime.context.database.connection() as connection:
            await connection.execute(statement, *arguments)

    async def urls(self, **filters: str) -> dict[str, UrlLine]:
        """Return the URLs of the frontier by address."""
        found = await self.operations.frontier.list_urls(UrlFilter(**filters))  # type: ignore[arg-type]
        return {line.url: line for line in found.urls}

    async def outcomes(self) -> dict[str, str | None]:
        """Return the reason of each URL. A pending URL has None."""
        return {url: line.reason for url, line in (await self.urls()).items()}

    async def fetch(self, *urls: str) -> dict[str, str | None]:
        """Submit URLs, work until all have ended, and return their reasons."""
        await self.operations.frontier.submit(urls)
        await self.work()
        return await self.outcomes()

    async def log(self) -> list[FetchAttempt]:
        """Return the attempts at all URLs, in the order of their ends."""
        attempts = [one for url in await self.urls() for one in (await self.operations.why(url)).fetches]
        return sorted(attempts, key=lambda one: one.finished_at)

    async def attempts(self) -> list[tuple[str, int, int | None]]:
        """Return the reason, the number and the HTTP status of each attempt."""
        return [(one.reason.value, one.attempt, one.http_status) for one in await self.log()]

    async def queued(self) -> dict[str, QueueEntry]:
        """Return the place of each URL that waits or is being fetched."""
        places = {url: (await self.operations.why(url)).queued for url in await self.urls()}
        return {url: place for url, place in places.items() if place}

    async def documents(self) -> dict[str, Document]:
        """Return the documents by the address of their URL, sorted."""
        page = await self.operations.documents.list_page(limit=1000)
        assert page.next is None
        lines = sorted(page.documents, key=lambda line: line.url)
        return {line.url: await self.operations.documents.get(line.id) for line in lines}

    async def document(self) -> Document:
        """Return the only document."""
        (document,) = (await self.documents()).values()
        return document

    async def method(self, source: str = "news.test", method: str = "main") -> SourceMethod:
        """Return one method of a source."""
        methods = (await self.operations.sources.show(source)).methods
        return next(one for one in methods if one.method == method)

    async def poll(self, source: str, method: Method = Method.FEED) -> PollResult:
        """Poll a source by a method as if it were due."""
        now = self.runtime.context.clock.now()
        lease = {"now": now, "until": now + timedelta(seconds=30), "holder": "me"}
        async with self.runtime.context.database.connection() as connection:
            (claim,) = await sources.claim_polls(connection, **lease, limit=1, name=source, methods=[method])
        return await self.runtime.poller.poll(claim)

    async def work(self, *, until_idle_seconds: float = 30.0, until_attempts: int | None = None) -> None:
        """Run fetchers and maintenance until the queue is empty or the number of attempts is reached."""
        stop = asyncio.Event()

        async def watch() -> None:
            give_up = time.monotonic() + until_idle_seconds
            while (await self.operations.unfinished())[0] and time.monotonic() < give_up:
                if until_attempts is not None and await count(self, "fetch_log") >= until_attempts:
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
