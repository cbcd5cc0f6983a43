"""The parts that state machines share: the application on a real database, by a clock that the machine sets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from headwater.app.runtime import Runtime, open_runtime
from headwater.core.settings import Settings
from headwater.db.context import DatabaseContext, open_database_context

START = datetime(2026, 3, 12, 12, 30, tzinfo=UTC)
Machine = Callable[[asyncio.AbstractEventLoop, Runtime, "SetClock"], RuleBasedStateMachine]


class SetClock:
    """A clock that a test sets for all instances."""

    def __init__(self) -> None:
        self.now_at = START
        self.is_settled = True

    def now(self) -> datetime:
        return self.now_at


@contextlib.asynccontextmanager
async def _open_clocked(made: Settings, clock: SetClock) -> AsyncIterator[Runtime]:
    """The runtime, by a clock that is set."""
    async with open_database_context(made) as context:
        clocked = DatabaseContext(context.settings, context.database, clock, context.holder)  # type: ignore[arg-type]
        async with open_runtime(clocked) as runtime:
            yield runtime


def run_machine(machine: Machine, made: Settings, examples: int, steps: int = 30) -> None:
    """Run the same examples of a machine every time."""
    clock = SetClock()
    with asyncio.Runner() as runner:
        opening = _open_clocked(made, clock)
        runtime = runner.run(opening.__aenter__())
        try:
            run_state_machine_as_test(
                lambda: machine(runner.get_loop(), runtime, clock),
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=steps,
                    deadline=None,
                    derandomize=True,
                    phases=[Phase.generate],
                ),
            )
        finally:
            runner.run(opening.__aexit__(None, None, None))
