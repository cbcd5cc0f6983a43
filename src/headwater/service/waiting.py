"""Waiting that a stop cuts short."""

import asyncio
from collections.abc import Collection


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
