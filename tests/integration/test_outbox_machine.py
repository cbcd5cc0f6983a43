"""The outbox of a webhook under two deliverers that die and stall, and a receiver that fails in any way (spec 4.4)."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.app.maintenance import rescue_expired
from headwater.app.runtime import Runtime
from headwater.changes.operations import LiveWebhookOperations, NewWebhook
from headwater.changes.outbox import Outbox
from headwater.core.errors import LeaseLost
from headwater.core.settings import Settings
from headwater.db.changes import AT_ONCE, ClaimedDelivery
from tests.integration.machines import START, SetClock, run_machine
from tests.receiver import RESET, ReceiverServer
from tests.stored_rows import write_all

LEASE = timedelta(seconds=60)
NAMES = ("a", "b", "c")
# 404 parks the delivery, the others try it again.
answers = st.sampled_from([200, 200, 200, 404, 503, RESET, (429, {"Retry-After": "30"})])


class Deliverer:
    """One process, and the deliveries that it has claimed and not yet sent."""

    def __init__(self, runtime: Runtime, number: int) -> None:
        context = replace(runtime.context, holder=f"deliverer {number}")
        self.outbox = Outbox(context, runtime.outbox.sender)
        self.held: list[ClaimedDelivery] = []


class OutboxMachine(RuleBasedStateMachine):
    """Two deliverers and the dead ones. The machine compares all changes with those that the receiver took."""

    def __init__(self, loop: asyncio.AbstractEventLoop, runtime: Runtime, clock: SetClock) -> None:
        super().__init__()
        self.loop, self.runtime, self.clock = loop, runtime, clock
        clock.now_at = START
        self.receiver = ReceiverServer()
        self.revisions: defaultdict[str, int] = defaultdict(int)
        self.taken: defaultdict[str, list[int]] = defaultdict(list)  # the revisions that the receiver took, by document
        self.started = 0
        self.dead: list[Deliverer] = []
        self.alive = [self.start(), self.start()]
        self.run(self.begin())

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def start(self) -> Deliverer:
        self.started += 1
        return Deliverer(self.runtime, self.started)

    async def begin(self) -> None:
        await self.receiver.__aenter__()
        async with self.runtime.context.database.connection() as connection:
            await connection.execute("TRUNCATE sources, url_frontier, webhooks, changes CASCADE")
        webhook = NewWebhook("hook", self.receiver.url("hook"))
        self.webhooks = LiveWebhookOperations(self.runtime.context, self.runtime.outbox.sender)
        await self.webhooks.add(webhook)

    @rule(name=st.sampled_from(NAMES))
    def a_document_changes(self, name: str) -> None:
        self.revisions[name] += 1
        self.run(write_all(self.runtime.context.database, name, text=f"text {self.revisions[name]}"))

    @rule(which=st.integers(0, 1), limit=st.integers(1, 5))
    def a_deliverer_claims(self, which: int, limit: int) -> None:
        self.alive[which].held += self.run(self.alive[which].outbox.claim(limit))

    @precondition(lambda self: any(one.held for one in self.alive))
    @rule(answer=answers, data=st.data())
    def a_deliverer_sends(self, answer: Any, data: st.DataObject) -> None:
        busy = [one for one in self.alive if one.held]
        self.run(self.send(data.draw(st.sampled_from(busy)), answer))

    @precondition(lambda self: any(one.held for one in self.alive))
    @rule()
    def a_deliverer_with_deliveries_dies(self) -> None:
        which = next(which for which, one in enumerate(self.alive) if one.held)
        self.dead.append(self.alive[which])
        self.alive[which] = self.start()

    @precondition(lambda self: any(one.held for one in self.dead))
    @rule(answer=answers)
    def a_deliverer_that_was_thought_dead_sends(self, answer: Any) -> None:
        self.run(self.send(next(one for one in self.dead if one.held), answer))

    @rule(seconds=st.sampled_from([1, 30, 7200]))
    def time_passes(self, seconds: int) -> None:
        self.clock.now_at += timedelta(seconds=seconds)

    @rule(late=st.sampled_from([timedelta(0), LEASE]))
    def expired_leases_are_taken_back(self, late: timedelta) -> None:
        self.clock.now_at += late
        self.run(rescue_expired(self.runtime.context))

    @rule(retry=st.booleans())
    def an_operator_acts_on_parked_deliveries(self, retry: bool) -> None:
        act = self.webhooks.retry_parked if retry else self.webhooks.dismiss_parked
        self.run(act("hook", None))

    async def send(self, deliverer: Deliverer, answer: Any) -> None:
        delivery = deliverer.held.pop(0)
        heard = len(self.receiver.seen)
        self.receiver.behaviours["hook"] = [answer]
        try:
            await deliverer.outbox.deliver(delivery)
        except LeaseLost:
            assert len(self.receiver.seen) == heard, "a deliverer without its lease has sent"
            return
        (received,) = self.receiver.seen[heard:]
        if answer == 200:
            name, revision = received.document
            self.taken[name].append(revision)

    @invariant()
    def each_revision_is_taken_once_and_in_order(self) -> None:
        assert all(revisions == sorted(set(revisions)) for revisions in self.taken.values()), self.taken

    @invariant()
    def a_receiver_is_not_flooded(self) -> None:
        (leased,) = self.run(self.rows("SELECT count(*) FROM deliveries WHERE lease_token IS NOT NULL"))[0]
        assert leased <= AT_ONCE

    async def rows(self, query: str) -> list[Any]:
        async with self.runtime.context.database.connection() as connection:
            return list(await connection.fetch(query))

    def teardown(self) -> None:
        try:
            self.run(self.end())
        finally:
            self.run(self.receiver.__aexit__())

    async def end(self) -> None:
        """The dead do not return, and the receiver recovers. Only refused or dismissed deliveries are missing."""
        last = self.start()
        for _ in range(200):
            self.clock.now_at += 2 * LEASE
            await rescue_expired(self.runtime.context)
            last.held = await last.outbox.claim(10)
            for _ in range(len(last.held)):
                await self.send(last, 200)
            if not await self.rows("SELECT FROM deliveries WHERE status = 'pending'"):
                break
        self.each_revision_is_taken_once_and_in_order()
        refused = await self.rows("SELECT FROM deliveries WHERE status IN ('parked', 'dismissed')")
        if not refused:
            assert {name: taken[-1:] for name, taken in self.taken.items()} == {
                name: [last] for name, last in self.revisions.items()
            }
        missing = sum(self.revisions.values()) - sum(map(len, self.taken.values()))
        assert missing == len(refused)


def test_each_change_is_delivered_once_and_in_order(make_settings: Callable[..., Settings]) -> None:
    """Spec 4.4: a receiver that is down loses nothing, and a rejected document blocks no other."""
    run_machine(OutboxMachine, make_settings(lease_seconds=LEASE.total_seconds(), retry_base_seconds=1), 12, steps=50)
