"""For doors that ask one thing and leave: open what it takes, ask, close."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from headwater.config import Settings
from headwater.service.desk import Desk, Reader
from headwater.service.metrics import Metrics
from headwater.service.parts import open_parts, open_records

if TYPE_CHECKING:
    from headwater.model.canonical import CanonicalTotals

T = TypeVar("T")


async def with_reader(settings: Settings, ask: Callable[[Reader], Awaitable[T]]) -> T:
    """Ask something that needs only what is stored."""
    async with open_records(settings) as records:
        return await ask(Reader(records))


async def with_desk(settings: Settings, ask: Callable[[Desk], Awaitable[T]]) -> T:
    """Ask something that reaches out."""
    async with open_records(settings) as records, open_parts(records) as parts:
        return await ask(Desk(parts, Metrics()))


async def run_canonical(settings: Settings, totals: "CanonicalTotals") -> None:
    """Make canonical articles of what is new in any category, with fetchers of its own."""
    from headwater.service.canonical import run_now
    from headwater.service.running import crew_at_work

    async with open_records(settings) as records, open_parts(records) as parts:
        await run_now(parts, lambda: crew_at_work(parts, Metrics()), totals)
