"""The concurrency of a source: its pages and its list requests together, in all processes (spec 11.6)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

import structlog

from headwater.core.clock import Clock
from headwater.db import permits
from headwater.db.permits import Permit
from headwater.db.pool import AWAY, Coalescer, Database
from headwater.politeness.worker_slots import WorkerSlot

log = structlog.get_logger()
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0  # seconds until a list request asks for a permit again


@dataclass(eq=False)
class SourcePermits:
    """Takes and frees the permits of sources. A permit of a process that died is free at its end."""

    database: Database
    clock: Clock

    def __post_init__(self) -> None:
        self._takes = Coalescer(self._take_all)
        self._frees = Coalescer(self._free_all)

    async def take(self, wanted: Collection[Permit]) -> set[UUID]:
        """Take permits. Return the tokens of those that were free."""
        return await self.database.run(permits.take_permits, wanted, self.clock.now())

    async def free(self, taken: Collection[Permit]) -> None:
        """Free permits. If the database is down, they are free at their ends."""
        try:
            await self.database.run(permits.free_permits, taken)
        except AWAY as error:
            log.warning("permits.not_freed", error=str(error))

    @contextlib.asynccontextmanager
    async def hold(self, source_id: int, length: timedelta, slot: WorkerSlot | None) -> AsyncIterator[bool]:
        """Hold a permit during the block, which gets whether it had to wait. The worker's slot is free meanwhile."""
        wait = _FIRST_WAIT
        while (permit := await self._try_take(source_id, length)) is None:
            async with slot.yielded() if slot else contextlib.nullcontext():
                await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)
        try:
            yield wait > _FIRST_WAIT
        finally:
            await self._frees.submit(permit)

    async def _try_take(self, source_id: int, length: timedelta) -> Permit | None:
        permit = Permit(source_id, uuid4(), self.clock.now() + length)
        answer = self._takes.submit(permit)
        try:
            return permit if await asyncio.shield(answer) else None
        except asyncio.CancelledError:
            await asyncio.shield(self._undo(permit, answer))
            raise

    async def _undo(self, permit: Permit, answer: asyncio.Future[bool]) -> None:
        if await answer:
            await self._frees.submit(permit)

    async def _take_all(self, wanted: Sequence[Permit]) -> list[bool]:
        taken = await self.take(wanted)
        return [permit.token in taken for permit in wanted]

    async def _free_all(self, taken: Sequence[Permit]) -> list[None]:
        await self.free(taken)
        return [None] * len(taken)
