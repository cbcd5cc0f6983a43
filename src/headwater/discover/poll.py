"""One poll: read the source, then save all it brought in one transaction, or nothing."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

import structlog

from headwater.discover.deadline import Deadline
from headwater.discover.saving import Found, rebuild_days, save_items, save_leads
from headwater.errors import ExchangeFailed, HeadwaterError, LeaseLost, NotNow, OperatorError
from headwater.frontier.submit import Submitted
from headwater.gate.gate import Gate
from headwater.gate.pace import Pace
from headwater.gate.together import Together
from headwater.model.clock import Clock
from headwater.model.poll import Polled
from headwater.model.reasons import Reason, ReasonClass
from headwater.model.source import Lead, Pass, Source
from headwater.policy.agents import BROWSER, CHROME_RELEASED, browser_is_stale
from headwater.policy.politeness import KeyOf
from headwater.policy.polling import Asked, Failed, Next, Read, Rhythm, is_overflow, plan_next
from headwater.policy.text import clean
from headwater.sandbox import Sandbox
from headwater.sources.kind import Kind
from headwater.sources.memory import check_state
from headwater.sources.registry import configure, kind_of
from headwater.sources.run import Http, Run
from headwater.sources.yielded import check_item, refuse_shared_places
from headwater.store import sources
from headwater.store.pool import Connection, Database, is_down
from headwater.store.sources import FeedClaim, PollEnding

log = structlog.get_logger()
Renew = Callable[[datetime], Awaitable[object]]
# What a source sends may be more than can be read: that is no fault of ours.
_ITS_BODY = frozenset({Reason.SANDBOX_TIMEOUT, Reason.SANDBOX_CRASHED, Reason.SANDBOX_OUTPUT})
OnLeads = Callable[[int], None]  # told how many leads have been submitted so far
_SITEMAP_REST = timedelta(hours=1)  # a feed may be too short at every poll
_LONGEST_ERROR = 2000
# A pass that was asked for and failed is tried again after this; what runs by itself has its own interval.
_UNTIL_ASKED_AGAIN = timedelta(hours=1)
_SLICE = 2000  # leads submitted at once: a sitemap may list any number


@dataclass(slots=True)
class _Reading:
    """What a kind yields: its items are saved together at the end, its leads a slice at a time meanwhile."""

    found: list[Found] = field(default_factory=list)
    pending: list[Lead] = field(default_factory=list)
    leads: int = 0
    new_urls: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    learned: dict[str, Any] = field(default_factory=dict)
    asked: Asked | None = None


class Poller:
    """Polls claimed sources."""

    def __init__(
        self,
        *,
        database: Database,
        gate: Gate,
        sandbox: Sandbox,
        clock: Clock,
        timezone: str,
        interval_minutes: int,
        key_of: KeyOf,
    ) -> None:
        self._database = database
        self._gate = gate
        self._sandbox = sandbox
        self._clock = clock
        self._timezone = timezone
        self._default_interval = timedelta(minutes=interval_minutes)
        self._key_of = key_of
        self._readings: dict[UUID, Deadline] = {}
        self._settling = Together(self._settle)

    def is_waiting(self, token: UUID) -> bool:
        """Tell whether a poll under way, known by its lease's token, waits for its budget."""
        return token in self._readings and self._readings[token].is_paused

    async def poll(
        self, claim: FeedClaim, renew_also: Renew | None = None, on_leads: OnLeads = lambda _: None
    ) -> Polled:
        """Read a source and settle its claim, whatever happens short of losing the database.

        The claim's lease is renewed for as long as the reading goes on; `renew_also` does the same for what the caller
        holds beside it.
        """
        memory = deepcopy(dict(claim.memory))
        kind = None
        try:
            kind = kind_of(claim.source)
            self._mind_the_agent(claim.source, kind)
            async with self._renewing(claim, renew_also):
                reading = await self._discover(claim, kind, memory, on_leads)
        except LeaseLost:
            raise
        except NotNow as error:
            # What runs at a schedule keeps its slot; all else comes back when it may.
            waits = claim.which is not Pass.MAIN or (kind is not None and self._interval(kind, claim))
            await self.release(claim, error.until if waits else None, _told(error))
            return Polled(claim.source, error.reason, str(error), which=claim.which, deferred=True)
        except HeadwaterError as error:
            return await self._failed(claim, kind, error)
        except asyncio.CancelledError:
            await asyncio.shield(self.release(claim))
            raise
        if not (reading.found or reading.learned) and claim.asking == _asking(claim.source, kind):
            return await self._nothing_more(claim, kind, reading, memory)
        try:
            return await self._database.transact(
                lambda connection: self._save(connection, claim, kind, reading, memory)
            )
        except LeaseLost:
            raise
        except HeadwaterError as error:
            return await self._failed(claim, kind, error)

    async def _nothing_more(self, claim: FeedClaim, kind: Kind, reading: _Reading, memory: dict[str, Any]) -> Polled:
        """End a poll after which there is nothing to save: most are so, and several end in one statement."""
        coming = self._plan(claim, kind, Read(), reading.asked)
        brought_new = bool(reading.new_urls)
        ending = PollEnding(coming, Reason.POLLED, None, 0, None, memory, brought_new=brought_new)
        if not await self._settling.do((claim, ending)):
            raise LeaseLost(f"The poll of {claim.source.name} took longer than its lease.")
        return _polled(claim, reading, memory)

    def _mind_the_agent(self, source: Source, kind: Kind) -> None:
        if kind.user_agent == BROWSER and browser_is_stale(self._clock.now().date()):
            log.warning("agent.stale", source=source.name, browser_of=CHROME_RELEASED.isoformat())

    async def _discover(self, claim: FeedClaim, kind: Kind, memory: dict[str, Any], on_leads: OnLeads) -> _Reading:
        """Let the kind do its work, within its deadline; a fault in it is told like any other."""
        source = claim.source
        pace = Pace(self._database, self._clock, source.id, kind.gap, claim.first_request_at)
        deadline = Deadline(kind.deadline)
        http = Http(self._gate, self._sandbox, kind, pace, kind.asker(source.name), while_waiting=deadline.paused)
        reading = _Reading()
        run = Run(http, memory, self._clock.now(), claim.which, claim.backfill_since, reading.learned)
        self._readings[claim.lease.token] = deadline
        try:
            async with deadline:
                async for found in kind.discover(run):
                    if isinstance(found, Lead):
                        reading.pending.append(found)
                    else:
                        reading.found.append(Found(found, check_item(source.name, kind, found)))
                    if len(reading.pending) >= _SLICE:
                        await self._submit_leads(claim, kind, reading)
                        on_leads(reading.leads)
                await self._submit_leads(claim, kind, reading)
            reading.asked = run.asked
            if memory != claim.memory:
                check_state(source.name, memory)
            refuse_shared_places(source.name, reading.found)
            return reading
        except HeadwaterError:
            raise
        except (Exception, SystemExit) as error:  # whatever a kind does, it ends nothing but its own run
            if deadline.has_passed:
                message = f"Reading {claim.source.name} took longer than its deadline of {kind.deadline:g} seconds."
                raise ExchangeFailed(message, reason=Reason.TIMEOUT) from None
            if isinstance(error, Exception) and is_down(error):
                raise
            log.exception("discover.failed", source=claim.source.name)
            raise HeadwaterError(f"{type(error).__name__}: {error}", reason=Reason.INTERNAL) from error
        finally:
            del self._readings[claim.lease.token]

    async def _submit_leads(self, claim: FeedClaim, kind: Kind, reading: _Reading) -> None:
        """Submit a slice: a reading that fails later, or dies, has lost nothing, and the next finds them known."""
        leads, reading.pending = reading.pending, []
        if not leads:
            return

        async def work(connection: Connection) -> Submitted:
            if not await sources.hold_feed(connection, claim):
                raise LeaseLost(f"The poll of {claim.source.name} took longer than its lease.")
            origin = kind.origin_of(claim.which)
            return await save_leads(connection, claim.source, kind, origin, leads, self._clock.now(), self._key_of)

        submitted = await self._database.transact(work)
        reading.leads += len(leads)
        reading.new_urls += submitted.new
        reading.refused.update(islice(submitted.refused.items(), _SLICE - len(reading.refused)))

    @contextlib.asynccontextmanager
    async def _renewing(self, claim: FeedClaim, renew_also: Renew | None) -> AsyncIterator[None]:
        """Keep the lease while the block runs; the block is stopped when the lease is another's."""
        reading = asyncio.current_task()
        assert reading is not None
        length, until = claim.lease.until - self._clock.now(), claim.lease.until
        lost = False

        async def renew() -> None:
            nonlocal lost, until
            while not lost:
                await asyncio.sleep(length.total_seconds() / 3)
                wanted = self._clock.now() + length
                try:
                    async with self._database.connection() as connection:
                        lost = not await sources.renew_feed(connection, claim, wanted)
                    if renew_also:
                        await renew_also(wanted)
                    until = wanted
                except Exception as error:
                    if not is_down(error):
                        raise
                    lost = self._clock.now() > until
            reading.cancel()

        renewing = asyncio.create_task(renew())
        try:
            yield
        except asyncio.CancelledError:
            if lost and not reading.uncancel():
                raise LeaseLost(f"The poll of {claim.source.name} lost its lease.") from None
            raise
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def release(self, claim: FeedClaim, next_poll_at: datetime | None = None, why: str | None = None) -> None:
        """Give a claim back undone, at no cost to the source."""
        async with self._database.connection() as connection:
            await sources.release_feed(connection, claim, next_poll_at, why)

    async def _settle(self, endings: Sequence[tuple[FeedClaim, PollEnding]]) -> list[bool]:
        return await self._database.run(lambda connection: sources.settle_feeds(connection, endings, self._clock.now()))

    async def _failed(self, claim: FeedClaim, kind: Kind | None, error: HeadwaterError) -> Polled:
        ours = error.reason.kind is ReasonClass.OURS and error.reason not in _ITS_BODY
        wait = error.retry_after if isinstance(error, ExchangeFailed) else None
        asked = Asked(wait, "Retry-After") if wait else None
        coming = self._plan(claim, kind, Failed(ours), asked, is_hopeless=not error.retryable)
        errors = self._errors(claim, coming, ours=ours)
        ending = PollEnding(coming, error.reason, _told(error), errors, None, claim.memory)
        await self._settling.do((claim, ending))
        return Polled(claim.source, error.reason, str(error), which=claim.which, errors=errors)

    def _errors(self, claim: FeedClaim, coming: Next | None, *, ours: bool) -> int:
        """Count the errors in a row. A pass that was only tried, since a feed was too short, has failed nobody."""
        if coming:
            return coming.errors
        return claim.consecutive_errors + (not ours) if claim.which is Pass.MAIN else 0

    def _plan(
        self,
        claim: FeedClaim,
        kind: Kind | None,
        outcome: Read | Failed,
        asked: Asked | None,
        *,
        is_hopeless: bool = False,
    ) -> Next | None:
        """Say when the source is read next; None where it is not by itself, or no longer."""
        interval = self._interval(kind, claim) if kind else self._default_interval
        if interval is None and claim.backfill_since and isinstance(outcome, Failed) and not is_hopeless:
            interval = _UNTIL_ASKED_AGAIN
        if interval is None:
            return None
        return plan_next(
            self._clock.now(),
            base=interval,
            # Only a list has a pace: how much of it is new tells how often it changes.
            rhythm=Rhythm.of(claim.rhythm) if claim.which is Pass.MAIN else None,
            errors=claim.consecutive_errors,
            outcome=outcome,
            asked=asked,
            chance=random.random(),  # noqa: S311 - spreads polls, guards nothing
        )

    def _interval(self, kind: Kind, claim: FeedClaim) -> timedelta | None:
        return kind.passes(self._default_interval).get(claim.which)

    async def _save(
        self, connection: Connection, claim: FeedClaim, kind: Kind, reading: _Reading, memory: dict[str, Any]
    ) -> Polled:
        now = self._clock.now()
        source = claim.source
        if not await sources.hold_feed(connection, claim):
            raise LeaseLost(f"The poll of {source.name} took longer than its lease.")
        if (asking := _asking(source, kind)) != claim.asking:
            await sources.keep_asking(connection, source.id, asking)
        saved, urls = await save_items(
            connection, source, kind, kind.origin_of(claim.which), reading.found, now, self._key_of
        )
        await rebuild_days(connection, source, kind.timezone or self._timezone, saved)
        await self._learn(connection, source, reading.learned)
        new_items = sum(item.is_new for item in saved)
        coming = self._plan(claim, kind, Read(len(saved), new_items), reading.asked)
        ending = PollEnding(
            coming,
            Reason.POLLED,
            None,
            0,
            len(saved) if reading.found else None,
            memory,
            brought_new=bool(new_items or urls.new or reading.new_urls),
        )
        await sources.settle_feeds(connection, [(claim, ending)], now)
        overflowed = claim.which is Pass.MAIN and is_overflow(
            seen=len(saved), new=new_items, known_before=claim.rhythm is not None
        )
        if overflowed:
            why = "The feed was all new: what came and went between two polls is looked for."
            await sources.ask_for_pass(connection, source.id, Pass.SITEMAP, now=now, rest=_SITEMAP_REST, why=why)
        return replace(
            _polled(claim, reading, memory),
            items=len(saved),
            new_items=new_items,
            overflowed=overflowed,
            new_urls=urls.new + reading.new_urls,
            refused={**reading.refused, **urls.refused},
        )

    async def _learn(self, connection: Connection, source: Source, learned: dict[str, Any]) -> None:
        """Keep what a kind has found out of its source, unless another source has that feed."""
        if not learned:
            return
        if "feed_url" in learned:
            reader = await sources.source_of_feed(connection, learned["feed_url"])
            if reader and reader != source.name:
                log.warning("learn.taken", source=source.name, feed_url=learned["feed_url"], read_by=reader)
                return
        try:
            configure(source.name, source.kind, {**source.settings, **learned})
        except OperatorError as error:
            log.warning("learn.unusable", source=source.name, error=str(error))
            return
        await sources.learn_settings(connection, source.id, learned)
        log.info("learned", source=source.name, **learned)


def _told(error: Exception) -> str:
    """Return an error's words as they can be stored: a kind may quote whatever it met."""
    return clean(str(error))[:_LONGEST_ERROR]


def _asking(source: Source, kind: Kind) -> dict[str, Any]:
    return sources.asking_of(kind.asker(source.name), kind.gap)


def _polled(claim: FeedClaim, reading: _Reading, memory: dict[str, Any]) -> Polled:
    """Tell of a poll that went well, apart from its items."""
    return Polled(
        claim.source,
        Reason.POLLED,
        which=claim.which,
        title=str(memory.get("title") or ""),
        leads=reading.leads,
        new_urls=reading.new_urls,
        refused=reading.refused,
    )
