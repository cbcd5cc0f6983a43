"""Scheduled runs: a slot is run once, by whoever takes it first, and again by another if that one dies."""

from datetime import datetime, timedelta
from uuid import uuid4

from headwater.discover.poll import Poller
from headwater.model.clock import Clock
from headwater.model.lease import Lease
from headwater.model.poll import Polled
from headwater.model.source import Source
from headwater.store import runs, sources
from headwater.store.pool import Database


async def run_slot(
    database: Database, poller: Poller, source: Source, slot: datetime, *, clock: Clock, holder: str, lease: timedelta
) -> Polled | None:
    """Run a source's slot; None when another has it. One that cannot be run just now waits to be taken again."""
    now = clock.now()
    wanted = Lease(holder, uuid4(), now + lease, 1)
    async with database.connection() as connection:
        run = await runs.take_slot(connection, source, slot, wanted, now)
        if run is None:
            return None
        claims = await sources.claim_feeds(
            connection, now=now, until=wanted.until, holder=holder, limit=1, name=source.name
        )

    async def renew(until: datetime) -> None:
        async with database.connection() as connection:
            await runs.renew_run(connection, run, until)

    polled = None
    try:
        if claims:
            polled = await poller.poll(claims[0], renew)
    finally:
        async with database.connection() as connection:
            if polled is None or polled.deferred:
                await runs.give_back_run(connection, run)
            else:
                await runs.end_run(connection, run, polled.reason, polled.items, clock.now())
    return polled
