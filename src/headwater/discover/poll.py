"""One poll: read the source, then save all it brought in one transaction, or nothing."""

import asyncio
import contextlib
import hashlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog

from headwater.corpus import raw_path
from headwater.daily import index
from headwater.discover.deadline import Deadline
from headwater.errors import ExchangeFailed, HeadwaterError, LeaseLost, NotNow, StorageFailed
from headwater.frontier.submit import Candidate, Submitted, spell, submit
from headwater.gate.gate import Gate
from headwater.gate.pace import Pace
from headwater.model.clock import Clock
from headwater.model.poll import Polled
from headwater.model.reasons import Reason, ReasonClass
from headwater.model.source import Item, Source
from headwater.policy.agents import BROWSER, CHROME_RELEASED, browser_is_stale
from headwater.policy.politeness import KeyOf
from headwater.policy.polling import next_poll
from headwater.policy.priority import priority
from headwater.sandbox import Sandbox
from headwater.sources.kind import Kind
from headwater.sources.registry import kind_of
from headwater.sources.run import Http, Run
from headwater.store import items, sources
from headwater.store.pool import Connection, Database, is_down
from headwater.store.sources import FeedClaim, PollEnding

log = structlog.get_logger()
Renew = Callable[[datetime], Awaitable[object]]
_Found = tuple[Item, str | None]  # with where its raw bytes go


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
        self._interval_minutes = interval_minutes
        self._key_of = key_of
        self._readings: dict[UUID, Deadline] = {}

    def is_waiting(self, token: UUID) -> bool:
        """Tell whether a poll under way, known by its lease's token, waits for its budget."""
        return token in self._readings and self._readings[token].is_paused

    async def poll(self, claim: FeedClaim, renew_also: Renew | None = None) -> Polled:
        """Read a source and settle its claim, whatever happens short of losing the database.

        The claim's lease is renewed for as long as the reading goes on; `renew_also` does the same for what the caller
        holds beside it.
        """
        memory = dict(claim.memory)
        try:
            kind = kind_of(claim.source)
            self._mind_the_agent(claim.source, kind)
            async with self._renewing(claim, renew_also):
                found = await self._discover(claim, kind, memory)
        except LeaseLost:
            raise
        except NotNow as error:
            await self.release(claim, None if _is_scheduled(claim.source) else error.until)
            return Polled(claim.source, error.reason, str(error), deferred=True)
        except HeadwaterError as error:
            return await self._failed(claim, error)
        except asyncio.CancelledError:
            await asyncio.shield(self.release(claim))
            raise
        return await self._database.transact(lambda connection: self._save(connection, claim, kind, found, memory))

    def _mind_the_agent(self, source: Source, kind: Kind) -> None:
        if kind.user_agent == BROWSER and browser_is_stale(self._clock.now().date()):
            log.warning("agent.stale", source=source.name, browser_of=CHROME_RELEASED.isoformat())

    async def _discover(self, claim: FeedClaim, kind: Kind, memory: dict[str, Any]) -> list[_Found]:
        """Let the kind do its work, within its deadline; a fault in it is told like any other."""
        source = claim.source
        pace = Pace(self._database, self._clock, source.id, kind.rate_per_second)
        deadline = Deadline(kind.deadline)
        http = Http(self._gate, self._sandbox, kind, pace, kind.asker(source.name), while_waiting=deadline.paused)
        run = Run(http, memory, self._clock.now())
        self._readings[claim.lease.token] = deadline
        try:
            async with deadline:
                found = [(_check(source, item), _subpath(source, kind, item)) async for item in kind.discover(run)]
            _refuse_shared_places(source, found)
            return found
        except HeadwaterError:
            raise
        except Exception as error:
            if deadline.has_passed:
                message = f"Reading {claim.source.name} took longer than its deadline of {kind.deadline:g} seconds."
                raise ExchangeFailed(message, reason=Reason.TIMEOUT) from None
            if is_down(error):
                raise
            log.exception("discover.failed", source=claim.source.name)
            raise HeadwaterError(f"{type(error).__name__}: {error}", reason=Reason.INTERNAL) from error
        finally:
            del self._readings[claim.lease.token]

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

    async def release(self, claim: FeedClaim, next_poll_at: datetime | None = None) -> None:
        """Give a claim back undone, at no cost to the source."""
        async with self._database.connection() as connection:
            await sources.release_feed(connection, claim, next_poll_at)

    async def _failed(self, claim: FeedClaim, error: HeadwaterError) -> Polled:
        # A fault of ours is not charged to the feed.
        errors = claim.consecutive_errors + (error.reason.kind is not ReasonClass.OURS)
        now = self._clock.now()
        ending = PollEnding(self._due(claim.source, errors), error.reason, str(error), errors, None, claim.memory)
        async with self._database.connection() as connection:
            await sources.settle_feed(connection, claim, ending, now)
        return Polled(claim.source, error.reason, str(error))

    def _due(self, source: Source, errors: int) -> datetime | None:
        if _is_scheduled(source):
            return None
        minutes = source.settings.get("poll_interval_minutes") or self._interval_minutes
        chance = random.random()  # noqa: S311 - spreads polls, guards nothing
        return next_poll(self._clock.now(), timedelta(minutes=minutes), errors, chance)

    async def _save(
        self, connection: Connection, claim: FeedClaim, kind: Kind, found: list[_Found], memory: dict[str, Any]
    ) -> Polled:
        now = self._clock.now()
        if not await sources.hold_feed(connection, claim):
            raise LeaseLost(f"The poll of {claim.source.name} took longer than its lease.")
        await sources.keep_asking(connection, claim.source.id, kind.asker(claim.source.name))
        urls = await self._submit(connection, claim.source, kind, found, now)
        rows = {
            _item_id(claim.source, known.url): (replace(item, url=known.url), known.id if kind.fetch_items else None)
            for item, _ in found
            if (known := urls.known.get(item.url))
        }
        saved = await items.save_items(connection, claim.source.id, rows, now) if rows else []
        await self._rebuild_days(connection, claim.source, kind, saved)
        ending = PollEnding(self._due(claim.source, 0), Reason.POLLED, None, 0, len(saved) if found else None, memory)
        await sources.settle_feed(connection, claim, ending, now)
        return Polled(
            claim.source,
            Reason.POLLED,
            title=str(memory.get("title") or ""),
            items=len(saved),
            new_items=sum(item.is_new for item in saved),
            new_urls=urls.new,
            refused=urls.refused,
        )

    async def _submit(
        self, connection: Connection, source: Source, kind: Kind, found: list[_Found], now: datetime
    ) -> Submitted:
        """Submit the pages of items; where they are not to be fetched, their addresses only get their one spelling."""
        candidates = [_candidate(source, kind, item, subpath) for item, subpath in found]
        if kind.fetch_items:
            return await submit(connection, candidates, now, self._key_of)
        return spell(candidates)

    async def _rebuild_days(
        self, connection: Connection, source: Source, kind: Kind, saved: list[items.SavedItem]
    ) -> None:
        timezone = kind.timezone or self._timezone
        days = index.touched_days(saved, timezone)
        if days:
            await index.rebuild(connection, source.id, days, timezone)


def _is_scheduled(source: Source) -> bool:
    return source.settings.get("schedule") is not None


def _subpath(source: Source, kind: Kind, item: Item) -> str | None:
    """Return where an item's raw bytes go; a place outside the source's folder is refused before anything is saved."""
    subpath = kind.partition(item)
    if subpath is not None:
        try:
            raw_path(source.name, subpath)
        except StorageFailed as error:
            raise HeadwaterError(
                f"Source {source.name}: partition: {error}", reason=Reason.BAD_SOURCE, url=item.url
            ) from None
    return subpath


def _check(source: Source, item: Item) -> Item:
    """Refuse what a kind may not yield, before anything is saved."""
    for name, value in (("published_at", item.published_at), ("updated_at", item.updated_at)):
        if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
            raise HeadwaterError(
                f"Source {source.name}: {name}: must be a datetime with a time zone, not {value!r}.",
                reason=Reason.BAD_SOURCE,
                url=item.url,
            )
    return item


def _refuse_shared_places(source: Source, found: list[_Found]) -> None:
    """Refuse two pages with one place for their raw bytes: the second would take the first's away."""
    places: dict[str, str] = {}
    for item, subpath in found:
        if subpath is not None and places.setdefault(subpath, item.url) != item.url:
            raise HeadwaterError(
                f"Source {source.name}: partition: {subpath!r} is given to {places[subpath]} and to {item.url}.",
                reason=Reason.BAD_SOURCE,
                url=item.url,
            )


def _candidate(source: Source, kind: Kind, item: Item, subpath: str | None) -> Candidate:
    return Candidate(
        url=item.url,
        source_id=source.id,
        origin=kind.origin,
        priority=priority(kind.priority, kind.origin),
        subpath=subpath,
    )


def _item_id(source: Source, url: str) -> str:
    return hashlib.sha256(f"{source.name}:{url}".encode()).hexdigest()
