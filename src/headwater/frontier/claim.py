"""Claims: a worker leases URLs, each of another host, and finishes them before its leases end (spec 2.3, 2.4)."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.core.frontier import Claim, FetchOutcome, HostRelease, RequestRecord
from headwater.db import frontier, hosts
from headwater.db.pool import Connection, Database


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a claim: its outcome, the release of its host, and its last request for the fetch log."""

    claim: Claim
    outcome: FetchOutcome
    release: HostRelease
    request: RequestRecord | None = None


async def claim(
    database: Database, *, now: datetime, lease: timedelta, holder: str, limit: int, default_delay_ms: int
) -> list[Claim]:
    """Claim up to `limit` URLs, each of another host, and lease those hosts."""
    claims, idle = await database.run(
        frontier.claim_urls, now=now, until=now + lease, holder=holder, limit=limit, default_delay_ms=default_delay_ms
    )
    if idle:
        # A transaction of its own sees URLs that came after the claim began to read.
        await database.transact(hosts.set_next_work, idle)
    return claims


async def finish(connection: Connection, finishes: Collection[Finish], now: datetime) -> None:
    """End claims that `lock_claims` has confirmed in this transaction: the queue, the log and the hosts."""
    if not finishes:
        return
    requeued = await frontier.settle_claims(connection, [(done.claim.url_id, done.outcome) for done in finishes], now)
    await frontier.log_fetches(
        connection, [(done.claim.url_id, done.claim.lease, done.outcome, done.request) for done in finishes], now
    )
    released = await hosts.release_hosts(connection, [done.release for done in finishes])
    if lost := requeued - released:  # the rescuer has taken back the host of a late claim, but not yet its URL
        await hosts.set_next_work(connection, lost)
