"""Who works at once, and who only waits (spec 3.2)."""

import asyncio
import random

import pytest

from headwater.politeness.worker_slots import WorkerSlots, yield_slot


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_that_stands_aside_comes_back_when_there_is_a_place() -> None:
    places, over, end = WorkerSlots(1), asyncio.Event(), asyncio.Event()
    steps = []

    async def waits() -> None:
        async with yield_slot():
            await over.wait()
        steps.append("back")

    async def works() -> None:
        await end.wait()
        steps.append("done")

    first = places.start(waits())
    assert places.free == 0
    await turns()
    assert (places.free, len(places._aside)) == (1, 1)
    second = places.start(works())
    over.set()
    await turns()
    assert steps == []
    end.set()
    await asyncio.gather(first, second)
    assert steps == ["done", "back"]


async def test_never_more_are_at_work_than_there_are_places() -> None:
    places, chance, at_work, most_seen = WorkerSlots(3), random.Random(7), 0, 0

    async def work() -> None:
        nonlocal at_work, most_seen
        for _ in range(5):
            at_work += 1
            most_seen = max(most_seen, at_work)
            await asyncio.sleep(0)
            at_work -= 1
            async with yield_slot():
                await asyncio.sleep(chance.random() / 500)

    tasks: set[asyncio.Task[None]] = set()
    for _ in range(40):
        while not places.free:
            await asyncio.sleep(0)
        tasks.add(places.start(work()))
    await asyncio.gather(*tasks)
    assert most_seen == 3
    assert (places.free, len(places._aside)) == (3, 0)


async def test_one_that_is_cancelled_on_its_way_back_takes_no_place_with_it() -> None:
    places, over, never = WorkerSlots(1), asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        async with yield_slot():
            await over.wait()

    async def works() -> None:
        await never.wait()

    first = places.start(waits())
    await turns()
    second = places.start(works())
    await turns()
    over.set()
    await turns()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second.cancel()
    await turns()
    assert (places.free, len(places._aside)) == (1, 0)


async def test_who_does_nothing_with_a_place_is_not_counted() -> None:
    idle, never = set[object](), asyncio.Event()
    places = WorkerSlots(1, count_idle=lambda workers: len(idle.intersection(workers)))

    async def works() -> None:
        await never.wait()

    task = places.start(works())
    assert places.free == 0
    idle.add(task)
    assert places.free == 1
    task.cancel()
    await turns()


async def test_a_task_without_a_place_stands_aside_for_nobody() -> None:
    places = WorkerSlots(1)
    async with yield_slot():
        assert (places.free, len(places._aside)) == (1, 0)
    assert places.free == 1


async def test_while_too_many_stand_aside_nobody_is_called() -> None:
    called: list[int] = []
    places = WorkerSlots(1, most_aside=1, on_free=lambda: called.append(1))
    over = asyncio.Event()

    async def waiting() -> None:
        async with yield_slot():
            await over.wait()

    worker = places.start(waiting())
    while worker not in places._aside:
        await asyncio.sleep(0)
    called.clear()
    places.let_return()
    assert (places.free, called) == (0, [])
    over.set()
    await worker
    await asyncio.sleep(0)
    assert (places.free, called != []) == (1, True)
