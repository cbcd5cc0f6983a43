"""Slots under two schedulers that die, stall and come back at any moment (spec 1.2)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater import Item, Kind, Run
from headwater.app.maintenance import rescue_expired
from headwater.app.runtime import Runtime
from headwater.app.scheduler import SchedulerRole
from headwater.core.dates import day_before
from headwater.core.poll import PollResult
from headwater.core.settings import Settings
from headwater.core.source import Method
from headwater.db import sources
from tests import kinds
from tests.integration.machines import SetClock, run_machine

START = datetime(2026, 3, 12, 12, 30, tzinfo=UTC)
LEASE = timedelta(minutes=50)
ATTEMPTS = 3  # a slot that loses its holder so often is given up

# Runs under way, each at the point where it waits to be let go.
under_way: dict["asyncio.Task[Any] | None", asyncio.Event] = {}


class TickKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source whose runs last until they are let go."""

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        task = asyncio.current_task()
        under_way[task] = asyncio.Event()
        try:
            await under_way[task].wait()
        finally:
            del under_way[task]
        yield Item(url="http://news.test/a", title="a")


class DatedTickKind(TickKind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same of dated days: each slot that was missed is caught up with."""

    dated: ClassVar[bool] = True


class Scheduler:
    """One instance. It refreshes its jobs when the test says so, and does no more once it is dead."""

    def __init__(self, runtime: Runtime, done: list[PollResult]) -> None:
        self.role = SchedulerRole(runtime, done.append)
        self.keeper = AsyncIOScheduler(timezone=UTC)

    @property
    def runs(self) -> list["asyncio.Task[None]"]:
        return [task for task in self.role.runs if task in under_way]

    async def look(self) -> None:
        await self.role._refresh_jobs(self.keeper)
        await self.settle()

    async def let_go(self, run: "asyncio.Task[None]") -> None:
        """Let a run end, and wait until it has, or the next one of its source has begun in its place."""
        held = under_way[run]
        held.set()
        while not run.done() and under_way.get(run) in (None, held):
            await asyncio.sleep(0.001)

    async def settle(self) -> None:
        """Wait until every run has ended or waits to be let go."""
        while any(task not in under_way for task in self.role.runs):
            await asyncio.sleep(0.001)


class SlotsMachine(RuleBasedStateMachine):
    """Two instances and the dead ones. The rows are compared with the observed events."""

    kind = "tick"

    def __init__(self, loop: asyncio.AbstractEventLoop, runtime: Runtime, clock: SetClock) -> None:
        super().__init__()
        self.loop, self.runtime, self.clock = loop, runtime, clock
        self.clock.now_at = START
        self.done: list[PollResult] = []
        self.dead: list[Scheduler] = []
        self.expected: set[datetime] = set()  # the slots that somebody has seen
        self.alive = [self.start(), self.start()]
        self.run(self.begin())

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    async def begin(self) -> None:
        async with self.runtime.context.database.connection() as connection:
            await connection.execute("TRUNCATE sources CASCADE")
            settings = {"schedule": "0 * * * *", "timezone": "UTC", "fetch_items": False}
            assert await sources.add_source(connection, "tick", self.kind, settings, now=START, due={Method.FEED: None})

    def start(self) -> Scheduler:
        context = replace(self.runtime.context, holder=f"instance {len(self.dead)}-{id(self)}")
        return Scheduler(replace(self.runtime, context=context), self.done)

    @rule(which=st.integers(0, 1))
    def an_instance_looks(self, which: int) -> None:
        self.expect()
        self.run(self.alive[which].look())

    an_instance_looks_too = an_instance_looks

    def expect(self) -> None:
        hour = self.clock.now().replace(minute=0, second=0)
        if hour > START:
            self.expected.add(hour)  # earlier slots that no instance saw are missed, and coalesce with it

    @rule(seconds=st.sampled_from([60, 1800, 3600, 2 * 3600, 5 * 3600]))
    def time_passes(self, seconds: int) -> None:
        self.clock.now_at += timedelta(seconds=seconds)

    @precondition(lambda self: any(instance.runs for instance in self.alive))
    @rule()
    def a_run_comes_to_its_end(self) -> None:
        instance = next(instance for instance in self.alive if instance.runs)
        self.run(instance.let_go(instance.runs[0]))

    @rule(which=st.integers(0, 1))
    def an_instance_dies_and_is_started_again(self, which: int) -> None:
        self.dead.append(self.alive[which])
        self.alive[which] = self.start()

    @precondition(lambda self: any(instance.runs for instance in self.dead))
    @rule()
    def one_that_was_thought_dead_goes_on(self) -> None:
        instance = next(instance for instance in self.dead if instance.runs)
        self.run(instance.let_go(instance.runs[0]))

    @rule(late=st.sampled_from([timedelta(0), LEASE]))
    def what_has_expired_is_taken_back(self, late: timedelta) -> None:
        self.clock.now_at += late
        self.run(rescue_expired(self.runtime.context))

    @invariant()
    def every_slot_is_run_once_and_no_two_at_a_time(self) -> None:
        self.run(self.compare())

    async def compare(self) -> None:
        now, rows = self.clock.now(), await self.rows()
        ran = Counter(row["slot"] for row in rows if row["status"] == "succeeded")
        assert {row["slot"] for row in rows} <= self.expected
        assert ran.total() == len(ran) == len(self.done)
        assert all(polled.error is None for polled in self.done)
        assert sum(row["lease_until"] is not None and row["lease_until"] > now for row in rows) <= 1
        assert all(row["reason"] == "worker_lost" for row in rows if row["status"] == "failed")
        lost = Counter(row["slot"] for row in rows if row["status"] == "failed")
        assert all(count <= ATTEMPTS for count in lost.values())

    async def rows(self) -> list[Any]:
        async with self.runtime.context.database.connection() as connection:
            return list(await connection.fetch("SELECT * FROM runs"))

    def teardown(self) -> None:
        self.run(self.end())

    async def end(self) -> None:
        """A dead instance does not return. The living continue until no work is left."""
        for instance in self.alive:
            while instance.runs:
                await instance.let_go(instance.runs[0])
        self.clock.now_at += LEASE + timedelta(seconds=1)
        await rescue_expired(self.runtime.context)
        self.expect()
        last = self.alive[0]
        await last.look()
        while last.runs:
            while last.runs:
                await last.let_go(last.runs[0])
            await last.look()
        rows = await self.rows()
        left = [row for row in rows if row["status"] == "running"]
        owed = [[row["status"] for row in rows if row["slot"] == slot] for slot in self.owed()]
        stuck = [run for instance in self.dead for run in instance.runs]
        for run in stuck:
            run.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        assert left == []
        assert all("succeeded" in ends or len(ends) == ATTEMPTS for ends in owed)
        await self.compare()

    def owed(self) -> set[datetime]:
        """The slots that must have been run in the end."""
        return {max(self.expected)}


class DatedSlotsMachine(SlotsMachine):
    """The same with a source of dated days, which owes every slot since it was added."""

    kind = "dated"

    def expect(self) -> None:
        hours = (self.clock.now() - START) // timedelta(hours=1) + 1
        slots = {START.replace(minute=0) + timedelta(hours=hour + 1) for hour in range(hours)}
        self.expected |= {slot for slot in slots if slot <= self.clock.now()}

    def owed(self) -> set[datetime]:
        return self.expected

    async def compare(self) -> None:
        self.expect()  # an instance that ends a run starts the next by itself
        await super().compare()
        rows = await self.rows()
        assert all(row["day"] == day_before(row["slot"], "UTC") for row in rows)


@pytest.mark.parametrize(
    ("kind", "machine", "examples"), [(TickKind, SlotsMachine, 30), (DatedTickKind, DatedSlotsMachine, 15)]
)
def test_every_slot_is_run_once_even_if_instances_die(
    make_settings: Callable[..., Settings],
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Kind],
    machine: type[SlotsMachine],
    examples: int,
) -> None:
    """Spec 1.2: two instances never run a slot twice, a dead one's is run again, missed ones coalesce.

    Missed slots of a source of dated days do not (spec 6.3): each is run, or given up after three losses.
    """
    kinds.install(monkeypatch, machine.kind, kind)
    run_machine(machine, make_settings(lease_seconds=LEASE.total_seconds()), examples)
