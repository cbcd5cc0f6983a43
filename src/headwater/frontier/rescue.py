"""The upkeep of the frontier: it returns expired leases, wakes forgotten hosts and prunes the fetch log."""

import itertools
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headwater.core.backoff import wait_after_loss
from headwater.core.frontier import FetchOutcome, UrlStatus
from headwater.core.reasons import Reason
from headwater.db import frontier, hosts
from headwater.db.pool import Connection, Database

_RESCUE_BATCH = 500
_SWEEP_BATCH = 2000
_PRUNE_BATCH = 5000


async def rescue_claims(database: Database, now: datetime, max_attempts: int) -> int:
    """Requeue expired claims and return their number. A URL that lost a worker at each attempt is dead(worker_lost)."""

    async def work(connection: Connection) -> int:
        expired = await frontier.lock_expired_claims(connection, now, _RESCUE_BATCH)
        if not expired:
            return 0
        outcomes: dict[int, FetchOutcome] = {}
        places = itertools.count()
        for url_id, _, lease in expired:
            if lease.attempts >= max_attempts:
                outcomes[url_id] = FetchOutcome(Reason.WORKER_LOST, UrlStatus.DEAD)
            else:
                wait = wait_after_loss(lease.attempts, next(places) if lease.attempts > 1 else 0)
                outcomes[url_id] = FetchOutcome(Reason.WORKER_LOST, UrlStatus.PENDING, due_at=now + wait)
        await frontier.settle_claims(connection, outcomes.items(), now)
        fetches = [(url_id, lease, outcomes[url_id], None) for url_id, _, lease in expired]
        await frontier.log_fetches(connection, fetches, now)
        await hosts.set_next_work(connection, sorted({key for _, key, _ in expired}))
        return len(expired)

    return await database.transact(work)


async def rescue_hosts(database: Database, now: datetime) -> int:
    """Release hosts whose lease has ended and return their number. Each keeps its delay, counted from that end."""

    async def work(connection: Connection) -> int:
        expired = await hosts.lock_expired_hosts(connection, now, _RESCUE_BATCH)
        if expired:
            await hosts.release_hosts(connection, expired)
        return len(expired)

    return await database.transact(work)


@dataclass(slots=True)
class Sweeper:
    """Wakes hosts that have work but that no claim would find, one batch of hosts after the other.

    There should be none: a submit, a finish and a rescue each set when a host has work next.
    """

    database: Database
    _after: str = field(default="", init=False)

    async def sweep(self) -> int:
        """Check the next batch of hosts. Return how many were woken."""

        async def work(connection: Connection) -> tuple[int, str | None]:
            forgotten, last = await hosts.find_forgotten_hosts(connection, self._after, _SWEEP_BATCH)
            if forgotten:
                await hosts.wake_hosts(connection, forgotten)
            return len(forgotten), last

        woken, last = await self.database.transact(work)
        self._after = last or ""
        return woken


async def prune_log(database: Database, now: datetime, keep: timedelta) -> int:
    """Delete the attempts that ended more than `keep` ago from the fetch log. Return how many."""
    pruned = 0
    while True:
        batch = await database.transact(frontier.prune_log, now - keep, _PRUNE_BATCH)
        pruned += batch
        if batch < _PRUNE_BATCH:
            return pruned
