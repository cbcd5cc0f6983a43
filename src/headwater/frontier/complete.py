"""Finishes: fenced by the lease's token, so a holder that lost its lease changes nothing."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from headwater.core.frontier import Claim, Exchange, FetchOutcome, HostRelease
from headwater.db import frontier, hosts
from headwater.db.pool import Connection


@dataclass(frozen=True, slots=True)
class Finish:
    """A claim, how it ends, and how its host is given back."""

    claim: Claim
    ending: FetchOutcome
    release: HostRelease
    exchange: Exchange | None = None


async def still_held(connection: Connection, claims: Collection[Claim]) -> set[int]:
    """Tell which claims are still ours, by URL id, and lock them until the transaction ends."""
    return await frontier.hold_claims(connection, [(claim.url_id, claim.lease.token) for claim in claims])


async def finish(connection: Connection, finishes: Collection[Finish], now: datetime) -> None:
    """End claims that `still_held` has confirmed in this transaction: queue, log, host."""
    if not finishes:
        return
    back = await frontier.settle_claims(connection, [(done.claim.url_id, done.ending) for done in finishes], now)
    await frontier.log_fetches(
        connection, [(done.claim.url_id, done.claim.lease, done.ending, done.exchange) for done in finishes], now
    )
    released = await hosts.release_hosts(connection, [done.release for done in finishes])
    if left := back - released:  # by holders so late that their hosts were taken back already, but not their URLs
        await hosts.rest_hosts(connection, left)
