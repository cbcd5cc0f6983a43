"""The frontier's routes: what goes in, what there is, what is fetched again, and what an operator says of hosts."""

from datetime import timedelta
from typing import Annotated

from fastapi import FastAPI, Query

from headwater.api import frontier_shapes as shapes
from headwater.api.token import TOKEN
from headwater.app.operations import Operations
from headwater.frontier.operations import FrontierOperations

_TAG = "frontier"

Limit = Annotated[int, Query(ge=1, le=1000)]


def add_frontier(app: FastAPI, operations: Operations) -> None:
    """Add the routes."""
    _add_reading(app, operations.frontier)
    _add_writing(app, operations.frontier)
    _add_hosts(app, operations.frontier)


def _add_reading(app: FastAPI, frontier: FrontierOperations) -> None:
    @app.get("/frontier/urls", tags=[_TAG])
    async def urls(
        status: shapes.Status | None = None,
        reason: Annotated[str | None, Query(description="A code from the closed list of reasons.")] = None,
        host: str | None = None,
        source: str | None = None,
        limit: Limit = 100,
        after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    ) -> shapes.UrlPage:
        """List URLs, oldest first."""
        rows = await frontier.urls(status=status, reason=reason, host=host, source=source, limit=limit, after=after)
        following = rows[-1]["id"] if len(rows) == limit else None
        return shapes.UrlPage(urls=[shapes.UrlLine(**row) for row in rows], next=following)

    @app.get("/frontier/stats", tags=[_TAG])
    async def stats() -> shapes.FrontierStats:
        """Count URLs by status and reason, and hosts by what keeps them."""
        return shapes.FrontierStats(**await frontier.stats())

    @app.get("/frontier/hosts", tags=[_TAG])
    async def hosts(state: shapes.HostState | None = None, limit: Limit = 100, after: str = "") -> shapes.HostPage:
        """List hosts by name: state, pause, next turn, queue."""
        rows = await frontier.hosts(state=state, limit=limit, after=after)
        following = rows[-1]["host"] if len(rows) == limit else None
        return shapes.HostPage(hosts=[shapes.HostLine(**row) for row in rows], next=following)


def _add_writing(app: FastAPI, frontier: FrontierOperations) -> None:
    @app.post("/frontier/urls", tags=[_TAG], dependencies=TOKEN)
    async def submit(given: shapes.NewUrls) -> shapes.SubmittedUrls:
        """Put URLs into the frontier; what cannot be used is refused with why, and the rest goes in."""
        answer = shapes.SubmittedUrls(new=[], known=[], refused=[])
        for handed in await frontier.hand_in(given.urls, given.source):
            if handed.url is None:
                answer.refused.append(shapes.RefusedUrl(given=handed.given, why=handed.why_refused or ""))
            else:
                named = shapes.NamedUrl(given=handed.given, url=handed.url)
                (answer.new if handed.is_new else answer.known).append(named)
        return answer

    @app.post("/frontier/retry", tags=[_TAG], dependencies=TOKEN)
    async def retry(wanted: shapes.RetryRequest) -> shapes.Retrying:
        """Fetch URLs again, whatever their end."""
        if wanted.urls is not None:
            queued, fetching = await frontier.retry(wanted.urls, wanted.priority)
            return shapes.Retrying(queued=len(queued), fetching=len(fetching), next=None)
        assert wanted.filter is not None
        done = shapes.Retrying(queued=0, fetching=0, next=None)
        async for retried in frontier.retry_all(wanted.filter.model_dump(), wanted.priority, wanted.after):
            done.queued += retried.queued
            done.fetching += retried.fetching
            if done.queued + done.fetching >= shapes.LARGEST_BATCH:
                done.next = retried.last
                break
        return done


def _add_hosts(app: FastAPI, frontier: FrontierOperations) -> None:
    @app.post("/frontier/hosts/{host}/block", tags=[_TAG], dependencies=TOKEN)
    async def block(host: str, closing: shapes.Closing | None = None) -> shapes.HostLine:
        """Ask nothing of a host, and of whoever shares its turn, for a time or until it is released."""
        seconds = closing.for_seconds if closing else None
        name = await frontier.close_host(host, timedelta(seconds=seconds) if seconds else None)
        return shapes.HostLine(**await frontier.host(name))

    @app.post("/frontier/hosts/{host}/release", tags=[_TAG], dependencies=TOKEN)
    async def release(host: str) -> shapes.HostLine:
        """Take back what closed, blocked or slowed a host."""
        return shapes.HostLine(**await frontier.host(await frontier.open_host(host)))
