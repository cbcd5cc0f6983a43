"""How long a reading may take."""

import asyncio
import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Self


class Deadline:
    """Ends the block under it after so many seconds, not counting those in which it is paused."""

    def __init__(self, seconds: float) -> None:
        self._limit = asyncio.timeout(seconds)
        self._left = seconds
        self._pauses = 0
        self._running = False

    @property
    def has_passed(self) -> bool:
        """Whether the block was ended by it."""
        return self._limit.expired()

    @property
    def is_paused(self) -> bool:
        """Whether anybody waits under it."""
        return self._pauses > 0

    async def __aenter__(self) -> Self:
        await self._limit.__aenter__()
        self._running = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running = False
        await self._limit.__aexit__(kind, error, trace)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time pass while any of these is open."""
        if self._pauses == 0 and self._is_counting():
            when = self._limit.when()
            assert when is not None, "only a pause takes it away"
            self._left = when - asyncio.get_running_loop().time()
            self._limit.reschedule(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0 and self._is_counting():
                self._limit.reschedule(asyncio.get_running_loop().time() + self._left)

    def _is_counting(self) -> bool:
        return self._running and not self._limit.expired()
