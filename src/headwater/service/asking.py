"""For doors that ask one thing and leave: open what it takes, ask, close."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from headwater.config import Settings
from headwater.service.desk import Desk, Reader
from headwater.service.metrics import Metrics
from headwater.service.parts import open_parts, open_records

T = TypeVar("T")


async def with_reader(settings: Settings, ask: Callable[[Reader], Awaitable[T]]) -> T:
    """Ask something that needs only what is stored."""
    async with open_records(settings) as records:
        return await ask(Reader(records))


async def with_desk(settings: Settings, ask: Callable[[Desk], Awaitable[T]]) -> T:
    """Ask something that reaches out."""
    async with open_records(settings) as records, open_parts(records) as parts:
        return await ask(Desk(parts, Metrics()))
