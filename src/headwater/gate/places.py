"""Places for those at work at once: one who only waits for a host's turn gives his away meanwhile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

Worker = asyncio.Task[Any]


class Places:
    """Counts tasks at work, `most` at once. Tasks that never took a place are not its business."""

    def __init__(self) -> None:
        self.most = 0
        self.given_away = asyncio.Event()  # somebody stands aside, so there may be a place
        self._at_work: set[Worker] = set()
        self._aside: set[Worker] = set()
        self._returning: dict[Worker, asyncio.Future[None]] = {}  # in the order in which their waits ended

    @property
    def free(self) -> int:
        """How many may begin; those who come back go first."""
        return max(0, self.most - len(self._at_work) - len(self._returning))

    @property
    def aside(self) -> int:
        """How many stand aside."""
        return len(self._aside)

    def take(self, worker: Worker) -> None:
        """Give a task a place until it leaves."""
        self._at_work.add(worker)

    def leave(self, worker: Worker) -> None:
        """Take a task's place back."""
        self._at_work.discard(worker)
        self._let_return()

    @contextlib.asynccontextmanager
    async def stand_aside(self) -> AsyncIterator[None]:
        """Give this task's place away while the block waits; when that is over, wait for one."""
        worker = asyncio.current_task()
        if worker is None or worker not in self._at_work:
            yield
            return
        self._aside.add(worker)
        self.leave(worker)
        self.given_away.set()
        try:
            yield
            await self._return(worker)
        finally:  # one whose wait failed has only to clean up
            self._aside.discard(worker)
            self._at_work.add(worker)

    async def _return(self, worker: Worker) -> None:
        if self.free:
            return
        self._returning[worker] = asyncio.get_running_loop().create_future()
        try:
            await self._returning[worker]
        finally:
            self._returning.pop(worker, None)

    def _let_return(self) -> None:
        while self._returning and len(self._at_work) < self.most:
            worker = next(iter(self._returning))
            self._at_work.add(worker)
            self._returning.pop(worker).set_result(None)
