"""The canonical run: fetch every new link of any category through the frontier (spec 5.5).

The whole state of a run is in the database, so the next run continues after a killed one. Redis may fail at any moment:
the next run writes what Redis lacks.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

import structlog

from headwater.canonical.operations import CanonicalTotals, DeferredLink, FailedLink, code_of
from headwater.canonical.projection import Projection
from headwater.core import politeness
from headwater.core.errors import HeadwaterError, InvalidURL, LeaseLost, OperatorError, SchemaMismatch
from headwater.core.frontier import Candidate, Origin, UrlStatus
from headwater.core.lease import Lease
from headwater.core.reasons import Reason, ReasonClass
from headwater.core.text import one_line
from headwater.core.url_input import redact
from headwater.core.urls import identify, url_hash
from headwater.db import canonical, frontier, hosts, sources
from headwater.db.canonical import AttemptResult, FailureCode, LinkProgress
from headwater.db.context import DatabaseContext
from headwater.db.pool import AWAY, Connection
from headwater.frontier.submit import priority, submit

log = structlog.get_logger()
RunFetchers = Callable[[], AbstractAsyncContextManager[None]]

SOURCE = "canonical"  # the source of links that only other programs have listed
BATCH = 500
_BASE_PRIORITY = 5
_PATIENCE = timedelta(seconds=15)  # a link that is due later is deferred; the usual pause of a host is shorter
_SHORT, _LONG = 0.05, 1.0  # seconds between two checks
_LEASE_TRIES = 100
_MAX_LEASE = timedelta(seconds=30)  # a killed run blocks others no longer than this


@dataclass(frozen=True, slots=True)
class CanonicalRunner:
    """Runs once on request, unless another process is running."""

    context: DatabaseContext
    projection: Projection | None

    async def run(
        self, totals: CanonicalTotals, run_fetchers: RunFetchers, limit: timedelta | None = None
    ) -> Lease | None:
        """Run once; if another process is running, return its lease and do nothing.

        `run_fetchers` fetches while the run waits for pages. After `limit`, the run defers the rest.
        """
        context = self.context
        now = context.clock.now()
        length = min(timedelta(seconds=context.settings.lease_seconds), _MAX_LEASE)
        lease = Lease(context.holder, uuid4(), now + length, 1)
        async with context.database.connection() as connection:
            for _ in range(_LEASE_TRIES):  # the other run may end between the two statements
                if await canonical.take_lease(connection, lease, now):
                    break
                if other := await canonical.get_lease(connection):
                    log.info("canonical.under_way", holder=other.holder, until=f"{other.until:%Y-%m-%d %H:%M:%S} UTC")
                    return other
            else:
                raise SchemaMismatch(
                    "The table canonical_state has lost its row: INSERT INTO canonical_state DEFAULT VALUES."
                )
        run = _Run(context, self.projection, lease, length, totals, now)
        try:
            await run.execute(run_fetchers, now + limit if limit else None)
        finally:
            await asyncio.shield(self._end(lease))
        return None

    async def run_or_refuse(self, totals: CanonicalTotals, run_fetchers: RunFetchers) -> None:
        """Run once; raise an error if another process is running."""
        if other := await self.run(totals, run_fetchers):
            host, process, _ = other.holder.split(":")
            raise OperatorError(
                f"A canonical run is under way: process {process} on {host} holds the lease until "
                f"{other.until:%H:%M:%S} UTC, longer if it is alive. Only one run works at a time.",
                reason=Reason.RUN_UNDER_WAY,
            )

    async def _end(self, lease: Lease) -> None:
        try:
            await self.context.database.run(canonical.end_lease, lease)
        except AWAY as error:
            log.warning("canonical.lease_not_ended", error=str(error))  # it expires by itself


@dataclass(slots=True, eq=False)
class _Run:
    context: DatabaseContext
    projection: Projection | None
    lease: Lease
    length: timedelta  # of the lease
    totals: CanonicalTotals
    renewed_at: datetime

    async def execute(self, run_fetchers: RunFetchers, until: datetime | None) -> None:
        began = self.context.clock.now()
        if self.projection:
            self.totals.redis = "up to date"
        await self._use_redis(lambda redis: redis.synchronize(self._renew_if_due))
        self.totals.new = await self.context.database.transact(self._request_links)
        if await self._add_categories():
            await self._use_redis(lambda redis: redis.write(self._renew_if_due))
        if self.totals.new:
            await self._submit_all()
            await self._wait(run_fetchers, until)
            await self._defer_rest()
            await self._use_redis(lambda redis: redis.write(self._renew_if_due))
            self._log_totals(began)
        if self.projection:
            self.totals.troubles[:] = self.projection.troubles

    def _log_totals(self, began: datetime) -> None:
        totals = self.totals
        log.info(
            "canonical.done",
            new=totals.new,
            stored=totals.stored,
            skipped=totals.skipped,
            failed=sum(totals.failed.values()),
            codes=dict(totals.failed),
            deferred=totals.deferred,
            redis=totals.redis,
            duration=round((self.context.clock.now() - began).total_seconds(), 3),
        )

    async def _renew_if_due(self) -> None:
        if self.context.clock.now() - self.renewed_at > self.length / 3:
            await self.context.database.run(self._renew)

    async def _renew(self, connection: Connection) -> None:
        """Renew the lease and lock it until the transaction ends; raise LeaseLost if another run has it."""
        now = self.context.clock.now()
        if not await canonical.renew_lease(connection, self.lease, now + self.length):
            raise LeaseLost("The canonical run took longer than its lease. Another run continues.")
        self.renewed_at = now

    async def _use_redis(self, work: Callable[[Projection], Awaitable[None]]) -> None:
        """Do something with Redis. After a failure this run uses Redis no more, and the next run repairs it."""
        if self.projection is None or self.totals.redis != "up to date":
            return
        try:
            await work(self.projection)
        except HeadwaterError as error:
            if error.reason is not Reason.REDIS_LOST:
                raise
            self.totals.redis = str(error)
            log.warning("canonical.redis_lost", error=str(error))

    async def _request_links(self, connection: Connection) -> int:
        await self._renew(connection)
        now = self.context.clock.now()
        await canonical.drop_links(connection, now)
        return await canonical.request_new_links(connection, now)

    async def _add_categories(self) -> int:
        """Add to known links the categories that have linked them since; return how many links changed."""
        after: tuple[str, str] | None = ("", "")
        total = 0
        while after:
            await self._renew_if_due()
            now = self.context.clock.now()
            after, changed = await self.context.database.run(canonical.add_categories, after=after, now=now)
            total += changed
        return total

    async def _submit_all(self) -> None:
        """Submit the requested links to the frontier, and end those that have a result there already."""
        after = ""
        while True:
            rows = await self.context.database.run(canonical.list_unsubmitted, after, BATCH)
            if not rows:
                return
            await self._withdraw_foreign([uid for uid, _, is_expired in rows if not is_expired])
            new_uids = await self._submit(after)
            for link in await self._end_finished(await self._list_progress(after), new_uids):
                _log_link("canonical.fetching", link)
            after = rows[-1][0]

    async def _withdraw_foreign(self, uids: list[str]) -> None:
        """Withdraw the links that Redis marks as attempted and that we never tried."""

        async def work(redis: Projection) -> None:
            if attempted := await redis.find_attempted(uids):
                now = self.context.clock.now()
                withdrawn = await self.context.database.run(canonical.withdraw_foreign, attempted, now)
                self.totals.new -= len(withdrawn)

        await self._use_redis(work)

    async def _submit(self, after: str) -> set[str]:
        """Submit a batch; return the uids of the links that are new in the frontier."""
        code = code_of(Reason.INVALID_URL)

        async def work(connection: Connection) -> tuple[dict[str, tuple[str, str]], set[str]]:
            await self._renew(connection)
            now = self.context.clock.now()
            rows = await canonical.list_unsubmitted(connection, after, BATCH)
            uids = {url: uid for uid, url, _ in rows}
            source_id = await self._find_source(connection, list(uids), now)
            weight = priority(_BASE_PRIORITY, Origin.CATEGORY)
            candidates = [Candidate(url, source_id or 0, Origin.CATEGORY, weight) for url in uids]
            key_of = politeness.KEYS[self.context.settings.politeness_scope]
            submitted = await submit(connection, candidates, now, key_of)
            ids = {uids[url]: known.id for url, known in submitted.known.items()}
            await canonical.save_submitted(connection, ids)
            if source_id:
                await frontier.adopt_urls(connection, list(ids.values()), source_id, Origin.CATEGORY, weight, now)
            expired = [ids[uid] for uid, _, is_expired in rows if is_expired and uid in ids]
            await frontier.retry_urls(connection, expired, weight, now)
            refused = {uids[url]: (one_line(redact(url)), why) for url, why in submitted.refused.items()}
            results = [AttemptResult(uid, None, code, Reason.INVALID_URL) for uid in refused]
            await canonical.save_results(connection, results, now)
            return refused, {uids[url] for url, known in submitted.known.items() if known.is_new}

        refused, new_uids = await self.context.database.transact(work)
        for uid, (url, why) in refused.items():
            self.totals.add_failure(FailedLink(uid, url, str(code), str(Reason.INVALID_URL)))
            log.warning("canonical.refused", uid=uid, why=f"{url}: {why}")
        return new_uids

    async def _find_source(self, connection: Connection, urls: list[str], now: datetime) -> int | None:
        """Return the source `canonical` for links without a source; None if each link has a source that exists."""
        keeps_slash = await hosts.list_slash_hosts(connection)
        hashes = set()
        for url in urls:
            with contextlib.suppress(InvalidURL):
                hashes.add(url_hash(identify(url, keeps_slash=keeps_slash)[0]))
        known = await frontier.find_urls(connection, hashes)
        if len(known) == len(hashes) and not await frontier.has_removed_source(connection, known.values()):
            return None
        source = await sources.get_source(connection, SOURCE)
        if source is None:
            await sources.add_source(connection, SOURCE, "manual", {}, now=now, due={})
            source = await sources.get_source(connection, SOURCE)
        if source is None or not await sources.prevent_removal(connection, source.id):
            raise OperatorError(f"The source {SOURCE} was removed just now. Run again.", reason=Reason.UNKNOWN_SOURCE)
        return source.id

    async def _wait(self, run_fetchers: RunFetchers, until: datetime | None) -> None:
        """Wait until each link has a result or is due much later."""
        if not await self._has_link_due_soon():
            return
        pause = _SHORT
        async with run_fetchers():
            while until is None or self.context.clock.now() < until:
                await asyncio.sleep(pause)
                done = self.totals.done
                if not await self._has_link_due_soon():
                    return
                pause = _SHORT if self.totals.done > done else min(_LONG, pause * 1.5)

    async def _has_link_due_soon(self) -> bool:
        is_due_soon = False
        async for waiting in self._list_waiting():
            soon = self.context.clock.now() + _PATIENCE
            is_due_soon |= any(link.due_at is None or link.due_at <= soon for link in waiting)
        return is_due_soon

    async def _list_waiting(self) -> AsyncIterator[list[LinkProgress]]:
        """End the links with a result; yield the others by pages."""
        after = ""
        while page := await self._list_progress(after):
            yield await self._end_finished(page)
            after = page[-1].uid

    async def _list_progress(self, after: str) -> list[LinkProgress]:
        await self._renew_if_due()
        return await self.context.database.run(canonical.list_progress, after, BATCH, self.context.clock.now())

    async def _end_finished(
        self, links: Collection[LinkProgress], new_uids: Collection[str] | None = None
    ) -> list[LinkProgress]:
        """Save the results of finished links; return the waiting links.

        With `new_uids`, a document of any other link is from before: the link is skipped.
        """
        ended = [link for link in links if link.status != UrlStatus.PENDING]
        waiting = [link for link in links if link.status == UrlStatus.PENDING]
        if not ended:
            return waiting
        results = {link.uid: _result(link) for link in ended}

        async def work(connection: Connection) -> set[str]:
            await self._renew(connection)
            return await canonical.save_results(connection, list(results.values()), self.context.clock.now())

        saved = await self.context.database.transact(work)
        for link in ended:
            if link.uid in saved:
                self._count(link, results[link.uid], is_old=new_uids is not None and link.uid not in new_uids)
        await self._use_redis(lambda redis: redis.write(self._renew_if_due))
        return waiting

    def _count(self, link: LinkProgress, result: AttemptResult, *, is_old: bool) -> None:
        if result.code:
            code, reason = str(result.code), str(result.reason)
            self.totals.add_failure(FailedLink(link.uid, link.url, code, reason))
            log.warning("canonical.failed", uid=link.uid, url=one_line(link.url), code=code, reason=reason)
        elif is_old:
            self.totals.skipped += 1
            _log_link("canonical.skipped", link)
        else:
            self.totals.stored += 1
            _log_link("canonical.stored", link)

    async def _defer_rest(self) -> None:
        """Defer the links without a result. A later run requests them again."""
        async for waiting in self._list_waiting():

            async def work(connection: Connection, waiting: list[LinkProgress] = waiting) -> None:
                await self._renew(connection)
                await canonical.defer(connection, [link.uid for link in waiting])

            await self.context.database.transact(work)
            for link in waiting:
                self.totals.add_deferral(DeferredLink(link.uid, link.url, link.waiting_reason, link.due_at))
                _log_link("canonical.deferred", link, reason=link.waiting_reason, until=str(link.due_at))


def _log_link(event: str, link: LinkProgress, **more: object) -> None:
    log.info(event, uid=link.uid, url=one_line(link.url), **more)


def _result(link: LinkProgress) -> AttemptResult:
    reason = Reason.of(link.reason) if link.reason else Reason.INTERNAL
    if link.status == UrlStatus.FETCHED:
        return AttemptResult(link.uid, link.url_id, None if link.has_document else FailureCode.EMPTY, reason)
    code = FailureCode.HTTP if reason.kind is ReasonClass.DONE else code_of(reason, link.detail)
    return AttemptResult(link.uid, link.url_id, code, reason)
