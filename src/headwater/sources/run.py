"""What a kind gets to work with: a way to ask, a memory, and the time."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_exponential
from tenacity.wait import wait_base

from headwater.errors import ExchangeFailed
from headwater.formats.feeds import parse_feed_page
from headwater.formats.json_body import parse_json
from headwater.gate.gate import Gate
from headwater.gate.pace import Pace
from headwater.model.feed import Feed
from headwater.model.http import Response
from headwater.model.reasons import Reason
from headwater.policy.backoff import retry_after
from headwater.policy.statuses import reason_of_status
from headwater.policy.urls import normalize_url
from headwater.sandbox import Sandbox
from headwater.sources.terms import Retry, Terms


@dataclass(frozen=True, slots=True)
class Page:
    """An answer to a kind's request. What it holds is read in the sandbox, never here."""

    response: Response
    sandbox: Sandbox

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

    async def json(self) -> Any:
        """Read the body as JSON."""
        return await self.sandbox.run(parse_json, self.response.body, returns=object)


class Http:
    """The way out for kinds: through the gate, at the source's pace, trying again what fails for a passing reason."""

    def __init__(self, gate: Gate, sandbox: Sandbox, terms: Terms, pace: Pace) -> None:
        self._gate = gate
        self._sandbox = sandbox
        self._terms = terms
        self._pace = pace
        self._in_flight = asyncio.Semaphore(terms.concurrency)
        timeout = terms.timeout
        self._limits = replace(
            gate.limits, connect_seconds=timeout.connect, read_seconds=timeout.read, total_seconds=timeout.total
        )

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Page:
        """Ask for a URL; an answer of 400 or above is an error, once it is clear that it stays."""
        target = normalize_url(url, keep_trailing_slash=True)
        retry = self._terms.retry
        retrying = AsyncRetrying(
            stop=stop_after_attempt(retry.attempts),
            wait=_Wait(retry),
            retry=retry_if_exception(lambda error: _passing(error, retry)),
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                response = await self._ask(target, headers)
                raise_for_status(response)
        return Page(response, self._sandbox)

    async def _ask(self, url: str, headers: Mapping[str, str] | None) -> Response:
        async with self._in_flight:
            await self._pace.wait()
            return await self._gate.get(
                url,
                headers=headers,
                limits=self._limits,
                agent=self._terms.user_agent,
                api_hosts=self._terms.api_hosts,
            )


@dataclass(frozen=True, slots=True)
class Run:
    """One reading of a source. `state` is the kind's own memory; it is saved together with the items."""

    http: Http
    state: dict[str, Any]
    now: datetime


class _Wait(wait_base):
    """Doubles with each attempt; what a server asks for comes first."""

    def __init__(self, retry: Retry) -> None:
        self._doubling = wait_exponential(multiplier=retry.base_seconds)

    def __call__(self, retry_state: RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        asked = error.retry_after if isinstance(error, ExchangeFailed) else None
        return self._doubling(retry_state) if asked is None else asked.total_seconds()


def _passing(error: BaseException, retry: Retry) -> bool:
    if not isinstance(error, ExchangeFailed) or not error.retryable:
        return False
    return retry.on_rate_limit or error.reason is not Reason.RATE_LIMITED


def raise_for_status(response: Response) -> None:
    """Raise for a status that is no answer."""
    reason = reason_of_status(response.status)
    if reason:
        raise ExchangeFailed(
            f"{response.url} answered {response.status}.",
            reason=reason,
            url=response.url,
            retry_after=retry_after(response.headers.get("retry-after"), response.sent_at),
        )
