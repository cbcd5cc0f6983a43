"""The deadline of a discovery (spec 1.1, 1.4)."""

import asyncio

import pytest

from headwater.discovery.discover import Deadline


async def test_pauses_do_not_count() -> None:
    timeout = asyncio.timeout(0.05)
    deadline = Deadline(timeout)
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(0.1, over.set)

    async def wait(first: asyncio.Event) -> None:
        with deadline.paused():
            await first.wait()
            with deadline.paused():
                await over.wait()

    async with timeout:
        at_once = asyncio.Event()
        at_once.set()
        await asyncio.gather(wait(at_once), wait(over))
    assert not timeout.expired()


async def test_the_time_left_continues_after_a_pause() -> None:
    timeout = asyncio.timeout(0.05)
    deadline = Deadline(timeout)

    async def pause_and_hang() -> None:
        async with timeout:
            with deadline.paused():
                pass
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await pause_and_hang()
    assert timeout.expired()
    with deadline.paused():
        pass  # a pause after the end has no effect
