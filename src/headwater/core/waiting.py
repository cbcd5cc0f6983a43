"""Waiting that a stop cuts short, or must not."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractContextManager
from typing import Any, TypeVar

T = TypeVar("T")


async def wait_for(stop: asyncio.Event, seconds: float) -> None:
    """Wait for a time, or until `stop`."""
    await wait_for_any((stop,), seconds)


async def wait_for_any(events: Collection[asyncio.Event], seconds: float) -> None:
    """Wait for a time, or until one of the events."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def finish_or_cancel(tasks: Collection[asyncio.Task[T]], grace_seconds: float) -> set[asyncio.Task[T]]:
    """Wait until the tasks end. Cancel the tasks that still run after the grace, and return them once they end."""
    late: set[asyncio.Task[T]] = set()
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=grace_seconds)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return late


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Run in a thread what blocks on the disk; one who is stopped meanwhile waits until it lets go of it."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


@contextlib.asynccontextmanager
async def in_threads(context: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave in threads what blocks on the disk; one who is stopped meanwhile leaves it all the same."""
    entered = contextlib.ExitStack()
    try:
        yield await in_thread(entered.enter_context, context)
    except BaseException as error:
        if not await in_thread(entered.__exit__, type(error), error, error.__traceback__):
            raise
    else:
        await in_thread(entered.close)
