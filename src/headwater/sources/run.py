"""What a kind gets to work with: a way to ask, a memory, and the time."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

import structlog
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_exponential

from headwater.core.backoff import retry_after
from headwater.core.errors import ExchangeFailed, HeadwaterError, NotNow
from headwater.core.http import Response
from headwater.core.json_values import parse_json
from headwater.core.poll_plan import RequestedDelay
from headwater.core.reasons import Reason
from headwater.core.redirect_history import Hop
from headwater.core.run import RunCounters
from headwater.core.source import FetchProfile, Method, RequestSettings
from headwater.core.urls import host_of, normalize_url
from headwater.feeds.body_description import looks_like_page
from headwater.feeds.links import ClassifiedLinks, classify_links, find_feed_links
from headwater.feeds.parser import parse_feed_page
from headwater.feeds.results import Feed, FeedLink
from headwater.feeds.sitemap_selection import SitemapReading, read_sitemap
from headwater.http.responses import MAX_HOPS, reason_of_status, redirect_target
from headwater.politeness.gate import Gate
from headwater.politeness.request_rate import Pace
from headwater.politeness.robots import named_sitemaps
from headwater.politeness.worker_slots import WorkerSlot
from headwater.sandbox.pool import Sandbox

log = structlog.get_logger()
_LINKS_SECONDS = 5.0
_LONGEST_SHOWN = 160  # of an address in a message
_SITEMAP_SECONDS = 60.0  # the largest that is read takes a fifth of that on an idle machine
_as_asked = lru_cache(maxsize=4096)(partial(normalize_url, keep_trailing_slash=True))  # polls ask for the same again


@dataclass(frozen=True, slots=True)
class Page:
    """An answer to a kind's request. What it holds is read in the sandbox, never here."""

    response: Response
    sandbox: Sandbox
    hops: tuple[Hop, ...] = ()  # the redirects that led to it

    @property
    def not_modified(self) -> bool:
        """Whether the server said that nothing has changed since the validators that were sent."""
        return self.response.status == 304

    async def feed(self) -> Feed:
        """Read the body as a feed."""
        response = self.response
        return await self.sandbox.run(
            parse_feed_page, response.body, response.url, response.headers.get("content-type"), returns=Feed
        )

    async def looks_like_page(self) -> bool:
        """Tell whether the body looks like an HTML page."""
        response = self.response
        content_type = response.headers.get("content-type")
        return await self.sandbox.run(looks_like_page, response.body, content_type, returns=bool)

    async def json(self) -> Any:
        """Read the body as JSON."""
        return await self.sandbox.run(parse_json, self.response.body, returns=object)

    async def feed_links(self) -> list[FeedLink]:
        """Read the body as a page and return the feeds it names."""
        response = self.response
        return await self.sandbox.run(
            find_feed_links, response.body, response.url, response.headers.get("content-type"), returns=list[FeedLink]
        )

    async def links(self, hosts: Collection[str], patterns: Collection[str]) -> ClassifiedLinks:
        """Read the body as a page and return where it leads: `classify_links` tells what the arguments are."""
        response = self.response
        content_type = response.headers.get("content-type")
        return await self.sandbox.run(
            classify_links,
            response.body,
            response.url,
            content_type,
            list(hosts),
            list(patterns),
            returns=ClassifiedLinks,
            seconds=_LINKS_SECONDS,
        )

    async def named_sitemaps(self) -> list[str]:
        """Read the body as a robots.txt and return the sitemaps it names."""
        return await self.sandbox.run(named_sitemaps, self.response.body, self.response.url, returns=list[str])

    async def sitemap(self, since: datetime, hosts: Collection[str], path: str) -> SitemapReading:
        """Read the body as a sitemap: `read_sitemap` tells what the arguments are."""
        return await self.sandbox.run(
            read_sitemap,
            self.response.body,
            self.response.url,
            since,
            list(hosts),
            path,
            returns=SitemapReading,
            seconds=_SITEMAP_SECONDS,
        )


class Http:
    """The way out for kinds: through the gate, at the source's pace, trying again what fails for a passing reason."""

    def __init__(
        self,
        gate: Gate,
        sandbox: Sandbox,
        terms: RequestSettings,
        pace: Pace,
        profile: FetchProfile,
        *,
        while_waiting: Callable[[datetime], AbstractAsyncContextManager[object]] = nullcontext,
        slot: WorkerSlot | None = None,
    ) -> None:
        self._gate = gate
        self._sandbox = sandbox
        self._retry = terms.retry
        self._pace = pace
        self._profile = profile
        self._slot = slot
        self._while_waiting = while_waiting  # entered for as long as a request waits for its budget
        self._in_flight = asyncio.Semaphore(terms.concurrency)
        self._quiet_until = 0.0  # by the loop's time: until then nothing is asked, as a 429 wished
        self._doubling = wait_exponential(multiplier=terms.retry.base_seconds)
        timeout = terms.timeout
        self._limits = replace(
            gate.limits, connect_seconds=timeout.connect, read_seconds=timeout.read, total_seconds=timeout.total
        )

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Page:
        """Ask for a URL; an answer of 400 or above is an error, once it is clear that it stays."""
        target = _as_asked(url)
        try:
            return await self._get_once(target, headers)
        except ExchangeFailed as error:
            failed = [error]
        # Most requests need no other attempt, so the machinery for that starts with the first failure.
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._retry.attempts),
            wait=self._wait,
            retry=retry_if_exception(self._is_passing),
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                if failed:
                    raise failed.pop()
                page = await self._get_once(target, headers)
        return page

    async def rest(self, failures: int) -> None:
        """Wait before asking again for what was answered, but cannot be right: twice as long after each failure."""
        await asyncio.sleep(self._retry.base_seconds * 2 ** (failures - 1))

    async def _get_once(self, url: str, headers: Mapping[str, str] | None) -> Page:
        page = await self._follow(url, headers)
        self._gate.check_key(page.response, self._profile)
        try:
            raise_for_status(page.response)
        except ExchangeFailed as error:
            self._heed(error)
            raise
        return page

    def _heed(self, error: ExchangeFailed) -> None:
        """Let all requests wait for as long as a 429 asks for, and not only the one that it answers."""
        if error.reason is Reason.RATE_LIMITED and error.retry_after and self._is_passing(error):
            quiet_until = asyncio.get_running_loop().time() + self._seconds_asked(error, error.retry_after)
            self._quiet_until = max(self._quiet_until, quiet_until)

    async def _follow(self, url: str, headers: Mapping[str, str] | None) -> Page:
        """Ask, and follow redirects; each hop is a request like any other."""
        target = url
        hops: tuple[Hop, ...] = ()
        for _ in range(MAX_HOPS + 1):
            response = await self._ask(target, headers)
            following = redirect_target(response)
            if following is None:
                return Page(response, self._sandbox, hops)
            target = following
            hops += (Hop(response.status, following),)
        raise ExchangeFailed(f"{url} redirects more than {MAX_HOPS} times.", reason=Reason.REDIRECT_LIMIT, url=url)

    async def _ask(self, url: str, headers: Mapping[str, str] | None) -> Response:
        """Ask at the source's pace; where its budget is used up, wait for that while holding nothing at all."""
        if self._profile.budget is not None:
            self._refuse_undeclared_port(host_of(url))
        while True:
            try:
                async with self._in_flight, self._pace.turn() as on_sent:
                    while (quiet := self._quiet_until - asyncio.get_running_loop().time()) > 0:
                        await asyncio.sleep(quiet)
                        await self._pace.wait()
                    return await self._gate.get(
                        url,
                        headers=headers,
                        limits=self._limits,
                        profile=self._profile,
                        on_sent=on_sent,
                        slot=self._slot,
                    )
            except NotNow as error:
                if error.reason is not Reason.BUDGET_SPENT:
                    raise
                until = error.until
            log.info("budget.spent", source=self._profile.source, host=host_of(url), until=until.isoformat())
            async with self._while_waiting(until):
                await self._gate.budgets.wait(until)

    def _refuse_undeclared_port(self, host: str) -> None:
        """Refuse to ask an API that is to be paid for where it would not be: at a port that its kind does not name."""
        declared = self._profile.api_hosts
        if host in (name.partition("/")[0] for name in declared):
            return
        if _name_of(host) in map(_name_of, declared):
            raise HeadwaterError(
                f"Source {self._profile.source}: api_hosts: the API is asked at {host}, and the kind declares "
                f"only {', '.join(sorted(declared))}; there it would get neither key nor budget.",
                reason=Reason.BAD_SOURCE,
            )

    def _is_passing(self, error: BaseException) -> bool:
        if not isinstance(error, ExchangeFailed) or not error.retryable:
            return False
        if (
            error.retry_after is not None
            and error.retry_after.total_seconds() > self._retry.longest_seconds
            and not self._is_spent(error)
        ):
            return False  # the source is left alone for as long, rather than waited for here
        return error.reason is not Reason.RATE_LIMITED or self._retry.on_rate_limit or self._is_spent(error)

    def _is_spent(self, error: ExchangeFailed) -> bool:
        """Tell whether a 429 says that the budget is used up, which the next attempt then waits for."""
        if error.reason is not Reason.RATE_LIMITED or not error.url:
            return False
        return self._gate.is_paid(error.url, self._profile)

    def _wait(self, retry_state: RetryCallState) -> float:
        """Double with each attempt; what a server asks for comes first."""
        error = retry_state.outcome.exception() if retry_state.outcome else None
        if not isinstance(error, ExchangeFailed) or error.retry_after is None:
            return self._doubling(retry_state)
        return self._seconds_asked(error, error.retry_after)

    def _seconds_asked(self, error: ExchangeFailed, asked: timedelta) -> float:
        return 0.0 if self._is_spent(error) else asked.total_seconds()


@dataclass(slots=True)
class Run:
    """One reading of a source. `state` is the kind's own memory; it is saved together with the items.

    `learned` are settings of the source that the kind has found out; they are saved likewise, in place of those it had.
    `asked` is how long the publisher wants to be left alone, where it says so.
    """

    http: Http
    state: dict[str, Any]
    now: datetime
    method: Method = Method.FEED
    since: datetime | None = None  # a reading that is to take what is older too, back to then
    learned: dict[str, Any] = field(default_factory=dict)
    asked: RequestedDelay | None = None
    day: date | None = None  # the one to read, where the kind is one of dated days
    tally: RunCounters = field(default_factory=RunCounters)  # what the kind counts, for those who watch
    left: int = 0  # what there is still to do, for which the next reading comes soon
    whole: bool = False  # somebody asked for all that is listed, also where that has not changed


def _name_of(host: str) -> str | None:
    return urlsplit(f"//{host}").hostname


def _shortened(url: str) -> str:
    return url if len(url) <= _LONGEST_SHOWN else f"{url[:_LONGEST_SHOWN]}..."


def raise_for_status(response: Response) -> None:
    """Raise for a status that is no answer."""
    reason = reason_of_status(response.status)
    if reason:
        raise ExchangeFailed(
            f"{_shortened(response.url)} answered {response.status}.",
            reason=reason,
            url=response.url,
            retry_after=retry_after(response.headers.get("retry-after"), response.sent_at),
        )
