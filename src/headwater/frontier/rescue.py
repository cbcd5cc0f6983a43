"""What dead workers leave behind: expired claims and holds come back."""

import itertools
from datetime import datetime

from headwater.core.backoff import wait_after_loss
from headwater.core.frontier import FetchOutcome, UrlStatus
from headwater.core.reasons import Reason
from headwater.db import frontier, hosts
from headwater.db.pool import Connection, Database

BATCH = 500


async def rescue_claims(database: Database, now: datetime, max_attempts: int) -> int:
    """Return expired claims to the queue; a URL that has lost a worker at every attempt is dead(worker_lost)."""

    async def work(connection: Connection) -> int:
        expired = await frontier.expired_claims(connection, now, BATCH)
        if not expired:
            return 0
        endings = _endings([(url_id, lease.attempts) for url_id, _, lease in expired], now, max_attempts)
        await frontier.settle_claims(connection, endings.items(), now)
        await frontier.log_fetches(
            connection, [(url_id, lease, endings[url_id], None) for url_id, _, lease in expired], now
        )
        await hosts.rest_hosts(connection, sorted({key for _, key, _ in expired}))
        return len(expired)

    return await database.transact(work)


async def rescue_holds(database: Database, now: datetime) -> int:
    """Give back hosts whose holder is late; each still has its pause from the lease's end on."""

    async def work(connection: Connection) -> int:
        expired = await hosts.lock_expired_hosts(connection, now, BATCH)
        if expired:
            await hosts.release_hosts(connection, expired)
        return len(expired)

    return await database.transact(work)


def _endings(lost: list[tuple[int, int]], now: datetime, max_attempts: int) -> dict[int, FetchOutcome]:
    endings: dict[int, FetchOutcome] = {}
    places = itertools.count()
    for url_id, attempts in lost:
        if attempts >= max_attempts:
            endings[url_id] = FetchOutcome(Reason.WORKER_LOST, UrlStatus.DEAD)
        else:
            wait = wait_after_loss(attempts, next(places) if attempts > 1 else 0)
            endings[url_id] = FetchOutcome(Reason.WORKER_LOST, UrlStatus.PENDING, due_at=now + wait)
    return endings
