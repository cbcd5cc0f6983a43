"""The run-once: what is linked in any category and was not attempted lately goes through the frontier (spec 5.5).

All that a run works on is in the database: it needs no memory for it, and the next run goes on with what a killed one
left. Redis may be away at any moment: what it lacks is written to it by the next run.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

import structlog

from headwater.canonical.operations import TOLD, CanonicalTotals, Deferred, Failed
from headwater.canonical.projection import Projection
from headwater.canonical.rules import code_of
from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError, InvalidURL, LeaseLost, OperatorError
from headwater.core.frontier import Origin, UrlStatus
from headwater.core.lease import Lease
from headwater.core.politeness import KeyOf
from headwater.core.reasons import Reason, ReasonClass
from headwater.core.text import one_line
from headwater.core.url_input import redact
from headwater.core.urls import identify, url_hash
from headwater.db import canonical, frontier, hosts, sources
from headwater.db.canonical import FailureCode, Mark, Standing
from headwater.db.pool import Connection, Database, is_down
from headwater.frontier.submit import Candidate, priority, submit

log = structlog.get_logger()
FetchPool = Callable[[], AbstractAsyncContextManager[None]]

SOURCE = "canonical"  # of what no source of ours lists: other programs put it into Redis
BATCH = 500
_BASE_PRIORITY = 5
# What is not tried again within this time is put off; a host's ordinary pause is waited for.
_PATIENCE = timedelta(seconds=15)
_SHORT, _LONG = 0.05, 1.0  # between two looks
_TRIES = 100  # to get hold of the lease, which others may have ended since it was seen taken
# A run looks after its lease at least every few seconds, so that of a killed one need not keep others waiting for long.
_LONGEST_LEASE = timedelta(seconds=30)


class CanonicalRunner:
    """Runs once when asked, if no other process does at that moment."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        projection: Projection | None,
        *,
        holder: str,
        lease: timedelta,
        key_of: KeyOf,
    ) -> None:
        self._database = database
        self._clock = clock
        self._projection = projection
        self._holder = holder
        self._lease = min(lease, _LONGEST_LEASE)
        self._key_of = key_of

    async def run(self, totals: CanonicalTotals, crew: FetchPool, longest: timedelta | None = None) -> Lease | None:
        """Run once; where another run is under way do nothing, and return its lease.

        `crew` is at work while pages are waited for. What is not done after `longest` is put off.
        """
        now = self._clock.now()
        lease = Lease(self._holder, uuid4(), now + self._lease, 1)
        async with self._database.connection() as connection:
            for _ in range(_TRIES):
                if await canonical.take_lease(connection, lease, now):
                    break
                if other := await canonical.current_lease(connection):
                    log.info("canonical.under_way", holder=other.holder, until=f"{other.until:%Y-%m-%d %H:%M:%S} UTC")
                    return other
            else:
                raise OperatorError(
                    "The table canonical_state has lost its row: INSERT INTO canonical_state DEFAULT VALUES.",
                    reason=Reason.SCHEMA_MISMATCH,
                )
        try:
            until = now + longest if longest else None
            await _Run(self._database, self._clock, self._projection, self._key_of, lease, totals).execute(crew, until)
        finally:
            await asyncio.shield(self._end(lease))
        return None

    async def _end(self, lease: Lease) -> None:
        try:
            async with self._database.connection() as connection:
                await canonical.end_lease(connection, lease)
        except Exception as error:
            if not is_down(error):
                raise
            log.warning("canonical.lease_left", error=str(error))  # it runs out by itself


class _Run:
    """A run under way."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        projection: Projection | None,
        key_of: KeyOf,
        lease: Lease,
        totals: CanonicalTotals,
    ) -> None:
        self._database = database
        self._clock = clock
        self._projection = projection
        self._key_of = key_of
        self._lease = lease
        self._length = lease.until - clock.now()
        self._renewed_at = clock.now()
        self._totals = totals

    async def execute(self, crew: FetchPool, until: datetime | None) -> None:
        began = self._clock.now()
        if self._projection:
            self._totals.redis = "up to date"
        await self._with_redis(lambda redis: redis.bring_up_to_date(self._beat))
        self._totals.new = await self._database.transact(self._ask)
        if await self._list_in_more_categories():
            await self._with_redis(lambda redis: redis.project(self._beat))
        if self._totals.new:
            await self._submit_all()
            await self._wait(crew, until)
            await self._put_off_rest()
            await self._with_redis(lambda redis: redis.project(self._beat))
            self._tell(began)
        if self._projection:
            self._totals.troubles[:] = self._projection.troubles

    def _tell(self, began: datetime) -> None:
        totals = self._totals
        log.info(
            "canonical.done",
            new=totals.new,
            stored=totals.stored,
            skipped=totals.skipped,
            failed=sum(totals.failed.values()),
            codes=dict(totals.failed),
            deferred=totals.deferred,
            redis=totals.redis,
            duration=round((self._clock.now() - began).total_seconds(), 3),
        )

    async def _beat(self) -> None:
        """Keep the lease while work goes on."""
        if self._clock.now() - self._renewed_at > self._length / 3:
            async with self._database.connection() as connection:
                await self._hold(connection)

    async def _hold(self, connection: Connection) -> None:
        """Keep the lease, and everybody else from it until the transaction ends; raise if it is another's."""
        now = self._clock.now()
        if not await canonical.keep_lease(connection, self._lease, now + self._length):
            raise LeaseLost("The canonical run took longer than its lease; another one goes on.")
        self._renewed_at = now

    async def _with_redis(self, work: Callable[[Projection], Awaitable[None]]) -> None:
        """Do something with Redis; once it is lost this run does without it, and the next one mends what it lacks."""
        if self._projection is None or self._totals.redis != "up to date":
            return
        try:
            await work(self._projection)
        except HeadwaterError as error:
            if error.reason is not Reason.REDIS_LOST:
                raise
            self._totals.redis = str(error)
            log.warning("canonical.redis_lost", error=str(error))

    async def _ask(self, connection: Connection) -> int:
        await self._hold(connection)
        now = self._clock.now()
        await canonical.drop_links(connection, now)
        return await canonical.ask_new_links(connection, now)

    async def _list_in_more_categories(self) -> int:
        """List what is known already in the categories that link it since; return how many that were."""
        after: tuple[str, str] | None = ("", "")
        total = 0
        while after:
            await self._beat()
            work = partial(canonical.list_in_more_categories, after=after, now=self._clock.now())
            after, listed = await self._database.run(work)
            total += listed
        return total

    async def _submit_all(self) -> None:
        """Hand what is asked for to the frontier, and end what has ended there already."""
        after = ""
        while True:
            async with self._database.connection() as connection:
                rows = await canonical.unsubmitted(connection, after, BATCH)
            if not rows:
                return
            await self._leave_to_others([uid for uid, _, is_expired in rows if not is_expired])
            fresh = await self._submit(after)
            async with self._database.connection() as connection:
                standings = await canonical.follow_asked(connection, after, BATCH, self._clock.now())
            await self._end([one for one in standings if one.status != UrlStatus.PENDING], fresh)
            for one in standings:
                if one.status == UrlStatus.PENDING:
                    _say("canonical.fetching", one)
            after = rows[-1][0]

    async def _leave_to_others(self, uids: list[str]) -> None:
        """Leave what another program has attempted, by what Redis says, and nobody here ever did."""

        async def look(redis: Projection) -> None:
            if attempted := await redis.attempted_elsewhere(uids):
                async with self._database.connection() as connection:
                    left = await canonical.forget_asked(connection, attempted, self._clock.now())
                self._totals.new -= len(left)

        await self._with_redis(look)

    async def _submit(self, after: str) -> set[str]:
        """Submit a batch; return the uids of those that nobody had seen before."""
        refused: dict[str, tuple[str, str]] = {}  # how each may be shown, and why

        async def work(connection: Connection) -> tuple[list[Mark], set[str]]:
            refused.clear()
            await self._hold(connection)
            now = self._clock.now()
            rows = await canonical.unsubmitted(connection, after, BATCH)
            given = {url: uid for uid, url, _ in rows}
            source_id = await self._source(connection, list(given), now)
            weight = priority(_BASE_PRIORITY, Origin.CATEGORY)
            candidates = [Candidate(url, source_id or 0, Origin.CATEGORY, weight) for url in given]
            submitted = await submit(connection, candidates, now, self._key_of)
            ids = {given[url]: identity.id for url, identity in submitted.known.items()}
            await canonical.keep_submitted(connection, ids)
            if source_id:
                await frontier.adopt_urls(connection, list(ids.values()), source_id, Origin.CATEGORY, weight, now)
            again = [ids[uid] for uid, _, is_expired in rows if is_expired and uid in ids]
            await frontier.retry_urls(connection, again, weight, now)
            refused.update({given[url]: (one_line(redact(url)), why) for url, why in submitted.refused.items()})
            code = code_of(Reason.INVALID_URL)
            marks = [Mark(uid, None, code, Reason.INVALID_URL) for uid in refused]
            await canonical.mark_attempts(connection, marks, now)
            return marks, {given[url] for url, identity in submitted.known.items() if identity.is_new}

        marks, fresh = await self._database.transact(work)
        for mark in marks:
            url, why = refused[mark.uid]
            self._totals.fail(Failed(mark.uid, url, str(code_of(mark.reason)), str(mark.reason)))
            log.warning("canonical.refused", uid=mark.uid, why=f"{url}: {why}")
        return fresh

    async def _source(self, connection: Connection, urls: list[str], now: datetime) -> int | None:
        """Return the source for what has none; None where all is known, and was not given up with its source."""
        keeps_slash = await hosts.slash_hosts(connection)
        hashes = set()
        for url in urls:
            with contextlib.suppress(InvalidURL):
                hashes.add(url_hash(identify(url, keeps_slash=keeps_slash)[0]))
        known = await frontier.find_urls(connection, hashes)
        if len(known) == len(hashes) and not await frontier.any_given_up(connection, known.values()):
            return None
        source = await sources.get_source(connection, SOURCE)
        if source is None:
            await sources.add_source(connection, SOURCE, "manual", {}, now=now, due={})
            source = await sources.get_source(connection, SOURCE)
        if source is None or not await sources.prevent_removal(connection, source.id):
            raise OperatorError(f"The source {SOURCE} was removed just now.", reason=Reason.UNKNOWN_SOURCE)
        return source.id

    async def _wait(self, crew: FetchPool, until: datetime | None) -> None:
        """Wait until each has ended or will not be tried again for a while."""
        if not await self._look():
            return
        pause = _SHORT
        async with crew():
            while until is None or self._clock.now() < until:
                await asyncio.sleep(pause)
                done = self._totals.done
                if not await self._look():
                    return
                pause = _SHORT if self._totals.done > done else min(_LONG, pause * 1.5)

    async def _look(self) -> bool:
        """End what has ended; tell whether there is something left to wait for."""
        worth_waiting = False
        async for page in self._standings():
            await self._end([one for one in page if one.status != UrlStatus.PENDING])
            soon = self._clock.now() + _PATIENCE
            worth_waiting |= any(
                one.status == UrlStatus.PENDING and (one.due_at is None or one.due_at <= soon) for one in page
            )
        return worth_waiting

    async def _standings(self) -> AsyncIterator[list[Standing]]:
        after = ""
        while True:
            await self._beat()
            async with self._database.connection() as connection:
                page = await canonical.follow_asked(connection, after, BATCH, self._clock.now())
            if not page:
                return
            yield page
            after = page[-1].uid

    async def _end(self, ended: Collection[Standing], fresh: Collection[str] | None = None) -> None:
        """Mark what has ended. With `fresh`, nobody has been waited for: what else has a document had it before."""
        if not ended:
            return
        marks = {one.uid: _mark(one) for one in ended}

        async def work(connection: Connection) -> set[str]:
            await self._hold(connection)
            return await canonical.mark_attempts(connection, list(marks.values()), self._clock.now())

        marked = await self._database.transact(work)
        for one in ended:
            if one.uid in marked:
                self._count(one, marks[one.uid], skipped=fresh is not None and one.uid not in fresh)
        await self._with_redis(lambda redis: redis.project(self._beat))

    def _count(self, one: Standing, mark: Mark, *, skipped: bool) -> None:
        if mark.code:
            code, reason = str(mark.code), str(mark.reason)
            self._totals.fail(Failed(one.uid, one.url, code, reason))
            log.warning("canonical.failed", uid=one.uid, url=one_line(one.url), code=code, reason=reason)
        elif skipped:
            self._totals.skipped += 1
            _say("canonical.skipped", one)
        else:
            self._totals.stored += 1
            _say("canonical.stored", one)

    async def _put_off_rest(self) -> None:
        """Put off what neither ended nor will soon; it is not marked, so that a later run asks for it again."""
        async for page in self._standings():
            await self._end([one for one in page if one.status != UrlStatus.PENDING])
            waiting = [one for one in page if one.status == UrlStatus.PENDING]

            async def work(connection: Connection, waiting: list[Standing] = waiting) -> None:
                await self._hold(connection)
                await canonical.put_off(connection, [one.uid for one in waiting])

            await self._database.transact(work)
            for one in waiting:
                self._totals.deferred += 1
                if len(self._totals.deferred_urls) < TOLD:
                    self._totals.deferred_urls.append(Deferred(one.uid, one.url, one.waiting_reason, one.due_at))
                log.info(
                    "canonical.deferred",
                    uid=one.uid,
                    url=one_line(one.url),
                    reason=one.waiting_reason,
                    until=str(one.due_at),
                )


def _say(event: str, one: Standing, **more: object) -> None:
    log.info(event, uid=one.uid, url=one_line(one.url), **more)


def _mark(one: Standing) -> Mark:
    reason = Reason.of(one.reason) if one.reason else Reason.INTERNAL
    if one.status == UrlStatus.FETCHED:
        return Mark(one.uid, one.url_id, None if one.has_document else FailureCode.EMPTY, reason)
    code = FailureCode.HTTP if reason.kind is ReasonClass.DONE else code_of(reason, one.detail)
    return Mark(one.uid, one.url_id, code, reason)
