"""The fetch workers of a process: one claimer starts many fetches, one committer saves their results."""

import asyncio
import contextlib
import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID, uuid4

import structlog

from headwater.core.frontier import Claim
from headwater.core.politeness import KEYS
from headwater.db import frontier, hosts
from headwater.db.context import DatabaseContext
from headwater.db.permits import Permit
from headwater.db.pool import AWAY, is_down
from headwater.fetching.commit import commit
from headwater.fetching.fetcher import Fetcher, FetchResult
from headwater.frontier.claim import Finish, claim
from headwater.politeness.source_permits import SourcePermits

log = structlog.get_logger()
_BATCH = 64
_BATCH_SECONDS = 0.1  # a result waits so long for others of its batch while fetches are under way
# The claimer sleeps at least _SHORT and at most _LONG between two claims. It wakes for its own hosts at the moment they
# are ready, and for hosts that other processes released at most every _FOR_OTHERS seconds.
_SHORT, _FOR_OTHERS, _LONG = 0.005, 0.05, 0.5
_SHARE = 4  # a claim waits, at most for _FOR_OTHERS seconds, until one of so many workers is free
_AFTER_FAULT = 1.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.2, 60.0  # of a host whose source has no free permit


@dataclass(eq=False)
class FetchPool:
    """Claims, fetches and commits URLs until it is stopped."""

    context: DatabaseContext
    fetcher: Fetcher
    on_finish: Callable[[Finish], None]

    def __post_init__(self) -> None:
        self._clock = self.context.clock
        self._workers = self.context.settings.fetch_workers
        self._fetches: set[asyncio.Task[FetchResult]] = set()
        self._results: list[FetchResult] = []
        self._batch_is_due = asyncio.Event()
        self._changed = asyncio.Event()
        self._open = 0  # claims that are not committed yet
        self.busy_since: float | None = None
        """Since when each claim has filled all workers, by the time of the event loop. None: the last one did not."""
        self._turns: list[datetime] = []  # a heap: when the hosts that we released may be asked again
        self._permits = SourcePermits(self.context.database, self._clock)
        self._held: dict[tuple[int, UUID], Permit] = {}  # by URL id and lease of the claim
        self._pauses: dict[int, float] = {}  # seconds until a host is asked again, by source without a free permit

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Work until `stop`. Then finish the fetches that end within the grace and give the other claims back."""
        committer = asyncio.create_task(self._commit_results())
        stopping = asyncio.create_task(stop.wait())
        stopping.add_done_callback(lambda _: self._changed.set())
        try:
            while not stop.is_set() and not committer.done():
                try:
                    wait = await self._claim_more()
                except AWAY as error:
                    log.warning("claim.failed", error=str(error))
                    wait = _AFTER_FAULT
                await self._rest(stop, wait)
            if committer.done():
                committer.result()  # it never ends by itself: this raises its error
            if not await self._drain(grace_seconds):
                for fetch in self._fetches:
                    fetch.cancel()  # a cancelled fetch ends as a release
                await self._drain(grace_seconds)
        finally:
            tasks = (*self._fetches, committer, stopping)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def _free(self) -> int:
        """The number of URLs to claim: for free workers, but none while many results wait for the database."""
        return min(self._workers - len(self._fetches), self._workers + _BATCH - self._open)

    async def _claim_more(self) -> float:
        """Fill the free workers. Return for how many seconds nothing more is ready, except our own hosts."""
        free, now = self._free, self._clock.now()
        while self._turns and self._turns[0] <= now:
            heapq.heappop(self._turns)
        if free <= 0 or not self._clock.is_settled:
            return _LONG
        settings = self.context.settings
        claims = await claim(
            self.context.database,
            now=now,
            lease=timedelta(seconds=settings.lease_seconds),
            holder=self.context.holder,
            limit=free,
            default_delay_ms=settings.host_delay_ms,
        )
        if len(claims) < free:
            self.busy_since = None
        elif self.busy_since is None:
            self.busy_since = asyncio.get_running_loop().time()
        permitted = await self._take_permits(claims) if claims else []
        self._open += len(permitted)
        for claimed in permitted:
            task = asyncio.create_task(self.fetcher.fetch(claimed))
            self._fetches.add(task)
            task.add_done_callback(self._end_fetch)
        if len(permitted) < len(claims):
            return _FOR_OTHERS
        if len(claims) == free:
            return _LONG
        ready_at = await self.context.database.run(hosts.get_next_ready, self._clock.now())
        if ready_at is None:
            return _LONG
        return min(_LONG, max(_FOR_OTHERS, (ready_at - self._clock.now()).total_seconds()))

    async def _take_permits(self, claims: list[Claim]) -> list[Claim]:
        """Return the claims whose sources have free permits. Give the others back."""
        wanted = [Permit(one.source_id, uuid4(), one.lease.until) for one in claims]
        try:
            taken = await self._permits.take(wanted)
        except AWAY as error:
            log.warning("claim.without_permits", error=str(error))
            taken = {permit.token for permit in wanted}
        permitted: list[Claim] = []
        refused: list[Claim] = []
        for one, permit in zip(claims, wanted, strict=True):
            if permit.token in taken:
                self._held[one.url_id, one.lease.token] = permit
                permitted.append(one)
            else:
                refused.append(one)
        self._adapt_pauses(permitted, refused)
        if refused:
            await self._give_back(refused)
        return permitted

    def _adapt_pauses(self, permitted: list[Claim], refused: list[Claim]) -> None:
        """Let the hosts of a source rest longer while it gets no permit, so that hosts of others are claimed."""
        served = {one.source_id for one in permitted}
        for source_id in {one.source_id for one in refused} - served:
            self._pauses[source_id] = min(2 * self._pauses.get(source_id, _SHORTEST_PAUSE / 2), _LONGEST_PAUSE)
        for source_id in served:
            if (pause := self._pauses.pop(source_id, 0)) > _SHORTEST_PAUSE:
                self._pauses[source_id] = pause / 2

    async def _give_back(self, claims: list[Claim]) -> None:
        now = self._clock.now()
        pauses = (self._pauses.get(one.source_id, _SHORTEST_PAUSE) * random.uniform(0.5, 1) for one in claims)  # noqa: S311 (it spreads claims)
        ready_at = [now + timedelta(seconds=pause) for pause in pauses]
        try:
            await self.context.database.run(frontier.give_back_claims, claims, ready_at, now)
        except AWAY as error:  # the leases end instead
            log.warning("claim.not_given_back", error=str(error))

    def _end_fetch(self, fetch: asyncio.Task[FetchResult]) -> None:
        self._fetches.discard(fetch)
        if fetch.cancelled():  # before its first step
            return
        self._results.append(fetch.result())
        if len(self._results) >= _BATCH or not self._fetches:
            self._batch_is_due.set()
        elif len(self._results) == 1:
            asyncio.get_running_loop().call_later(_BATCH_SECONDS, self._batch_is_due.set)
        self._changed.set()

    async def _commit_results(self) -> None:
        while True:
            await self._batch_is_due.wait()
            self._batch_is_due.clear()
            batch, self._results = self._results, []
            if not batch:
                continue
            for done in await self._commit(batch):
                self.on_finish(done)
                log.info("fetch.done", url=done.claim.url, reason=str(done.outcome.reason), detail=done.outcome.detail)
                if done.release.not_before < self._clock.now() + timedelta(seconds=_LONG):
                    heapq.heappush(self._turns, done.release.not_before)
            if permits := [self._held.pop((one.finish.claim.url_id, one.finish.claim.lease.token)) for one in batch]:
                await self._permits.free(permits)
            self._open -= len(batch)
            self._changed.set()

    async def _commit(self, batch: list[FetchResult]) -> list[Finish]:
        """Commit a batch. Retry while the database is down: until the leases end no other process has the URLs."""
        settings = self.context.settings
        work = partial(commit, timezone=settings.timezone, key_of=KEYS[settings.politeness_scope])
        last_moment = max(result.finish.claim.lease.until for result in batch)
        while True:
            try:
                return await self.context.database.transact(work, batch, self._clock.now())
            except Exception as error:
                if is_down(error) and self._clock.now() < last_moment:
                    log.warning("commit.failed", error=str(error), urls=len(batch))
                    await asyncio.sleep(_AFTER_FAULT)
                elif len(batch) > 1 and not is_down(error):
                    # One result of the batch cannot be saved. Save the others alone.
                    return [done for result in batch for done in await self._commit([result])]
                else:
                    log.exception("commit.given_up", url=batch[0].finish.claim.url)
                    return []

    async def _rest(self, stop: asyncio.Event, seconds: float) -> None:
        """Sleep until the time is over, one of our hosts is ready, or enough workers are free after all were busy."""
        until, was_full = self._clock.now() + timedelta(seconds=seconds), self._free <= 0
        while not stop.is_set():
            self._changed.clear()
            now = self._clock.now()
            if was_full and self._free > 0:
                if self._free > self._workers // _SHARE:
                    return
                until = min(until, now + timedelta(seconds=_FOR_OTHERS))
            next_look = until if was_full or self._free <= 0 else min([until, *self._turns[:1]])
            wait = (next_look - now).total_seconds()
            if wait <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(_SHORT, wait)):
                    await self._changed.wait()

    async def _drain(self, seconds: float) -> bool:
        """Wait until no claim is open. Return False if the time is over first."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._open:
                    self._changed.clear()
                    await self._changed.wait()
        return not self._open
