"""How long this thread works without letting the loop go on."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def watched_work() -> AsyncIterator[list[float]]:
    """Record the CPU time that this thread uses between two turns of the event loop."""
    worked = [0.0]

    async def watch() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            worked.append(now - last)
            last = now

    watching = asyncio.create_task(watch())
    try:
        yield worked
    finally:
        watching.cancel()
        await asyncio.wait([watching])
