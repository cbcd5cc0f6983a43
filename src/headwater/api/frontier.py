"""The routes of the frontier: submit, list and retry URLs; list, block and release hosts."""

from datetime import timedelta
from typing import Annotated

from fastapi import FastAPI, Query
from pydantic import Field

from headwater.app.operations import Operations
from headwater.core.errors import BadRequest
from headwater.core.frontier import FrontierStatus, HostState, UrlFilter
from headwater.core.record import record
from headwater.frontier import operations as records
from headwater.frontier.operations import LARGEST_BATCH, FrontierOperations
from headwater.frontier.retry import PRIORITY

_TAG = "frontier"

Limit = Annotated[int, Query(ge=1, le=1000)]
Urls = Annotated[list[str], Field(min_length=1, max_length=LARGEST_BATCH)]


@record
class NewUrls:
    """URLs to submit, up to 10,000 a request in 8 MiB."""

    urls: Urls
    source: str | None = None
    """The source that they are counted for; by default `manual`."""
    priority: Annotated[int, Field(ge=1, le=10)] | None = None
    """10 goes first; by default that of the source."""


@record
class NamedUrl:
    """A URL as it was given, and in its normalized form."""

    given: str
    url: str


@record
class RefusedUrl:
    """A URL that cannot be used, without a password and cut if it is long."""

    given: str
    why: str


@record
class SubmittedUrls:
    """The results in the order of the request. A URL that is given twice is new once and known afterwards."""

    new: list[NamedUrl]
    known: list[NamedUrl]
    refused: list[RefusedUrl]
    has_fetcher: bool
    """Whether a process that fetches pages runs on this database."""


@record
class RetryRequest:
    """Either URLs, all of them known, or a filter with at least one value."""

    urls: Urls | None = None
    filter: UrlFilter | None = None
    after: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """With a filter: the `next` of the response before."""
    priority: Annotated[int, Field(ge=1, le=10)] = PRIORITY


@record
class BlockRequest:
    """The duration of a block."""

    for_seconds: Annotated[int, Field(ge=1, le=10 * 365 * 86_400)] | None = None
    """Null: until the host is released."""


def add_frontier(app: FastAPI, operations: Operations) -> None:
    """Add the routes."""
    _add_urls(app, operations.frontier)
    _add_hosts(app, operations.frontier)


def _add_urls(app: FastAPI, frontier: FrontierOperations) -> None:
    @app.get("/frontier/urls", tags=[_TAG])
    async def list_urls(
        status: FrontierStatus | None = None,
        reason: Annotated[str | None, Query(description="A code from the closed list of reasons.")] = None,
        host: str | None = None,
        source: str | None = None,
        limit: Limit = 100,
        after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    ) -> records.UrlPage:
        """List URLs, oldest first."""
        return await frontier.list_urls(UrlFilter(status, reason, host, source), limit=limit, after=after)

    app.get("/frontier/stats", tags=[_TAG])(frontier.get_stats)

    @app.post("/frontier/urls", tags=[_TAG])
    async def submit(new: NewUrls) -> SubmittedUrls:
        """Submit URLs. An unusable URL is refused with the reason, and the other URLs are accepted."""
        submitted = await frontier.submit(new.urls, new.source, new.priority)
        answer = SubmittedUrls([], [], [], await frontier.has_fetcher())
        for result in submitted:
            if result.url is None:
                answer.refused.append(RefusedUrl(result.given, result.refusal or ""))
            else:
                (answer.new if result.is_new else answer.known).append(NamedUrl(result.given, result.url))
        return answer

    @app.post("/frontier/retry", tags=[_TAG])
    async def retry(request: RetryRequest) -> records.RetriedPage:
        """Fetch URLs again, whatever their end. One request with a filter queues about 10,000 URLs."""
        if (request.urls is None) == (request.filter is None):
            raise BadRequest("Give either urls or filter.")
        if request.filter is not None:
            return await frontier.retry_page(request.filter, request.priority, request.after)
        retried = await frontier.retry(request.urls or [], request.priority)
        return records.RetriedPage(len(retried.queued), len(retried.fetching), None)


def _add_hosts(app: FastAPI, frontier: FrontierOperations) -> None:
    @app.get("/frontier/hosts", tags=[_TAG])
    async def list_hosts(state: HostState | None = None, limit: Limit = 100, after: str = "") -> records.HostPage:
        """List hosts by name: state, delay, next turn, queue."""
        return await frontier.list_hosts(state=state, limit=limit, after=after)

    app.get("/frontier/hosts/{host}", tags=[_TAG])(frontier.show_host)

    @app.post("/frontier/hosts/{host}/block", tags=[_TAG])
    async def block(host: str, block: BlockRequest | None = None) -> records.HostLine:
        """Send no request to a host, or to hosts that share its turn, for some time or until it is released."""
        seconds = block.for_seconds if block else None
        return await frontier.close_host(host, timedelta(seconds=seconds) if seconds else None)

    app.post("/frontier/hosts/release", tags=[_TAG])(frontier.open_all_hosts)
    app.post("/frontier/hosts/{host}/release", tags=[_TAG])(frontier.open_host)
