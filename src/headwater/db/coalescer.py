"""What several ask of the database at the same time is asked once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Coalescer(Generic[T, R]):
    """Does for a batch what each would do alone: whoever comes while one batch is under way is part of the next.

    Nobody waits for company: one who comes alone is a batch of one, at once.
    """

    def __init__(self, work: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> None:
        self._work = work
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._working: asyncio.Task[None] | None = None

    async def do(self, part: T) -> R:
        """Do a part of the next batch; it is done even if the one who asked is cancelled meanwhile."""
        return await self.begin(part)

    def begin(self, part: T) -> asyncio.Future[R]:
        """Put a part into the next batch; return what will have its result."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((part, answer))
        if self._working is None:
            self._working = asyncio.create_task(self._do_all())
        return answer

    async def _do_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._do_batch(batch)
        finally:
            self._working = None

    async def _do_batch(self, batch: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await self._work([part for part, _ in batch])
        except Exception as error:  # noqa: BLE001 (whatever it is, it is told to all who asked)
            for answer in _awaited(batch):
                answer.set_exception(error)
                answer.exception()  # one who was cancelled does not look
        except BaseException:
            for _, answer in batch:
                answer.cancel()
            raise
        else:
            for (_, answer), result in zip(batch, results, strict=True):
                if not answer.done():
                    answer.set_result(result)


def _awaited(batch: Sequence[tuple[T, asyncio.Future[R]]]) -> list[asyncio.Future[R]]:
    """Return the answers that nobody has cancelled."""
    return [answer for _, answer in batch if not answer.done()]
