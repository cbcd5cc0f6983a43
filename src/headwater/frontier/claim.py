"""Claims: host-first, leased."""

from datetime import datetime, timedelta

from headwater.core.frontier import Claim
from headwater.db import frontier, hosts
from headwater.db.pool import Database


async def claim(
    database: Database, *, now: datetime, lease: timedelta, holder: str, limit: int, default_delay_ms: int
) -> list[Claim]:
    """Claim up to `limit` URLs, each of another host, and hold those hosts."""
    claims, idle = await database.run(
        lambda connection: frontier.claim_urls(
            connection, now=now, until=now + lease, holder=holder, limit=limit, default_delay_ms=default_delay_ms
        )
    )
    if idle:
        # In a transaction of its own, so that it sees URLs submitted since the claim began to look.
        await database.transact(lambda connection: hosts.rest_hosts(connection, idle))
    return claims
