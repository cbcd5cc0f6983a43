"""What a kind gets to work with: a way to ask, a memory, and the time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential

from headwater.errors import ExchangeFailed
from headwater.formats.feeds import parse_feed_page
from headwater.gate.gate import Gate
from headwater.model.feed import Feed
from headwater.model.http import Response
from headwater.model.reasons import Reason
from headwater.policy.statuses import reason_of_status
from headwater.policy.urls import normalize_url
from headwater.sandbox import Sandbox


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


class Http:
    """The way out for kinds: through the gate, with three attempts at whatever fails for a passing reason."""

    def __init__(self, gate: Gate, sandbox: Sandbox, *, attempts: int = 3, base_seconds: float = 1.0) -> None:
        self._gate = gate
        self._sandbox = sandbox
        self._attempts = attempts
        self._base_seconds = base_seconds

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Page:
        """Ask for a URL; an answer of 400 or above is an error, once it is clear that it stays."""
        target = normalize_url(url, keep_trailing_slash=True)
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._attempts),
            wait=wait_exponential(multiplier=self._base_seconds),
            retry=retry_if_exception(_passing),
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                response = await self._gate.get(target, headers=headers)
                _raise_for_status(response)
        return Page(response, self._sandbox)


@dataclass(frozen=True, slots=True)
class Run:
    """One reading of a source. `state` is the kind's own memory; it is saved together with the items."""

    http: Http
    state: dict[str, Any]
    now: datetime


def _passing(error: BaseException) -> bool:
    return isinstance(error, ExchangeFailed) and error.retryable and error.reason is not Reason.RATE_LIMITED


def _raise_for_status(response: Response) -> None:
    reason = reason_of_status(response.status)
    if reason:
        raise ExchangeFailed(f"{response.url} answered {response.status}.", reason=reason, url=response.url)
