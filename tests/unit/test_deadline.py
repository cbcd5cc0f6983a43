"""How long a reading may take (spec 1.1, 1.4)."""

import asyncio

import pytest

from headwater.discovery.deadline import Deadline


async def test_a_block_ends_at_its_deadline() -> None:
    deadline = Deadline(0.01)
    with pytest.raises(TimeoutError):
        async with deadline:
            await asyncio.Event().wait()
    assert deadline.has_passed


async def test_no_time_passes_while_anybody_waits() -> None:
    deadline = Deadline(0.05)
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(0.1, over.set)

    async def wait(first: asyncio.Event) -> None:
        with deadline.paused():
            await first.wait()
            with deadline.paused():
                await over.wait()

    async with deadline:
        at_once = asyncio.Event()
        at_once.set()
        await asyncio.gather(wait(at_once), wait(over))
    assert not deadline.has_passed


async def test_after_a_pause_what_was_left_is_left() -> None:
    deadline = Deadline(0.05)

    async def pause_and_hang() -> None:
        async with deadline:
            with deadline.paused():
                pass
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await pause_and_hang()
    assert deadline.has_passed
    with deadline.paused():
        pass  # too late to matter
