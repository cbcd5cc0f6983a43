"""The routes of watched pages: list them, set a re-fetch policy, take it away."""

from typing import Annotated

from fastapi import FastAPI, Query

from headwater.app.operations import Operations
from headwater.core.record import record
from headwater.frontier.watch_operations import WatchPage
from headwater.frontier.watches import Watch

_TAG = "watches"


@record
class WatchRequest:
    """A page and its re-fetch policy."""

    url: str
    policy: str
    """`never`, `every 6h`, `adaptive`, or `adaptive 2h to 7d` with its bounds. Units are m, h and d."""
    source: str | None = None
    """The source of an unknown URL; by default `manual`."""


def add_watches(app: FastAPI, operations: Operations) -> None:
    """Add the routes."""
    watches = operations.watches

    @app.get("/watches", tags=[_TAG])
    async def list_watches(
        with_sources: Annotated[bool, Query(description="Also pages that only their source watches.")] = False,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    ) -> WatchPage:
        """List the pages with a re-fetch policy of their own."""
        return await watches.list_watches(with_sources=with_sources, limit=limit, after=after)

    @app.put("/watches", tags=[_TAG])
    async def watch(request: WatchRequest) -> Watch:
        """Give a page a re-fetch policy of its own. An unknown URL is submitted."""
        return await watches.watch(request.url, request.policy, request.source)

    @app.delete("/watches", tags=[_TAG])
    async def unwatch(url: str) -> Watch:
        """Take the policy of a page away. The policy of its source holds again."""
        return await watches.unwatch(url)
