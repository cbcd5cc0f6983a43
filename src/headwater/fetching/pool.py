"""The crew of a process: one claimer feeds many visits, one committer takes in what they bring."""

import asyncio
import contextlib
import heapq
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from headwater.core.clock import Clock
from headwater.core.frontier import Claim
from headwater.core.politeness import KeyOf
from headwater.core.waiting import wait_for_any
from headwater.db import hosts
from headwater.db.pool import Connection, Database, is_down
from headwater.fetching.commit import commit
from headwater.fetching.fetcher import Fetcher, FetchResult
from headwater.frontier.claim import claim
from headwater.frontier.complete import Finish

log = structlog.get_logger()
BATCH = 64
# How long to wait before looking for work again: no less than the first, no more than the last. Hosts that others gave
# back are theirs to take again at the very moment; who looks for those too looks no sooner than the second.
_SHORT, _FOR_OTHERS, _LONG = 0.005, 0.05, 0.5
_AFTER_FAULT = 1.0


class FetchPool:
    """Claims, visits and commits until told to stop."""

    def __init__(
        self,
        *,
        database: Database,
        visitor: Fetcher,
        clock: Clock,
        holder: str,
        workers: int,
        lease_seconds: float,
        default_delay_ms: int,
        key_of: KeyOf,
        on_finish: Callable[[Finish], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._visitor = visitor
        self._clock = clock
        self._holder = holder
        self._workers = workers
        self._lease = timedelta(seconds=lease_seconds)
        self._default_delay_ms = default_delay_ms
        self._key_of = key_of
        self._on_finish = on_finish
        self._visits: set[asyncio.Task[None]] = set()
        self._brought: asyncio.Queue[FetchResult] = asyncio.Queue()
        self._changed = asyncio.Event()
        self._open = 0  # claims that are not committed yet
        self._turns: list[datetime] = []  # a heap: when hosts that we gave back may be asked again

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Work until `stop`, then finish what is under way within the grace and give the rest back."""
        committer = asyncio.create_task(self._commit_forever())
        try:
            while not stop.is_set() and not committer.done():
                try:
                    wait = await self._claim_more()
                except Exception as error:
                    if not is_down(error):
                        raise
                    log.warning("claim.failed", error=str(error))
                    wait = _AFTER_FAULT
                await self._rest(stop, wait)
            if committer.done():
                committer.result()  # it never ends by itself: this raises what ended it
            await self._wind_up(grace_seconds)
        finally:
            for task in (*self._visits, committer):
                task.cancel()
            await asyncio.gather(*self._visits, committer, return_exceptions=True)

    async def _claim_more(self) -> float:
        """Fill the free slots; return how long there is nothing more to claim, but for our own hosts."""
        free, now = self._workers - self._open, self._clock.now()
        while self._turns and self._turns[0] <= now:
            heapq.heappop(self._turns)
        if free <= 0 or not self._clock.is_settled:
            return _LONG
        claims = await claim(
            self._database,
            now=now,
            lease=self._lease,
            holder=self._holder,
            limit=free,
            default_delay_ms=self._default_delay_ms,
        )
        self._open += len(claims)
        for claimed in claims:
            task = asyncio.create_task(self._visit(claimed))
            self._visits.add(task)
            task.add_done_callback(self._visits.discard)
        if len(claims) == free:
            return _LONG
        async with self._database.connection() as connection:
            ready_at = await hosts.next_ready(connection, self._clock.now())
        return _LONG if ready_at is None else _seconds_until(ready_at, self._clock.now())

    async def _visit(self, claimed: Claim) -> None:
        self._brought.put_nowait(await self._visitor.visit(claimed))

    async def _commit_forever(self) -> None:
        while True:
            batch = [await self._brought.get()]
            while len(batch) < BATCH and not self._brought.empty():
                batch.append(self._brought.get_nowait())
            for done in await self._commit(batch):
                self._on_finish(done)
                if done.release.not_before < self._clock.now() + timedelta(seconds=_LONG):
                    heapq.heappush(self._turns, done.release.not_before)
            self._open -= len(batch)
            self._changed.set()

    async def _commit(self, batch: list[FetchResult]) -> list[Finish]:
        """Commit a batch, trying again while the database is away: until the leases end nobody else has the work."""

        async def work(connection: Connection) -> list[Finish]:
            return await commit(connection, batch, self._clock.now(), self._key_of)

        last_moment = max(visited.finish.claim.lease.until for visited in batch)
        while True:
            try:
                return await self._database.transact(work)
            except Exception as error:
                if is_down(error) and self._clock.now() < last_moment:
                    log.warning("commit.failed", error=str(error), urls=len(batch))
                    await asyncio.sleep(_AFTER_FAULT)
                elif len(batch) > 1 and not is_down(error):
                    # One of them cannot be saved: let it not take the others with it.
                    return [done for visited in batch for done in await self._commit([visited])]
                else:
                    log.exception("commit.given_up", url=batch[0].finish.claim.url)
                    return []

    async def _rest(self, stop: asyncio.Event, seconds: float) -> None:
        """Sleep so long, but no longer than until one of our hosts is ready, or a slot is free where there was none."""
        until, was_full = self._clock.now() + timedelta(seconds=seconds), self._open >= self._workers
        while not stop.is_set():
            self._changed.clear()
            is_full = self._open >= self._workers
            if was_full and not is_full:
                return
            look_at = until if is_full else min([until, *self._turns[:1]])
            wait = (look_at - self._clock.now()).total_seconds()
            if wait <= 0:
                return
            await wait_for_any((stop, self._changed), max(_SHORT, wait))

    async def _wind_up(self, grace_seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._drain()
                return
        for task in self._visits:
            task.cancel()  # a cancelled visit ends as a release
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._drain()

    async def _drain(self) -> None:
        while self._open:
            self._changed.clear()
            await self._changed.wait()


def _seconds_until(moment: datetime, now: datetime) -> float:
    return min(_LONG, max(_FOR_OTHERS, (moment - now).total_seconds()))
