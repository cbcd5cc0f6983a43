"""Turns calls that arrive at the same time into one call for all of them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Coalescer(Generic[T, R]):
    """Runs `work` for batches. A lone call runs at once; calls that arrive meanwhile form the next batch."""

    def __init__(self, work: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> None:
        self._work = work
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._running: asyncio.Task[None] | None = None

    def submit(self, argument: T) -> asyncio.Future[R]:
        """Add an argument to the next batch and return its future result. A cancelled caller does not stop the work."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((argument, result))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return result

    async def _run(self) -> None:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                try:
                    results = await self._work([argument for argument, _ in batch])
                except Exception as error:  # noqa: BLE001 (each caller gets it)
                    for _, result in batch:
                        if not result.done():
                            result.set_exception(error)
                            result.exception()  # a cancelled caller does not read it
                else:
                    for (_, result), value in zip(batch, results, strict=True):
                        if not result.done():
                            result.set_result(value)
        finally:
            self._running = None
            for _, result in batch:
                result.cancel()  # without effect on a result that is there
