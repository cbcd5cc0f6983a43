"""The maintenance role: the one rescuer, the sweeper of idle hosts, and the clock."""

import asyncio
from collections.abc import Callable

import structlog

from headwater.frontier import rescue
from headwater.service.parts import Records
from headwater.service.waiting import wait_for
from headwater.store import runs, sources
from headwater.store.pool import Database, is_down

log = structlog.get_logger()
_SYNC_EVERY = 12  # looks


async def rescue_expired(records: Records) -> int:
    """Take every expired lease back, of whatever kind; return how many."""
    database, now = records.database, records.clock.now()
    rescued = await rescue.rescue_claims(database, now, records.settings.max_retries + 1)
    rescued += await rescue.rescue_holds(database, now)
    async with database.connection() as connection:
        rescued += await sources.return_expired_feeds(connection, now)
        rescued += await runs.return_expired_runs(connection, now)
    return rescued


class MaintenanceRole:
    """Looks after what others leave behind."""

    def __init__(
        self, records: Records, on_rescue: Callable[[int], None] = lambda _: None, *, look_seconds: float = 5.0
    ) -> None:
        self._records = records
        self._look_seconds = look_seconds
        self._on_rescue = on_rescue

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Look every few seconds until `stop`."""
        del grace_seconds
        looks = 0
        while not stop.is_set():
            try:
                await self._look(self._records.database, looks % _SYNC_EVERY == 0)
            except Exception as error:
                if not is_down(error):
                    raise
                log.warning("maintenance.failed", error=str(error))
            looks += 1
            await wait_for(stop, self._look_seconds)

    async def _look(self, database: Database, sync: bool) -> None:
        if sync:
            await self._records.clock.sync(database)
        rescued = await rescue_expired(self._records)
        if rescued:
            log.warning("leases.rescued", leases=rescued)
            self._on_rescue(rescued)
        forgotten = await rescue.wake_forgotten(database)
        if forgotten:
            log.warning("hosts.woken", hosts=forgotten)
