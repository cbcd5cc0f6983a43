"""One reading of a source: its kind does its work within the deadline, and what it yields is gathered."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import structlog

from headwater.core.clock import Clock
from headwater.core.errors import ExchangeFailed, HeadwaterError, LeaseLost
from headwater.core.politeness import KeyOf
from headwater.core.poll_plan import RequestedDelay
from headwater.core.reasons import Reason
from headwater.core.run import RunCounters
from headwater.core.source import DiscoveredUrl
from headwater.db import sources
from headwater.db.pool import Connection, Database, is_down
from headwater.db.sources import PollClaim
from headwater.discovery.deadline import Deadline
from headwater.discovery.save import Found, save_leads
from headwater.frontier.submit import Submitted
from headwater.politeness.gate import Gate
from headwater.politeness.request_rate import Pace
from headwater.politeness.worker_slots import WorkerSlot
from headwater.sandbox.pool import Sandbox
from headwater.sources.kind import Kind
from headwater.sources.run import Http, Run
from headwater.sources.validation import check_item, check_state, refuse_shared_paths

log = structlog.get_logger()
SavePart = Callable[[], Awaitable[None]]
OnLeads = Callable[[int], None]  # told how many leads have been submitted so far
_PART = 100  # items of a kind that is saved in parts
_SLICE = 2000  # leads submitted at once: a sitemap may list any number


@dataclass(frozen=True, slots=True)
class Part:
    """What was saved of a reading."""

    items: int = 0
    new_items: int = 0
    new_urls: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    handoff_ids: tuple[int, ...] | None = None  # None: nothing is handed off

    def __add__(self, other: "Part") -> "Part":
        ids = (self.handoff_ids, other.handoff_ids)
        return Part(
            self.items + other.items,
            self.new_items + other.new_items,
            self.new_urls + other.new_urls,
            {**self.refused, **other.refused},
            tuple(chain.from_iterable(filter(None, ids))) if ids != (None, None) else None,
        )


@dataclass(slots=True)
class Reading:
    """What a kind yields: its items are saved together at the end, its leads a slice at a time meanwhile.

    Of a kind that is saved in parts, `found` is what was not saved yet, and `saved` what was saved before.
    """

    memory: dict[str, Any]
    day: date | None = None  # the one that is read, of a source of dated days
    whole: bool = False  # whether all that is listed is to be read, also where that has not changed
    tally: RunCounters = field(default_factory=RunCounters)
    on_leads: OnLeads = lambda _: None
    found: list[Found] = field(default_factory=list)
    pending: list[DiscoveredUrl] = field(default_factory=list)
    leads: int = 0
    new_urls: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    learned: dict[str, Any] = field(default_factory=dict)
    asked: RequestedDelay | None = None
    left: int = 0
    saved: Part = field(default_factory=Part)
    saved_memory: dict[str, Any] | None = None  # what goes with the parts; None: nothing was saved


class Kept(NamedTuple):
    """What was saved of a reading that broke off."""

    items: int = 0
    handoff_ids: tuple[int, ...] | None = None


class DiscoveryRunner:
    """Runs the kinds of claimed sources."""

    def __init__(self, *, database: Database, gate: Gate, sandbox: Sandbox, clock: Clock, key_of: KeyOf) -> None:
        self._database = database
        self._gate = gate
        self._sandbox = sandbox
        self._clock = clock
        self._key_of = key_of

    async def read(
        self, claim: PollClaim, kind: Kind, reading: Reading, save_part: SavePart, slot: WorkerSlot | None = None
    ) -> None:
        """Let the kind do its work, within its deadline; a fault in it is told like any other.

        What it had found before is in the reading, whatever happens.
        """
        source = claim.source
        pace = Pace(self._database, self._clock, source.id, kind.gap, claim.first_request_at)
        deadline = Deadline(kind.deadline)
        while_waiting = partial(self._wait_for_budget, claim, deadline, save_part, slot)
        http = Http(
            self._gate,
            self._sandbox,
            kind,
            pace,
            kind.fetch_profile(source.name),
            while_waiting=while_waiting,
            slot=slot,
        )
        run = Run(
            http,
            reading.memory,
            self._clock.now(),
            claim.method,
            claim.backfill_since,
            reading.learned,
            day=reading.day,
            tally=reading.tally,
            whole=reading.whole,
        )
        try:
            async with deadline:
                await self._gather(claim, kind, run, reading, save_part)
            reading.asked, reading.left = run.asked, run.left
            if reading.memory != claim.state:
                check_state(source.name, reading.memory)
            refuse_shared_paths(source.name, reading.found)
        except HeadwaterError:
            raise
        except (Exception, SystemExit) as error:  # whatever a kind does, it ends nothing but its own run
            if deadline.has_passed:
                message = f"Reading {source.name} took longer than its deadline of {kind.deadline:g} seconds."
                raise ExchangeFailed(message, reason=Reason.TIMEOUT) from None
            if isinstance(error, Exception) and is_down(error):
                raise
            log.exception("discover.failed", source=source.name)
            raise HeadwaterError(f"{type(error).__name__}: {error}", reason=Reason.INTERNAL) from error

    @contextlib.asynccontextmanager
    async def _wait_for_budget(
        self, claim: PollClaim, deadline: Deadline, save_part: SavePart, slot: WorkerSlot | None, until: datetime
    ) -> AsyncIterator[None]:
        """Save the items so far, then pause the deadline and free the slot while a request waits for its budget."""
        await save_part()
        why = f"It waits for its budget; the next request may go at {until:%H:%M:%S} UTC."
        async with self._database.connection() as connection:
            await sources.save_wait_reason(connection, claim, why)
        with deadline.paused():
            async with slot.yielded() if slot else contextlib.nullcontext():
                yield

    async def _gather(self, claim: PollClaim, kind: Kind, run: Run, reading: Reading, save_part: SavePart) -> None:
        async for found in kind.discover(run):
            if len(reading.found) >= _PART:  # before the next is taken up, which the memory does not know yet
                await save_part()
            if isinstance(found, DiscoveredUrl):
                reading.pending.append(found)
            else:
                reading.found.append(Found(found, check_item(claim.source.name, kind, found)))
            if len(reading.pending) >= _SLICE:
                await self._submit_leads(claim, kind, reading)
                reading.on_leads(reading.leads)
        await self._submit_leads(claim, kind, reading)

    async def _submit_leads(self, claim: PollClaim, kind: Kind, reading: Reading) -> None:
        """Submit a slice: a reading that fails later, or dies, has lost nothing, and the next finds them known."""
        leads, reading.pending = reading.pending, []
        if not leads:
            return

        async def work(connection: Connection) -> Submitted:
            if not await sources.lock_poll(connection, claim):
                raise LeaseLost(f"The poll of {claim.source.name} took longer than its lease.")
            origin = kind.origin_of(claim.method)
            return await save_leads(connection, claim.source, kind, origin, leads, self._clock.now(), self._key_of)

        submitted = await self._database.transact(work)
        reading.leads += len(leads)
        reading.new_urls += submitted.new
        reading.refused.update(islice(submitted.refused.items(), _SLICE - len(reading.refused)))
