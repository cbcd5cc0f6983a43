"""Slots limit how many workers work at once. A worker that waits for its turn frees its slot meanwhile."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headwater.core.clock import Clock

# For each slot, this many workers may wait for a database or for a free slot. They keep hosts from others meanwhile.
_BRIEF_WAITS_PER_SLOT = 2


@dataclass(eq=False)
class WorkerSlots:
    """Starts workers and limits how many of them work at once.

    No worker may start while `most_waiting` workers wait. `on_free` runs when another worker may start.
    """

    count: int
    most_waiting: float = math.inf
    on_free: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._working: set[WorkerSlot] = set()
        self._waiting: set[WorkerSlot] = set()
        self._waiting_briefly: set[WorkerSlot] = set()  # a part of the waiting workers
        self._returning: dict[WorkerSlot, asyncio.Future[None]] = {}  # in the order in which their waits ended

    @property
    def free(self) -> int:
        """How many workers may start. Workers that return from a wait go first."""
        if len(self._waiting) >= self.most_waiting:
            return 0
        unused, returning = self.count - len(self._working), len(self._returning)
        brief = len(self._waiting_briefly) + returning
        return max(0, min(unused - returning, unused + _BRIEF_WAITS_PER_SLOT * self.count - brief))

    def start(self, work: "Callable[[WorkerSlot], Coroutine[Any, Any, None]]") -> asyncio.Task[None]:
        """Start a worker. It has its slot until it ends, except during its waits."""
        slot = WorkerSlot(self)
        self._working.add(slot)
        worker = asyncio.create_task(work(slot))
        worker.add_done_callback(lambda _: self._end(slot))
        return worker

    def _end(self, slot: "WorkerSlot") -> None:
        slot.is_over = True
        self._free(slot)

    def _free(self, slot: "WorkerSlot") -> None:
        self._working.discard(slot)
        while self._returning and len(self._working) < self.count:
            returning = next(iter(self._returning))
            self._working.add(returning)
            granted = self._returning.pop(returning)
            if not granted.done():  # a cancelled worker no longer waits
                granted.set_result(None)
        if self.free:
            self.on_free()

    async def _retake(self, slot: "WorkerSlot") -> None:
        if slot in self._working or len(self._working) + len(self._returning) < self.count:
            return
        self._waiting_briefly.discard(slot)  # `free` counts it as returning
        self._returning[slot] = asyncio.get_running_loop().create_future()
        try:
            await self._returning[slot]
        finally:
            self._returning.pop(slot, None)


class WorkerSlot:
    """The slot of one worker. Code that waits for the worker frees the slot through this object."""

    def __init__(self, slots: WorkerSlots) -> None:
        self._slots = slots
        self._waits = 0  # a worker may wait for several requests at once
        self.is_over = False

    @contextlib.asynccontextmanager
    async def yielded(self, *, briefly: bool = False) -> AsyncIterator[None]:
        """Free the slot while the block waits. After the block, wait for a free slot."""
        slots = self._slots
        self._waits += 1
        slots._waiting.add(self)
        if briefly and self._waits == 1:
            slots._waiting_briefly.add(self)
        if self in slots._working:
            slots._free(self)
        try:
            yield
            if self._waits == 1:
                await slots._retake(self)
        finally:  # after an error, the worker only cleans up
            self._waits -= 1
            if self._waits == 0:
                slots._waiting.discard(self)
                slots._waiting_briefly.discard(self)
                if not self.is_over:
                    slots._working.add(self)


async def wait_until(moment: datetime, clock: Clock, slot: WorkerSlot | None = None) -> None:
    """Wait until a moment by the clock; free the worker's slot meanwhile."""
    async with slot.yielded() if slot else contextlib.nullcontext():
        while (seconds := (moment - clock.now()).total_seconds()) > 0:
            await asyncio.sleep(seconds)
