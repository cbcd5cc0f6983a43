"""Waiting that a stop cuts short."""

import asyncio
import contextlib


async def wait_for(stop: asyncio.Event, seconds: float) -> None:
    """Wait for a time, or until `stop`."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
