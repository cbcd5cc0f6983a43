"""The interface for kinds: a run with its HTTP requests, its state and the time."""

import asyncio
import hashlib
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

import structlog
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_exponential

from headwater.core.backoff import read_retry_after
from headwater.core.errors import ExchangeFailed, HeadwaterError, NotNow
from headwater.core.http import Response
from headwater.core.json_values import parse_json
from headwater.core.poll import RequestedDelay
from headwater.core.reasons import Reason
from headwater.core.redirect_history import Hop
from headwater.core.run import RunCounters
from headwater.core.source import FetchProfile, Method, RequestSettings
from headwater.core.urls import host_of, normalize_url
from headwater.extraction.html.page_list import PageList, read_list
from headwater.feeds.body_description import looks_like_page
from headwater.feeds.links import ClassifiedLinks, classify_links, find_feed_links
from headwater.feeds.parser import parse_feed
from headwater.feeds.results import Feed, FeedLink
from headwater.feeds.sitemap_selection import SitemapReading, read_sitemap
from headwater.http.responses import MAX_HOPS, reason_of_status, redirect_target
from headwater.politeness.gate import Gate, RequestOptions
from headwater.politeness.request_rate import RequestRate
from headwater.politeness.robots import named_sitemaps
from headwater.politeness.worker_slots import WorkerSlot
from headwater.sandbox.pool import Sandbox

log = structlog.get_logger()
MAX_FAILURES = 5  # in a row, each after several attempts: the site is down, and the reading ends
_LINKS_SECONDS = 5.0
_SITEMAP_SECONDS = 60.0  # five times what the largest sitemap takes on an idle machine
_MAX_PROBLEMS = 20
_MAX_PROBLEM_LENGTH = 200
_MAX_VALIDATOR_LENGTH = 1_000  # the state holds validators for each sitemap of a site
# Polls request the same URLs again and again.
_normalize = lru_cache(maxsize=4096)(partial(normalize_url, keep_trailing_slash=True))


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to a kind's request. A sandbox reads its body."""

    response: Response
    sandbox: Sandbox
    hops: tuple[Hop, ...] = ()  # the redirects that led to it

    @property
    def not_modified(self) -> bool:
        """Whether the answer has not changed since the validators that were sent."""
        return self.response.status == 304

    @property
    def body_hash(self) -> str:
        """A hash of the body."""
        return hashlib.sha256(self.response.body).hexdigest()[:32]

    @property
    def _content(self) -> tuple[bytes, str, str | None]:
        return self.response.body, self.response.url, self.response.headers.get("content-type")

    async def feed(self) -> Feed:
        """Read the body as a feed."""
        return await self.sandbox.run(parse_feed, *self._content, returns=Feed)

    async def entries(self) -> PageList:
        """Read the body as a page that lists other pages."""
        return await self.sandbox.run(read_list, *self._content, returns=PageList, seconds=_LINKS_SECONDS)

    async def looks_like_page(self) -> bool:
        """Return whether the body looks like an HTML page."""
        body, _, content_type = self._content
        return await self.sandbox.run(looks_like_page, body, content_type, returns=bool)

    async def json(self) -> Any:
        """Read the body as JSON."""
        return await self.sandbox.run(parse_json, self.response.body, returns=object)

    async def feed_links(self) -> list[FeedLink]:
        """Read the body as a page and return the feeds that it names."""
        return await self.sandbox.run(find_feed_links, *self._content, returns=list[FeedLink])

    async def links(self, hosts: Collection[str], patterns: Collection[str]) -> ClassifiedLinks:
        """Read the body as a page and return its links. See `classify_links` for the arguments."""
        arguments = (*self._content, list(hosts), list(patterns))
        return await self.sandbox.run(classify_links, *arguments, returns=ClassifiedLinks, seconds=_LINKS_SECONDS)

    async def named_sitemaps(self) -> list[str]:
        """Read the body as a robots.txt file and return the sitemaps that it names."""
        return await self.sandbox.run(named_sitemaps, self.response.body, self.response.url, returns=list[str])

    async def sitemap(
        self, since: datetime, hosts: Collection[str], path: str, covered: datetime | None = None
    ) -> SitemapReading:
        """Read the body as a sitemap. See `read_sitemap` for the arguments."""
        arguments = (self.response.body, self.response.url, since, list(hosts), path, covered)
        return await self.sandbox.run(read_sitemap, *arguments, returns=SitemapReading, seconds=_SITEMAP_SECONDS)


@dataclass(eq=False)
class Http:
    """Requests for a kind. They pass the gate at the source's rate, and a temporary failure is tried again.

    `while_waiting` is entered while a request waits for its budget, with the time of the next one.
    """

    gate: Gate
    sandbox: Sandbox
    settings: RequestSettings
    rate: RequestRate
    profile: FetchProfile
    while_waiting: Callable[[datetime], AbstractAsyncContextManager[object]] = nullcontext
    slot: WorkerSlot | None = None
    before_send: Callable[[], None] | None = None  # runs before each request, and may refuse it
    hold_permit: Callable[[], AbstractAsyncContextManager[bool | None]] = nullcontext  # entered during each request

    def __post_init__(self) -> None:
        self._in_flight = asyncio.Semaphore(self.settings.concurrency)
        self._quiet_until = 0.0  # on the loop's clock; a 429 asked for no requests until then
        self._retry, timeout = self.settings.retry, self.settings.timeout
        self._doubling = wait_exponential(multiplier=self._retry.base_seconds)
        self._limits = replace(
            self.gate.limits, connect_seconds=timeout.connect, read_seconds=timeout.read, total_seconds=timeout.total
        )

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Page:
        """Request a URL. Raises ExchangeFailed for a status of 400 or above that remains after the retries."""
        target = _normalize(url)
        try:
            return await self._get_once(target, headers)
        except ExchangeFailed as error:
            if not error.retryable:
                raise
            failed = [error]
        # Tenacity costs time, and most requests need no retry.
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._retry.attempts),
            wait=self._wait,
            retry=retry_if_exception(self._is_temporary),
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                if failed:
                    raise failed.pop()
                page = await self._get_once(target, headers)
        return page

    async def rest(self, failures: int) -> None:
        """Wait before a request for an answer that was wrong. The wait doubles with each failure."""
        await asyncio.sleep(self._retry.base_seconds * 2 ** (failures - 1))

    async def _get_once(self, url: str, headers: Mapping[str, str] | None) -> Page:
        """Request a URL and follow redirects. Each redirect is a request like any other."""
        response, hops = await self._send(url, headers), tuple[Hop, ...]()
        while (target := redirect_target(response)) is not None:
            hops += (Hop(response.status, target),)
            if len(hops) > MAX_HOPS:
                message = f"{url} redirects more than {MAX_HOPS} times."
                raise ExchangeFailed(message, reason=Reason.REDIRECT_LIMIT, url=url)
            response = await self._send(target, headers)
        reason = reason_of_status(response.status)
        if self.profile.budget:
            self.gate.check_key(response, self.profile)
        if reason is None:
            return Page(response, self.sandbox, hops)
        raise make_status_error(response, reason, self.gate.suggest_fixes(response, self.profile))

    async def _send(self, url: str, headers: Mapping[str, str] | None) -> Response:
        """Send a request at the source's rate. A request whose budget is used up waits, and holds nothing meanwhile."""
        if self.profile.budget is not None:
            self._refuse_undeclared_port(host_of(url))
        options = RequestOptions(self._limits, headers or {}, self.profile, self.before_send)
        while True:
            try:
                async with self._in_flight, self.rate.turn() as on_sent, self.hold_permit() as has_waited:
                    if has_waited:
                        await self.rate.wait()
                    while (quiet := self._quiet_until - asyncio.get_running_loop().time()) > 0:
                        await asyncio.sleep(quiet)
                        await self.rate.wait()
                    response = await self.gate.get(url, options, on_sent=on_sent, slot=self.slot)
                    if reason_of_status(response.status) is Reason.RATE_LIMITED:
                        self._obey_rate_limit(response)  # before the permit is free for the next request
                    return response
            except NotNow as error:
                if error.reason is not Reason.BUDGET_SPENT:
                    raise
                until = error.until
            log.info("budget.spent", source=self.profile.source, host=host_of(url), until=until.isoformat())
            async with self.while_waiting(until):
                await self.gate.budgets.wait(until)

    def _obey_rate_limit(self, response: Response) -> None:
        """Keep all requests of the source back for as long as a 429 asks for."""
        error = make_status_error(response, Reason.RATE_LIMITED)
        if error.retry_after and self._is_temporary(error):
            quiet_until = asyncio.get_running_loop().time() + self._seconds_asked(error, error.retry_after)
            self._quiet_until = max(self._quiet_until, quiet_until)

    def _refuse_undeclared_port(self, host: str) -> None:
        """Refuse a request to an API on a port that the kind does not declare. It would get neither key nor budget."""
        declared = self.profile.api_hosts
        if host in (name.partition("/")[0] for name in declared):
            return
        if _name_of(host) in map(_name_of, declared):
            raise HeadwaterError(
                f"Source {self.profile.source}: api_hosts: the API is asked at {host}, and the kind declares "
                f"only {', '.join(sorted(declared))}; there it would get neither key nor budget.",
                reason=Reason.BAD_SOURCE,
            )

    def _is_temporary(self, error: BaseException) -> bool:
        if not isinstance(error, ExchangeFailed) or not error.retryable:
            return False
        if self._is_spent(error):
            return True
        if error.retry_after is not None and error.retry_after.total_seconds() > self._retry.longest_seconds:
            return False  # the poll ends, and the source is polled again after that time
        return error.reason is not Reason.RATE_LIMITED or self._retry.on_rate_limit

    def _is_spent(self, error: ExchangeFailed) -> bool:
        """Return whether a 429 says that the budget is used up. The next attempt then waits for the budget."""
        is_limit = error.reason is Reason.RATE_LIMITED and bool(error.url)
        return is_limit and self.gate.is_paid(error.url or "", self.profile)

    def _wait(self, retry_state: RetryCallState) -> float:
        """Return the seconds until the next attempt. The server may ask for them; otherwise they double each time."""
        error = retry_state.outcome.exception() if retry_state.outcome else None
        if not isinstance(error, ExchangeFailed) or error.retry_after is None:
            return self._doubling(retry_state)
        return self._seconds_asked(error, error.retry_after)

    def _seconds_asked(self, error: ExchangeFailed, asked: timedelta) -> float:
        return 0.0 if self._is_spent(error) else asked.total_seconds()


@dataclass(slots=True)
class Run:
    """One reading of a source by its kind."""

    http: Http
    state: dict[str, Any]  # the kind's own JSON values; they are saved together with the items
    now: datetime
    method: Method = Method.FEED
    since: datetime | None = None  # the start of a backfill
    learned: dict[str, Any] = field(default_factory=dict)  # settings that the kind found out; saved with the items
    requested_delay: RequestedDelay | None = None  # how long the publisher asks us to wait
    day: date | None = None  # the day to read, for a kind of dated days
    counters: RunCounters = field(default_factory=RunCounters)
    left: int = 0  # still to be read; the next poll follows soon
    is_full: bool = False  # a user asked for all entries, also if nothing has changed


@dataclass(slots=True)
class Problems:
    """The errors that a kind continued after: the first error, and the first few as text."""

    first: HeadwaterError | None = None
    texts: list[dict[str, str]] = field(default_factory=list)

    def add(self, url: str, error: HeadwaterError) -> None:
        """Add an error."""
        self.first = self.first or error
        if len(self.texts) < _MAX_PROBLEMS:
            self.texts.append({"url": url, "problem": str(error)[:_MAX_PROBLEM_LENGTH]})

    def save(self, state: dict[str, Any]) -> None:
        """Replace the problems in the state by these."""
        set_or_remove(state, "problems", self.texts)


def make_validators(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the request headers for an answer only if it has changed since the saved one."""
    names = {"etag": "If-None-Match", "last_modified": "If-Modified-Since"}
    return {header: state[name] for name, header in names.items() if state.get(name)}


def save_validators(state: dict[str, Any], response: Response, body_hash: str) -> None:
    """Save the values that show whether the next answer differs from this one."""
    for name, header in (("etag", "etag"), ("last_modified", "last-modified")):
        value = response.headers.get(header, "")
        set_or_remove(state, name, value if len(value) <= _MAX_VALIDATOR_LENGTH else None)
    state["body_hash"] = body_hash


def set_or_remove(state: dict[str, Any], name: str, value: Any) -> None:
    """Set a value of the state, or remove it if it is empty."""
    if value:
        state[name] = value
    else:
        state.pop(name, None)


def _name_of(host: str) -> str | None:
    return urlsplit(f"//{host}").hostname


def make_status_error(response: Response, reason: Reason, fixes: str = "") -> ExchangeFailed:
    """Return the error for a status that carries no document. `fixes` is a sentence that names what may help."""
    url = response.url
    retry_after = read_retry_after(response.headers.get("retry-after"), response.sent_at)
    return ExchangeFailed(f"{url} answered {response.status}.{fixes}", reason=reason, url=url, retry_after=retry_after)
