"""What is asked at the same time is asked once: holds and releases of hosts (spec 2.3)."""

import asyncio
from collections.abc import Sequence

import pytest

from headwater.db.coalescer import Coalescer


class Table:
    """Something that takes a while to ask."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.may_answer = asyncio.Event()
        self.error: Exception | None = None

    async def double(self, numbers: Sequence[int]) -> list[int]:
        self.asked.append(list(numbers))
        await self.may_answer.wait()
        if self.error:
            raise self.error
        return [number * 2 for number in numbers]


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_alone_waits_for_nobody_and_those_who_come_meanwhile_go_together() -> None:
    table = Table()
    together = Coalescer(table.double)
    first = asyncio.create_task(together.do(1))
    await turns()
    assert table.asked == [[1]]
    others = [asyncio.create_task(together.do(number)) for number in (2, 3, 4)]
    await turns()
    assert table.asked == [[1]]
    table.may_answer.set()
    assert await asyncio.gather(first, *others) == [2, 4, 6, 8]
    assert table.asked == [[1], [2, 3, 4]]
    assert await together.do(5) == 10


async def test_an_error_is_told_to_all_who_asked_and_to_nobody_later() -> None:
    table = Table()
    table.error = OSError("away")
    table.may_answer.set()
    together = Coalescer(table.double)
    answers = await asyncio.gather(together.do(1), together.do(2), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["away", "away"]
    table.error = None
    assert await together.do(3) == 6


async def test_what_a_cancelled_one_asked_for_is_done_all_the_same() -> None:
    table = Table()
    together = Coalescer(table.double)
    begun = asyncio.create_task(together.do(1))
    waiting = asyncio.create_task(together.do(2))
    await turns()
    for task in (begun, waiting):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    table.may_answer.set()
    assert await together.do(3) == 6
    assert [number for batch in table.asked for number in batch] == [1, 2, 3]


async def test_an_answer_that_was_cancelled_keeps_nobody_else_from_theirs() -> None:
    table = Table()
    together = Coalescer(table.double)
    answers = [together.begin(number) for number in (1, 2, 3)]
    await turns()
    answers[1].cancel()
    table.may_answer.set()
    assert await asyncio.gather(answers[0], answers[2]) == [2, 6]
    assert await together.do(4) == 8
