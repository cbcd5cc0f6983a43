"""The Coalescer turns calls that arrive at the same time into one (spec 2.3)."""

import asyncio
from collections.abc import Sequence

import pytest

from headwater.db.pool import Coalescer


class SlowTable:
    """Answers when the test allows it."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.may_answer = asyncio.Event()
        self.error: Exception | None = None

    async def double(self, numbers: Sequence[int]) -> list[int]:
        self.batches.append(list(numbers))
        await self.may_answer.wait()
        if self.error:
            raise self.error
        return [number * 2 for number in numbers]


async def run_tasks() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_lone_call_runs_at_once_and_later_calls_form_the_next_batch() -> None:
    table = SlowTable()
    coalescer = Coalescer(table.double)
    first = coalescer.submit(1)
    await run_tasks()
    assert table.batches == [[1]]
    others = [coalescer.submit(number) for number in (2, 3, 4)]
    await run_tasks()
    assert table.batches == [[1]]
    table.may_answer.set()
    assert await asyncio.gather(first, *others) == [2, 4, 6, 8]
    assert table.batches == [[1], [2, 3, 4]]
    assert await coalescer.submit(5) == 10


async def test_an_error_reaches_all_callers_of_its_batch_and_no_later_caller() -> None:
    table = SlowTable()
    table.error = OSError("away")
    table.may_answer.set()
    coalescer = Coalescer(table.double)
    answers = await asyncio.gather(coalescer.submit(1), coalescer.submit(2), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["away", "away"]
    table.error = None
    assert await coalescer.submit(3) == 6


async def test_the_work_of_a_cancelled_caller_is_done_all_the_same() -> None:
    table = SlowTable()
    coalescer = Coalescer(table.double)

    async def call(number: int) -> int:
        return await coalescer.submit(number)

    begun, waiting = asyncio.create_task(call(1)), asyncio.create_task(call(2))
    await run_tasks()
    for task in (begun, waiting):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    table.may_answer.set()
    assert await coalescer.submit(3) == 6
    assert [number for batch in table.batches for number in batch] == [1, 2, 3]


async def test_a_cancelled_result_does_not_disturb_the_others() -> None:
    table = SlowTable()
    coalescer = Coalescer(table.double)
    answers = [coalescer.submit(number) for number in (1, 2, 3)]
    await run_tasks()
    answers[1].cancel()
    table.may_answer.set()
    assert await asyncio.gather(answers[0], answers[2]) == [2, 6]
    assert await coalescer.submit(4) == 8
