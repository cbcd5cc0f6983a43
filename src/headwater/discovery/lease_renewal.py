"""Keeping what is leased for as long as it is worked on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from headwater.core.clock import Clock
from headwater.core.errors import LeaseLost
from headwater.db import runs, sources
from headwater.db.pool import Database, is_down
from headwater.db.runs import RunClaim
from headwater.db.sources import PollClaim


@contextlib.asynccontextmanager
async def renewing(database: Database, clock: Clock, claim: PollClaim, run: RunClaim | None) -> AsyncIterator[None]:
    """Keep the lease while the block runs; the block is stopped when the lease is another's."""
    reading = asyncio.current_task()
    assert reading is not None
    length, until = claim.lease.until - clock.now(), claim.lease.until
    lost, pause = False, length.total_seconds() / 3
    renewing: list[asyncio.Task[None]] = []

    async def renew() -> None:
        nonlocal lost, until
        while True:
            wanted = clock.now() + length
            try:
                async with database.connection() as connection:
                    lost = not await sources.renew_poll(connection, claim, wanted)
                    if run and not lost:
                        lost = not await runs.renew_run(connection, run, wanted)
                until = wanted
            except Exception as error:
                if not is_down(error):
                    raise
                lost = clock.now() > until
            if lost:
                reading.cancel()
                return
            await asyncio.sleep(pause)

    # Most are over before that, and a timer costs next to nothing.
    begin = asyncio.get_running_loop().call_later(pause, lambda: renewing.append(asyncio.create_task(renew())))
    try:
        yield
    except asyncio.CancelledError:
        if lost and not reading.uncancel():
            raise LeaseLost(f"The poll of {claim.source.name} lost its lease.") from None
        raise
    finally:
        begin.cancel()
        for task in renewing:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
