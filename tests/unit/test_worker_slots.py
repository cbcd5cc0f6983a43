"""Worker slots: a worker that waits frees its slot (spec 3.2)."""

import asyncio
import random

import pytest

from headwater.politeness.worker_slots import WorkerSlot, WorkerSlots


async def run_tasks() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_worker_returns_from_its_wait_when_a_slot_is_free() -> None:
    slots, over, end = WorkerSlots(1), asyncio.Event(), asyncio.Event()
    steps = []

    async def wait(slot: WorkerSlot) -> None:
        async with slot.yielded():
            await over.wait()
        steps.append("back")

    async def work(_: WorkerSlot) -> None:
        await end.wait()
        steps.append("done")

    first = slots.start(wait)
    assert slots.free == 0
    await run_tasks()
    assert slots.free == 1
    second = slots.start(work)
    over.set()
    await run_tasks()
    assert steps == []
    end.set()
    await asyncio.gather(first, second)
    assert steps == ["done", "back"]


async def test_no_more_workers_work_than_there_are_slots() -> None:
    slots, chance, working, most = WorkerSlots(3), random.Random(7), 0, 0

    async def work(slot: WorkerSlot) -> None:
        nonlocal working, most
        for _ in range(5):
            working += 1
            most = max(most, working)
            await asyncio.sleep(0)
            working -= 1
            async with slot.yielded():
                await asyncio.sleep(chance.random() / 500)

    tasks: set[asyncio.Task[None]] = set()
    for _ in range(40):
        while not slots.free:
            await asyncio.sleep(0)
        tasks.add(slots.start(work))
    await asyncio.gather(*tasks)
    assert most == 3
    assert slots.free == 3


async def test_a_worker_that_is_cancelled_on_its_return_takes_no_slot_with_it() -> None:
    slots, over, never = WorkerSlots(1), asyncio.Event(), asyncio.Event()

    async def wait(slot: WorkerSlot) -> None:
        async with slot.yielded():
            await over.wait()

    async def work(_: WorkerSlot) -> None:
        await never.wait()

    first = slots.start(wait)
    await run_tasks()
    second = slots.start(work)
    await run_tasks()
    over.set()
    await run_tasks()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second.cancel()
    await run_tasks()
    assert slots.free == 1


async def test_a_worker_that_waits_for_several_requests_has_no_slot_until_the_last_wait_ends() -> None:
    slots, ends = WorkerSlots(1), [asyncio.Event(), asyncio.Event()]

    async def wait(slot: WorkerSlot, end: asyncio.Event) -> None:
        async with slot.yielded():
            await end.wait()

    async def work(slot: WorkerSlot) -> None:
        await asyncio.gather(*(wait(slot, end) for end in ends))
        await asyncio.Event().wait()

    worker = slots.start(work)
    await run_tasks()
    ends[0].set()
    await run_tasks()
    assert slots.free == 1
    ends[1].set()
    await run_tasks()
    assert slots.free == 0
    worker.cancel()
    await run_tasks()
    assert slots.free == 1


async def test_a_wait_that_outlives_its_worker_takes_no_slot() -> None:
    slots, over = WorkerSlots(1), asyncio.Event()
    waits = []

    async def wait(slot: WorkerSlot) -> None:
        async with slot.yielded():
            await over.wait()

    async def work(slot: WorkerSlot) -> None:
        waits.append(asyncio.create_task(wait(slot)))
        await run_tasks()

    await slots.start(work)
    over.set()
    await asyncio.gather(*waits)
    assert slots.free == 1


async def test_no_worker_is_wanted_while_too_many_wait() -> None:
    wanted: list[int] = []
    slots = WorkerSlots(1, most_waiting=1, on_free=lambda: wanted.append(1))
    over = asyncio.Event()

    async def wait(slot: WorkerSlot) -> None:
        async with slot.yielded():
            await over.wait()

    worker = slots.start(wait)
    await run_tasks()
    assert (slots.free, wanted) == (0, [])
    over.set()
    await worker
    await run_tasks()
    assert (slots.free, wanted != []) == (1, True)
