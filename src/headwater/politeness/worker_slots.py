"""Places for those at work at once: one who only waits for a host gives his away meanwhile."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar, copy_context
from typing import Any

Worker = asyncio.Task[Any]
# So many for each place may be on their way between the database and a place: they keep hosts from others meanwhile.
_ON_THE_WAY = 2


class WorkerSlots:
    """Counts the tasks it has started; so many are at work at once."""

    def __init__(
        self,
        most: int,
        *,
        most_aside: float = math.inf,
        count_idle: Callable[[Collection[Worker]], int] = lambda _: 0,
        on_free: Callable[[], None] = lambda: None,
    ) -> None:
        """Let so many work at once, not counting the idle among them; `on_free` is told when another may begin.

        None may while as many as `most_aside` wait aside.
        """
        self._most = most
        self._most_aside = most_aside
        self._count_idle = count_idle
        self._on_free = on_free
        self._context = copy_context()  # not that of whoever makes room for the next
        self._context.run(_places.set, self)
        self._at_work: set[Worker] = set()
        self._aside: set[Worker] = set()
        self._briefly: set[Worker] = set()  # of those
        self._returning: dict[Worker, asyncio.Future[None]] = {}  # in the order in which their waits ended

    @property
    def free(self) -> int:
        """How many may begin; those who come back go first."""
        if len(self._aside) >= self._most_aside:
            return 0
        unused, returning = self._unused(), len(self._returning)
        on_the_way = len(self._briefly) + returning
        return max(0, min(unused - returning, unused + _ON_THE_WAY * self._most - on_the_way))

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let a task begin; it has a place until it ends."""
        worker = asyncio.create_task(work, context=self._context.copy())
        self._at_work.add(worker)
        worker.add_done_callback(self._leave)
        return worker

    def _leave(self, worker: Worker) -> None:
        self._at_work.discard(worker)
        self.let_return()

    def let_return(self) -> None:
        """Let as many come back as there are places."""
        while self._returning and self._unused() > 0:
            worker = next(iter(self._returning))
            self._at_work.add(worker)
            place = self._returning.pop(worker)
            if not place.done():  # else he was cancelled
                place.set_result(None)
        if self.free:
            self._on_free()

    @contextlib.asynccontextmanager
    async def yield_slot(self, *, briefly: bool) -> AsyncIterator[None]:
        """Give this task's place away while the block waits; when that is over, wait for one."""
        worker = asyncio.current_task()
        if worker is None or worker not in self._at_work:
            yield
            return
        self._aside.add(worker)
        if briefly:
            self._briefly.add(worker)
        self._leave(worker)
        try:
            yield
            await self._return(worker)
        finally:  # one whose wait failed has only to clean up
            self._aside.discard(worker)
            self._briefly.discard(worker)
            self._at_work.add(worker)

    async def _return(self, worker: Worker) -> None:
        if self._unused() > len(self._returning):
            return
        self._briefly.discard(worker)  # counted among those who come back
        self._returning[worker] = asyncio.get_running_loop().create_future()
        try:
            await self._returning[worker]
        finally:
            self._returning.pop(worker, None)

    def _unused(self) -> int:
        return self._most - len(self._at_work) + self._count_idle(self._at_work)


_places: ContextVar[WorkerSlots | None] = ContextVar("_places", default=None)


def yield_slot(*, briefly: bool = False) -> AbstractAsyncContextManager[None]:
    """Let this task, if it has a place anywhere, give it away while the block waits."""
    places = _places.get()
    return places.yield_slot(briefly=briefly) if places else contextlib.nullcontext()
