"""The budgets of the api.data.gov key, shared by all processes on one database (spec 1.4)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from headwater.core import backoff
from headwater.core.api_budget import HOUR, Split, fingerprint, read_limit
from headwater.core.clock import Clock
from headwater.core.errors import NotNow, OperatorError
from headwater.core.http import Response
from headwater.core.reasons import Reason
from headwater.db import budgets
from headwater.db.pool import Connection, Database

log = structlog.get_logger()
_LONGEST_WAIT_SECONDS = 60.0  # the host may have announced a larger limit meanwhile


@dataclass(eq=False)
class Budgets:
    """Decides when a source may ask an API host. Learns the host's limit from its answers."""

    database: Database
    clock: Clock
    api_key: str
    split: Split
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def key(self) -> str:
        """The key for the header X-Api-Key. A key in a URL would appear in logs."""
        if not self.api_key:
            raise OperatorError(
                "This source needs a key of api.data.gov. Get one at https://api.data.gov/signup/ and set "
                "HEADWATER_API_DATA_GOV_KEY to it."
            )
        return self.api_key

    async def spend(self, source: str, host: str) -> None:
        """Count a request that is about to leave. Raise NotNow, and count nothing, if the budget is used up."""
        again = await self.try_acquire(source, host)
        if again:
            raise NotNow(
                f"Source {source} has used up its hourly requests to {host}. The next request may leave at "
                f"{again:%H:%M:%S} UTC.",
                until=again,
                reason=Reason.BUDGET_SPENT,
            )

    async def wait(self, until: datetime) -> None:
        """Wait until a request may leave, but at most a minute."""
        seconds = (until - self.clock.now()).total_seconds()
        await self.sleep(max(0.001, min(seconds, _LONGEST_WAIT_SECONDS)))

    async def try_acquire(self, source: str, host: str) -> datetime | None:
        """Count a request of a source, or return when the source may try again."""
        mark, child = fingerprint(self.key), self.split.child_of(source)

        async def spend(connection: Connection) -> datetime | None:
            # Only now: the wait for a connection must not count the request earlier than it leaves.
            return await budgets.spend(connection, mark, host, child, self.split, self.clock.now())

        return await self.database.transact(spend)

    async def read_answer(self, host: str, response: Response) -> None:
        """Save the limit in a host's answer. A 429 stops all requests until Retry-After, or for an hour."""
        limit, now = read_limit(response.headers.get("x-ratelimit-limit")), self.clock.now()
        mark = fingerprint(self.key)
        async with self.database.connection() as connection:
            if limit:
                await budgets.save_limit(connection, mark, host, limit, now)
            if response.status == 429:
                until = now + (backoff.read_retry_after(response.headers.get("retry-after"), now) or HOUR)
                log.warning("budget.exhausted", host=host, until=until.isoformat())
                await budgets.exhaust(connection, mark, host, until)
