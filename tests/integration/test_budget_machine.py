"""The hourly budget of a key under two processes, compared with a plain list of what was sent (spec 1.4)."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.app.runtime import Runtime
from headwater.core.api_budget import BUCKET, HOUR, ON_THE_WAY, Split
from headwater.core.http import Response
from headwater.core.settings import Settings
from headwater.politeness.api_budget import Budgets
from tests.integration.machines import START, SetClock, run_machine

HOST = "api.test"
SHARES = {"bills": 4, "hearings": 3, "crs": 9}  # together more than the limits below
LIMITS = (5, 8, 12)
LONGEST = HOUR + ON_THE_WAY + BUCKET

sources = st.sampled_from(sorted(SHARES))


class BudgetMachine(RuleBasedStateMachine):
    """Two processes with one key."""

    def __init__(self, loop: asyncio.AbstractEventLoop, runtime: Runtime, clock: SetClock) -> None:
        super().__init__()
        self.loop, self.database, self.clock = loop, runtime.context.database, clock
        clock.now_at = START
        self.processes = [Budgets(self.database, clock, "k" * 40, Split(SHARES)) for _ in range(2)]
        self.sent: list[tuple[datetime, str]] = []
        self.limit = LIMITS[-1]
        self.exhausted_until: datetime | None = None
        self.run(self.begin())

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    async def begin(self) -> None:
        async with self.database.connection() as connection:
            await connection.execute("TRUNCATE budgets, budget_spending")
        await self.processes[0].read_answer(HOST, self.answer(200, **{"x-ratelimit-limit": str(self.limit)}))

    def answer(self, status: int, **headers: str) -> Response:
        return Response(f"https://{HOST}/", status, headers, b"", self.clock.now(), 0.1)

    def count(self, source: str | None = None) -> int:
        since = self.clock.now() - HOUR
        return sum(at >= since and source in (None, by) for at, by in self.sent)

    @rule(which=st.integers(0, 1), source=sources, times=st.sampled_from([1, 20]))
    def a_process_asks(self, which: int, source: str, times: int) -> None:
        for _ in range(times):
            if again := self.run(self.processes[which].try_acquire(source, HOST)):
                self.check_refusal(source, again)
                return
            self.sent.append((self.clock.now(), source))
            assert self.exhausted_until is None or self.clock.now() >= self.exhausted_until
            assert self.count() <= self.limit
            assert self.count(source) <= SHARES[source]

    def check_refusal(self, source: str, again: datetime) -> None:
        """A refusal has a cause, and ends. Buckets count a little longer than an hour, and never shorter."""
        now = self.clock.now()
        since = now - LONGEST
        lately = [by for at, by in self.sent if at >= since]
        is_exhausted = self.exhausted_until is not None and self.exhausted_until > now
        assert is_exhausted or len(lately) >= self.limit or lately.count(source) >= SHARES[source]
        assert now < again <= max(now + LONGEST, self.exhausted_until or now)

    @rule(seconds=st.sampled_from([9, 1800, 3580, 3700]))
    def time_passes(self, seconds: int) -> None:
        self.clock.now_at += timedelta(seconds=seconds)

    @rule(which=st.integers(0, 1), limit=st.sampled_from(LIMITS))
    def the_host_reports_a_limit(self, which: int, limit: int) -> None:
        self.run(self.processes[which].read_answer(HOST, self.answer(200, **{"x-ratelimit-limit": str(limit)})))
        if limit > self.limit:
            self.exhausted_until = None
        self.limit = limit

    @rule(which=st.integers(0, 1), seconds=st.sampled_from([10, 300]))
    def the_host_has_nothing_left(self, which: int, seconds: int) -> None:
        self.run(self.processes[which].read_answer(HOST, self.answer(429, **{"retry-after": str(seconds)})))
        until = self.clock.now() + timedelta(seconds=seconds)
        self.exhausted_until = max(self.exhausted_until or until, until)

    @invariant()
    def old_buckets_are_removed(self) -> None:
        assert self.run(self.buckets()) <= len(SHARES) * 2 * LONGEST / BUCKET

    async def buckets(self) -> int:
        async with self.database.connection() as connection:
            count: int = await connection.fetchval("SELECT count(*) FROM budget_spending")
        return count

    def teardown(self) -> None:
        """After a quiet time each source has a request again."""
        self.clock.now_at += LONGEST
        for source in list(SHARES)[: self.limit]:
            assert self.run(self.processes[0].try_acquire(source, HOST)) is None


def test_no_hour_has_more_requests_than_the_limit_and_no_source_waits_indefinitely(
    make_settings: Callable[..., Settings],
) -> None:
    run_machine(BudgetMachine, make_settings(), 15)
