"""One poll: discover what a source lists, and save its items in one transaction, or none of them."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import structlog

from headwater.core import politeness
from headwater.core.dates import bounds
from headwater.core.errors import ExchangeFailed, HeadwaterError, LeaseLost, NotNow, OperatorError
from headwater.core.poll import PollPlan, PollResult, RequestedDelay, describe_older
from headwater.core.reasons import BODY_REASONS, Reason, ReasonClass
from headwater.core.run import RunCounters
from headwater.core.source import Method, Source
from headwater.core.text import clean
from headwater.db import history, items, runs, sources
from headwater.db.context import DatabaseContext
from headwater.db.pool import Coalescer, Connection, is_down
from headwater.db.runs import RunClaim, RunEnding
from headwater.db.sources import PollClaim, PollOutcome
from headwater.discovery.decide import Failed, Read, is_failed_wait, is_overflow, plan_next_poll
from headwater.discovery.discover import DiscoveryRunner, keep_lease
from headwater.discovery.save import DiscoveryResult, DiscoveryWriter, SaveResult
from headwater.feeds.flaws import read_flaws
from headwater.http.user_agents import BROWSER, CHROME_RELEASED, browser_is_stale
from headwater.politeness.gate import Gate
from headwater.politeness.source_permits import SourcePermits
from headwater.politeness.worker_slots import WorkerSlot
from headwater.sandbox.pool import Sandbox
from headwater.sources.kind import Kind
from headwater.sources.registry import category_of, get_kind
from headwater.sources.visit import SiteVisit

log = structlog.get_logger()
_SITEMAP_PAUSE = timedelta(hours=1)  # between two polls of sitemaps for feeds that overflow
_MAX_ERROR_LENGTH = 2000
_SOON = timedelta(minutes=1)  # until the rest of an unfinished discovery is read
_BACKFILL_RETRY = timedelta(hours=1)  # for a failed backfill of a source that has no interval

ShowLinks = Callable[[str], Awaitable[None]]  # of a category


class Poller:
    """Polls claimed sources."""

    def __init__(self, context: DatabaseContext, *, gate: Gate, sandbox: Sandbox, show_links: ShowLinks | None) -> None:
        database, clock, settings = context.database, context.clock, context.settings
        self._database = database
        self._clock = clock
        self._default_interval = timedelta(minutes=settings.poll_interval_minutes)
        self._show_links = show_links
        self.found_new = asyncio.Event()  # set when a poll has found a new item or URL
        key_of = politeness.KEYS[settings.politeness_scope]
        self._writer = DiscoveryWriter(database, clock, settings.timezone, key_of)
        self._runner = DiscoveryRunner(
            database=database,
            gate=gate,
            sandbox=sandbox,
            clock=clock,
            writer=self._writer,
            permits=SourcePermits(database, clock),
        )
        self._unchanged = Coalescer(self._finish_polls)

    async def poll(
        self,
        claim: PollClaim,
        *,
        run: RunClaim | None = None,
        counters: RunCounters | None = None,
        on_urls: Callable[[int], None] = lambda _: None,
        slot: WorkerSlot | None = None,
        visit: SiteVisit | None = None,
    ) -> PollResult:
        """Poll a source and end its claim and its run. If the database is lost, their leases expire instead.

        Raises LeaseLost if another process has taken the source over. `on_urls` gets the number of URLs found so far.
        With `visit`, the requests belong to that visit.
        """
        state: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(claim.state))  # a copy
        kind, interval, now = Kind(), self._default_interval, self._clock.now()
        counters = counters or RunCounters()
        found = DiscoveryResult(claim, kind, run, kind.origin, interval, state, counters, on_urls, visit)
        profile: Mapping[str, Any] = {}
        try:
            found.kind = kind = get_kind(claim.source)
            profile = kind.fetch_profile_json(claim.source.name)
            found.origin = kind.origin_of(claim.method)
            found.interval = kind.methods(interval).get(claim.method)
            if kind.user_agent == BROWSER and browser_is_stale(now.date()):
                log.warning("agent.stale", source=claim.source.name, browser_of=CHROME_RELEASED.isoformat())
            async with keep_lease(self._database, self._clock, claim, run):
                await self._runner.execute(found, slot)
        except LeaseLost:
            raise
        except NotNow as error:
            return await self._defer(found, error)
        except HeadwaterError as error:
            return await self._end_failed(found, error)
        except asyncio.CancelledError:
            await asyncio.shield(self._end_cancelled(found))
            raise
        _log_flaws(found)
        has_more = run or found.items or found.learned or found.saved.items or claim.fetch_profile != profile
        if not has_more:
            return await self._end_unchanged(found)
        try:
            result = await self._database.transact(self._save, found, profile)
        except LeaseLost:
            raise
        except HeadwaterError as error:
            return await self._end_failed(found, error)
        except Exception as error:
            if is_down(error):
                raise
            log.exception("save.failed", source=claim.source.name)
            message = f"The items cannot be saved: {type(error).__name__}: {error}"
            return await self._end_failed(found, HeadwaterError(message, reason=Reason.INTERNAL))
        if result.new_items or result.new_urls:
            self.found_new.set()
        if self._show_links and result.items and (category := category_of(claim.source, found.kind)):
            await self._show_links(category)
        return result

    async def release(
        self,
        claim: PollClaim,
        next_poll_at: datetime | None = None,
        why: str | None = None,
        *,
        run: RunClaim | None = None,
        reason: Reason = Reason.HOST_BUSY,
    ) -> None:
        """Release a claim as if it had not been made. A run for a slot is deleted, and any other run fails."""

        async def work(connection: Connection) -> None:
            await sources.release_poll(connection, claim, next_poll_at, why)
            if run:
                await _release_run(connection, run, RunEnding(reason, why), self._clock.now())

        await self._database.transact(work)

    async def _defer(self, found: DiscoveryResult, error: NotNow) -> PollResult:
        """Put a poll off. A feed that is read at a schedule keeps its slot. Other polls wait as long as necessary.

        The poll has failed, unless its host is busy for a short time or the visit that it is a part of is over.
        """
        await self._writer.save_partial(found)
        claim, run, now = found.claim, found.run, self._clock.now()
        keeps_slot = claim.method is Method.FEED and found.interval is None
        result = PollResult(claim.source, error.reason, str(error), method=claim.method, deferred=True)
        unread = now - (claim.last_success_at or claim.source.created_at)
        is_over = found.visit is not None and found.visit.is_over
        if is_over or not is_failed_wait(error.reason, error.until - now, unread, found.interval):
            next_poll_at = None if keeps_slot else error.until
            await self.release(claim, next_poll_at, _storable(str(error)), run=run, reason=error.reason)
            return result
        # The scheduler tries a slot again and again, so these attempts count as one.
        errors = max(claim.consecutive_errors, 1) if keeps_slot else claim.consecutive_errors + 1
        detail = _storable(error.lasting_message)
        plan = None if keeps_slot else PollPlan(error.until, _explain_wait(error), errors, claim.adaptive_interval)
        state = claim.state if found.saved_state is None else found.saved_state
        outcome = PollOutcome(plan, error.reason, detail, errors, None, state, is_unfinished=True)

        async def work(connection: Connection) -> None:
            await sources.finish_polls(connection, [(claim, outcome)], now)
            if run:
                await _release_run(connection, run, RunEnding(error.reason, detail), now)

        await self._database.transact(work)
        return replace(result, errors=errors)

    async def _end_unchanged(self, found: DiscoveryResult) -> PollResult:
        """End a poll without anything to save. One statement ends all such polls of a moment."""
        has_new = bool(found.new_urls)
        plan = self._plan(found, Read(), found.requested_delay)
        outcome = PollOutcome(
            plan, Reason.POLLED, None, 0, None, found.state, has_new, bool(found.left), new_urls=found.new_urls
        )
        if not await self._unchanged.submit((found.claim, outcome)):
            raise LeaseLost(f"The poll of {found.claim.source.name} took longer than its lease.")
        if has_new:
            self.found_new.set()
        return self._make_result(found)

    async def _finish_polls(self, endings: Sequence[tuple[PollClaim, PollOutcome]]) -> list[bool]:
        return await self._database.run(sources.finish_polls, endings, self._clock.now(), unhurried=True)

    async def _end_failed(self, found: DiscoveryResult, error: HeadwaterError) -> PollResult:
        claim, run = found.claim, found.run
        await self._writer.save_partial(found)
        is_ours = error.reason.kind is ReasonClass.OURS and error.reason not in BODY_REASONS
        wait = error.retry_after if isinstance(error, ExchangeFailed) else None
        if found.interval is None and claim.backfill_since and error.retryable:
            found.interval = _BACKFILL_RETRY
        plan = self._plan(found, Failed(is_ours), RequestedDelay(wait, "Retry-After") if wait else None)
        # A method other than the feed that has no interval runs only once, and its errors do not count.
        errors = claim.consecutive_errors + (not is_ours) if claim.method is Method.FEED else 0
        errors = plan.errors if plan else errors
        state = claim.state if found.saved_state is None else found.saved_state
        outcome = PollOutcome(
            plan,
            error.reason,
            _storable(str(error)),
            errors,
            None,
            state,
            is_unfinished=is_ours or error.retryable,
            run_id=run.id if run else None,
        )
        if run is None:
            await self._unchanged.submit((claim, outcome))
            saved = found.saved
        else:

            async def work(connection: Connection) -> SaveResult:
                saved = await self._writer.save_partial_day(connection, found) if run.day else found.saved
                await sources.finish_polls(connection, [(claim, outcome)], self._clock.now())
                ending = RunEnding(outcome.reason, outcome.error, found.counters, saved.items)
                await runs.end_run(connection, run, ending, self._clock.now())
                return saved

            saved = await self._database.transact(work)
        result = self._make_result(found)
        return replace(
            result,
            reason=error.reason,
            error=str(error),
            errors=errors,
            items=saved.items,
            handoff_ids=saved.handoff_ids,
        )

    async def _end_cancelled(self, found: DiscoveryResult) -> None:
        """Release a poll that this process stops. Its run fails, and the slot of the run is free again."""
        await self._writer.save_partial(found)
        run = found.run

        async def work(connection: Connection) -> None:
            saved = await self._writer.save_partial_day(connection, found) if run and run.day else SaveResult()
            await sources.release_poll(connection, found.claim, None, None)
            if run:
                ending = RunEnding(Reason.SHUTDOWN, None, found.counters, saved.items + found.saved.items)
                await runs.end_run(connection, run, ending, self._clock.now())

        await self._database.transact(work)

    def _plan(
        self, found: DiscoveryResult, outcome: Read | Failed, requested_delay: RequestedDelay | None
    ) -> PollPlan | None:
        """Return when the source is polled next, or None if it waits for its schedule or for a request."""
        claim, now = found.claim, self._clock.now()
        if found.interval is None:
            return None
        if found.left and isinstance(outcome, Read):
            why = f"{found.left:,} entries remain for the next poll."
            return PollPlan(now + min(found.interval, _SOON), why, 0, claim.adaptive_interval)
        return plan_next_poll(
            now,
            base=found.interval,
            # The share of new items shows how often a source changes, but only for feeds.
            adaptive_interval=claim.adaptive_interval if claim.method is Method.FEED else None,
            errors=claim.consecutive_errors,
            outcome=outcome,
            requested_delay=requested_delay,
            chance=random.random(),  # noqa: S311 (it spreads polls and protects nothing)
            is_manual=found.run is not None,  # a scheduled run has no interval
        )

    async def _save(self, connection: Connection, found: DiscoveryResult, profile: Mapping[str, Any]) -> PollResult:
        claim, run, source, now = found.claim, found.run, found.claim.source, self._clock.now()
        total = await self._writer.save(connection, found)
        if found.saved_state is not None:
            total = found.saved + total
        if profile != claim.fetch_profile:
            await sources.save_fetch_profile(connection, source.id, profile)
        if found.learned:
            await _save_learned(connection, source, found.learned, now)
        outcome = PollOutcome(
            self._plan(found, Read(total.items, total.new_items), found.requested_delay),
            Reason.POLLED,
            None,
            0,
            total.items if found.items or total.items else None,
            found.state,
            brought_new=bool(total.new_items or total.new_urls or found.new_urls),
            is_unfinished=bool(found.left),
            new_items=total.new_items,
            new_urls=total.new_urls + found.new_urls,
            run_id=run.id if run else None,
        )
        was_read = claim.method is Method.FEED and claim.adaptive_interval is not None
        overflowed = was_read and is_overflow(items=total.items, new_items=total.new_items)
        await sources.finish_polls(connection, [(claim, outcome)], now)
        new = latest = None
        if run:
            if run.day:
                _, end = bounds(run.day, found.kind.timezone or self._writer.timezone)
                new, latest = await items.finish_day(connection, source.id, run.day, run.started_at, end)
            why = _explain_refused(total.refused) if total.refused else None
            ending = RunEnding(Reason.POLLED, why, found.counters, total.items, new, latest)
            if not await runs.end_run(connection, run, ending, now):
                raise LeaseLost(f"The run of {source.name} took longer than its lease.")
        if overflowed:
            why = "All entries of the feed were new: the sitemaps may list entries that it missed."
            await sources.make_method_due(connection, source.id, Method.SITEMAP, now=now, rest=_SITEMAP_PAUSE, why=why)
        return replace(
            self._make_result(found),
            items=total.items,
            new_items=total.new_items,
            new=new,
            latest=latest,
            overflowed=overflowed,
            new_urls=total.new_urls + found.new_urls,
            refused={**found.refused, **total.refused},
            handoff_ids=total.handoff_ids,
        )

    def _make_result(self, found: DiscoveryResult) -> PollResult:
        source, timezone = found.claim.source, found.kind.timezone or self._writer.timezone
        return PollResult(
            source,
            Reason.POLLED,
            method=found.claim.method,
            title=str(found.state.get("title") or ""),
            urls=found.url_count,
            left=found.left,
            new_urls=found.new_urls,
            older=describe_older(found.state.get("older"), source.name, timezone),
            refused=found.refused,
            flaws=tuple(read_flaws(found.state.get("flaws"))),
        )


async def _save_learned(connection: Connection, source: Source, learned: Mapping[str, Any], now: datetime) -> None:
    """Save settings that a kind has found out, unless they do not work or another source has that feed."""
    if "feed_url" in learned:
        owner = await sources.find_feed_owner(connection, learned["feed_url"])
        if owner and owner != source.name:
            log.warning("learn.taken", source=source.name, feed_url=learned["feed_url"], read_by=owner)
            return
    try:
        get_kind(replace(source, settings={**source.settings, **learned}))
    except OperatorError as error:
        log.warning("learn.unusable", source=source.name, error=str(error))
        return
    await sources.merge_settings(connection, source.id, learned)
    labels = [f"{field} was found: {value}" for field, value in learned.items()]
    await history.add_marks(connection, "setting", labels, now, source.id)
    log.info("learned", source=source.name, **learned)


def _log_flaws(found: DiscoveryResult) -> None:
    """Log the flaws of a feed when they change."""
    flaws, before = (read_flaws(state.get("flaws")) for state in (found.state, found.claim.state))
    if flaws != before:
        level = log.warning if flaws else log.info
        level("feed.flawed", source=found.claim.source.name, flaws=list(map(str, flaws)), before=list(map(str, before)))


async def _release_run(connection: Connection, run: RunClaim, ending: RunEnding, now: datetime) -> None:
    """Delete a run for a slot, so that the slot is free again. Any other run fails."""
    if run.slot:
        await runs.drop_run(connection, run)
    else:
        await runs.end_run(connection, run, ending, now)


def _explain_wait(error: NotNow) -> str:
    return f"{error.wait.host} may be asked again then." if error.wait else _storable(str(error))


def _storable(text: str) -> str:
    return clean(text)[:_MAX_ERROR_LENGTH]


def _explain_refused(refused: Mapping[str, str]) -> str:
    url, why = next(iter(refused.items()))
    return clean(f"{len(refused)} could not be kept, such as {url}: {why}")[:_MAX_ERROR_LENGTH]
