"""One poll: read the source, then save all it brought in one transaction, or nothing."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog

from headwater.core.clock import Clock
from headwater.core.errors import ExchangeFailed, HeadwaterError, LeaseLost, NotNow, OperatorError
from headwater.core.json_values import copy_json
from headwater.core.politeness import KeyOf
from headwater.core.poll import PollResult
from headwater.core.poll_plan import AdaptiveInterval, Failed, PollPlan, Read, RequestedDelay, is_overflow, plan_next
from headwater.core.reasons import BODY_REASONS, Reason, ReasonClass
from headwater.core.run import RunCounters
from headwater.core.source import Method, Source
from headwater.core.text import clean
from headwater.db import daily, runs, sources
from headwater.db.coalescer import Coalescer
from headwater.db.pool import Connection, Database, is_down
from headwater.db.runs import RunClaim, RunEnding
from headwater.db.sources import PollClaim, PollOutcome
from headwater.discovery.lease_renewal import renewing
from headwater.discovery.reader import DiscoveryRunner, Kept, OnLeads, Part, Reading
from headwater.discovery.save import category_of
from headwater.discovery.writer import DiscoveryWriter, words_of
from headwater.http.user_agents import BROWSER, CHROME_RELEASED, browser_is_stale
from headwater.politeness.gate import Gate
from headwater.politeness.worker_slots import WorkerSlot
from headwater.sandbox.pool import Sandbox
from headwater.sources.kind import Kind
from headwater.sources.registry import get_kind

log = structlog.get_logger()
_SITEMAP_REST = timedelta(hours=1)  # a feed may be too short at every poll
_LONGEST_ERROR = 2000
_SOON = timedelta(minutes=1)  # after a reading that has left something
# A pass that was asked for and failed is tried again after this; what runs by itself has its own interval.
_UNTIL_ASKED_AGAIN = timedelta(hours=1)

ShowLinks = Callable[[str], Awaitable[None]]


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
        show_links: ShowLinks | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._default_interval = timedelta(minutes=interval_minutes)
        self._key_of = key_of
        self._show_links = show_links
        self.news = asyncio.Event()  # a poll has brought something new
        self._keeper = DiscoveryWriter(database, clock, timezone, key_of)
        self._readers = DiscoveryRunner(database=database, gate=gate, sandbox=sandbox, clock=clock, key_of=key_of)
        self._settling = Coalescer(self._settle)

    async def poll(
        self,
        claim: PollClaim,
        *,
        run: RunClaim | None = None,
        tally: RunCounters | None = None,
        on_leads: OnLeads = lambda _: None,
        slot: WorkerSlot | None = None,
    ) -> PollResult:
        """Read a source and settle its claim, whatever happens short of losing the database.

        The claim's lease is renewed for as long as the reading goes on. A run that this is the reading of is renewed
        and ended together with it; one that is given back undone never was.
        """
        by_hand = run is not None and run.slot is None
        memory = copy_json(claim.state)
        reading = Reading(memory, run.day if run else None, by_hand, tally or RunCounters(), on_leads)
        kind = None
        try:
            kind = get_kind(claim.source)
            self._mind_the_agent(claim.source, kind)
            async with renewing(self._database, self._clock, claim, run):
                await self._readers.read(
                    claim, kind, reading, partial(self._keeper.save_part, claim, kind, reading, run), slot
                )
        except LeaseLost:
            raise
        except NotNow as error:
            await self._keeper.save_partial(claim, kind, reading, run)
            # What runs at a schedule keeps its slot; all else comes back when it may.
            waits = claim.method is not Method.FEED or (kind is not None and self._interval(kind, claim))
            until = error.until if waits else None
            await self.release(claim, until, _told(error), run=run, reason=error.reason)
            return PollResult(claim.source, error.reason, str(error), method=claim.method, deferred=True)
        except HeadwaterError as error:
            return await self._failed(claim, kind, error, reading, run)
        except asyncio.CancelledError:
            await asyncio.shield(self._stopped(claim, kind, reading, run))
            raise
        is_all_saved = not (run or reading.found or reading.learned or reading.saved.items)
        if is_all_saved and claim.fetch_profile == _fetch_profile_json(claim.source, kind):
            return await self._nothing_more(claim, kind, reading)
        try:
            polled = await self._database.transact(lambda connection: self._save(connection, claim, kind, reading, run))
        except LeaseLost:
            raise
        except HeadwaterError as error:
            return await self._failed(claim, kind, error, reading, run)
        except Exception as error:
            if is_down(error):
                raise
            log.exception("save.failed", source=claim.source.name)
            told = HeadwaterError(f"What was read cannot be saved: {words_of(error)}", reason=Reason.INTERNAL)
            return await self._failed(claim, kind, told, reading, run)
        if polled.new_items or polled.new_urls:
            self.news.set()
        if self._show_links and polled.items and (category := category_of(claim.source, kind)):
            await self._show_links(category)
        return polled

    async def _nothing_more(self, claim: PollClaim, kind: Kind, reading: Reading) -> PollResult:
        """End a poll after which there is nothing to save: most are so, and several end in one statement."""
        coming = self._plan(claim, kind, Read(), reading.asked, left=reading.left)
        brought_new = bool(reading.new_urls)
        ending = PollOutcome(
            coming, Reason.POLLED, None, 0, None, reading.memory, brought_new, is_unfinished=bool(reading.left)
        )
        if not await self._settling.submit((claim, ending)):
            raise LeaseLost(f"The poll of {claim.source.name} took longer than its lease.")
        if brought_new:
            self.news.set()
        return _polled(claim, reading)

    def _mind_the_agent(self, source: Source, kind: Kind) -> None:
        if kind.user_agent == BROWSER and browser_is_stale(self._clock.now().date()):
            log.warning("agent.stale", source=source.name, browser_of=CHROME_RELEASED.isoformat())

    async def release(
        self,
        claim: PollClaim,
        next_poll_at: datetime | None = None,
        why: str | None = None,
        *,
        run: RunClaim | None = None,
        reason: Reason = Reason.HOST_BUSY,
    ) -> None:
        """Give a claim back undone, at no cost to the source. A run at a slot never was; another has failed."""

        async def work(connection: Connection) -> None:
            await sources.release_poll(connection, claim, next_poll_at, why)
            if run and run.slot:
                await runs.drop_run(connection, run)
            elif run:
                await runs.end_run(connection, run, RunEnding(reason, why), self._clock.now())

        await self._database.transact(work)

    async def _stopped(self, claim: PollClaim, kind: Kind | None, reading: Reading, run: RunClaim | None) -> None:
        """Give a claim back in the middle of its reading; a run that had begun has failed, and its slot is free."""
        await self._keeper.save_partial(claim, kind, reading, run)

        async def work(connection: Connection) -> None:
            kept, _ = await self._keeper.keep_day(connection, claim, kind, reading, run) if run and run.day else Kept()
            kept += reading.saved.items
            await sources.release_poll(connection, claim, None, None)
            if run:
                await runs.end_run(
                    connection, run, RunEnding(Reason.SHUTDOWN, None, reading.tally, kept), self._clock.now()
                )

        await self._database.transact(work)

    async def _settle(self, endings: Sequence[tuple[PollClaim, PollOutcome]]) -> list[bool]:
        return await self._database.run(
            lambda connection: sources.finish_polls(connection, endings, self._clock.now(), unhurried=True)
        )

    async def _failed(
        self, claim: PollClaim, kind: Kind | None, error: HeadwaterError, reading: Reading, run: RunClaim | None
    ) -> PollResult:
        await self._keeper.save_partial(claim, kind, reading, run)
        ours = error.reason.kind is ReasonClass.OURS and error.reason not in BODY_REASONS
        wait = error.retry_after if isinstance(error, ExchangeFailed) else None
        asked = RequestedDelay(wait, "Retry-After") if wait else None
        coming = self._plan(claim, kind, Failed(ours), asked, is_hopeless=not error.retryable)
        errors = self._errors(claim, coming, ours=ours)
        memory = claim.state if reading.saved_memory is None else reading.saved_memory
        ending = PollOutcome(coming, error.reason, _told(error), errors, None, memory)
        kept, handoff_ids = reading.saved.items, reading.saved.handoff_ids
        if run:
            kept, handoff_ids = await self._database.transact(
                lambda connection: self._fail_run(connection, claim, kind, ending, reading, run)
            )
        else:
            await self._settling.submit((claim, ending))
        told = _polled(claim, reading)
        return replace(told, reason=error.reason, error=str(error), errors=errors, items=kept, handoff_ids=handoff_ids)

    async def _fail_run(
        self,
        connection: Connection,
        claim: PollClaim,
        kind: Kind | None,
        ending: PollOutcome,
        reading: Reading,
        run: RunClaim,
    ) -> Kept:
        """End a run that failed; what was read of a day is kept, and its index stays as it was."""
        saved = Kept(reading.saved.items, reading.saved.handoff_ids)
        kept = await self._keeper.keep_day(connection, claim, kind, reading, run) if run.day else saved
        await sources.finish_polls(connection, [(claim, ending)], self._clock.now())
        ended = RunEnding(ending.reason, ending.error, reading.tally, kept.items)
        await runs.end_run(connection, run, ended, self._clock.now())
        return kept

    def _errors(self, claim: PollClaim, coming: PollPlan | None, *, ours: bool) -> int:
        """Count the errors in a row. A pass that was only tried, since a feed was too short, has failed nobody."""
        if coming:
            return coming.errors
        return claim.consecutive_errors + (not ours) if claim.method is Method.FEED else 0

    def _plan(
        self,
        claim: PollClaim,
        kind: Kind | None,
        outcome: Read | Failed,
        asked: RequestedDelay | None,
        *,
        is_hopeless: bool = False,
        left: int = 0,
    ) -> PollPlan | None:
        """Say when the source is read next; None where it is not by itself, or no longer."""
        interval = self._interval(kind, claim) if kind else self._default_interval
        if interval is None and claim.backfill_since and isinstance(outcome, Failed) and not is_hopeless:
            interval = _UNTIL_ASKED_AGAIN
        if interval is None:
            return None
        if left:
            why = f"{left:,} are left for the next reading."
            return PollPlan(
                self._clock.now() + min(interval, _SOON), why, 0, AdaptiveInterval.from_json(claim.adaptive_interval)
            )
        return plan_next(
            self._clock.now(),
            base=interval,
            # Only a list has a pace: how much of it is new tells how often it changes.
            rhythm=AdaptiveInterval.from_json(claim.adaptive_interval) if claim.method is Method.FEED else None,
            errors=claim.consecutive_errors,
            outcome=outcome,
            asked=asked,
            chance=random.random(),  # noqa: S311 - spreads polls, guards nothing
        )

    def _interval(self, kind: Kind, claim: PollClaim) -> timedelta | None:
        return kind.methods(self._default_interval).get(claim.method)

    async def _save(
        self, connection: Connection, claim: PollClaim, kind: Kind, reading: Reading, run: RunClaim | None
    ) -> PollResult:
        now = self._clock.now()
        source = claim.source
        total = reading.saved + await self._keeper.save(connection, claim, kind, reading, run)
        if (profile := _fetch_profile_json(source, kind)) != claim.fetch_profile:
            await sources.save_fetch_profile(connection, source.id, profile)
        await self._learn(connection, source, reading.learned)
        read = Read(total.items, total.new_items)
        coming = self._plan(claim, kind, read, reading.asked, left=reading.left)
        ending = PollOutcome(
            coming,
            Reason.POLLED,
            None,
            0,
            total.items if reading.found or total.items else None,
            reading.memory,
            brought_new=bool(total.new_items or total.new_urls or reading.new_urls),
            is_unfinished=bool(reading.left),
        )
        await sources.finish_polls(connection, [(claim, ending)], now)
        new, latest = await self._end_run(connection, source, run, reading, total) if run else (None, None)
        overflowed = claim.method is Method.FEED and is_overflow(
            seen=total.items, new=total.new_items, known_before=claim.adaptive_interval is not None
        )
        if overflowed:
            why = "The feed was all new: what came and went between two polls is looked for."
            await sources.make_method_due(connection, source.id, Method.SITEMAP, now=now, rest=_SITEMAP_REST, why=why)
        return replace(
            _polled(claim, reading),
            items=total.items,
            new_items=total.new_items,
            new=new,
            latest=latest,
            overflowed=overflowed,
            new_urls=total.new_urls + reading.new_urls,
            refused={**reading.refused, **total.refused},
            handoff_ids=total.handoff_ids,
        )

    async def _end_run(
        self,
        connection: Connection,
        source: Source,
        run: RunClaim,
        reading: Reading,
        total: Part,
    ) -> tuple[int, int] | tuple[None, None]:
        """End a run that went well; return how many are NEW and LATEST in the day it has read."""
        counts = await daily.count_day(connection, source.id, run.day) if run.day else (None, None)
        ending = RunEnding(Reason.POLLED, _left_out(total.refused), reading.tally, total.items, *counts)
        if not await runs.end_run(connection, run, ending, self._clock.now()):
            raise LeaseLost(f"The run of {source.name} took longer than its lease.")
        return counts

    async def _learn(self, connection: Connection, source: Source, learned: dict[str, Any]) -> None:
        """Keep what a kind has found out of its source, unless another source has that feed."""
        if not learned:
            return
        if "feed_url" in learned:
            reader = await sources.find_feed_owner(connection, learned["feed_url"])
            if reader and reader != source.name:
                log.warning("learn.taken", source=source.name, feed_url=learned["feed_url"], read_by=reader)
                return
        try:
            get_kind(replace(source, settings={**source.settings, **learned}))
        except OperatorError as error:
            log.warning("learn.unusable", source=source.name, error=str(error))
            return
        await sources.merge_settings(connection, source.id, learned)
        log.info("learned", source=source.name, **learned)


def _told(error: Exception) -> str:
    """Return an error's words as they can be stored: a kind may quote whatever it met."""
    return clean(str(error))[:_LONGEST_ERROR]


def _left_out(refused: Mapping[str, str]) -> str | None:
    """Say what could not be kept, though all else was: nobody can be told that a day is complete without it."""
    if not refused:
        return None
    url, why = next(iter(refused.items()))
    return clean(f"{len(refused)} could not be kept, such as {url}: {why}")[:_LONGEST_ERROR]


def _fetch_profile_json(source: Source, kind: Kind) -> dict[str, Any]:
    return sources.fetch_profile_json(kind.fetch_profile(source.name), kind.gap, kind.selectors.given())


def _polled(claim: PollClaim, reading: Reading) -> PollResult:
    """Tell of a poll that went well, apart from its items."""
    return PollResult(
        claim.source,
        Reason.POLLED,
        method=claim.method,
        title=str(reading.memory.get("title") or ""),
        leads=reading.leads,
        left=reading.left,
        new_urls=reading.new_urls,
        refused=reading.refused,
    )
