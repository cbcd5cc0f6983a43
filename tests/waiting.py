"""Waits until a condition holds."""

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import Any


async def until(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Wait until a condition, which may be a coroutine function, returns something true, and return that."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.005)
