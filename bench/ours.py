"""Measures Headwater's frontier: throughput, claim latency with a growing backlog, and memory."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from bench.adapter import CLAIM_BATCH, Queue, open_queue
from bench.backlog import Backlog
from bench.server import connect, new_database, settle
from bench.steps import Steps
from bench.timing import Stopwatch, resident_mb
from bench.urls import batches, make_urls

PUT_BATCH = 1_000
BIG_CLAIM_BATCH = 200
MOST_HOSTS = 5_000
DELAY_MS = 1_000
# The time between two claims on the clock that the bench gives to the frontier. The hot host is ready again at every
# tenth claim.
TICK = timedelta(milliseconds=DELAY_MS / 10)
PUT_EVERY, PUT_SOME = 50, 200


def hosts_for(urls: int) -> int:
    """Return the number of hosts for a number of URLs: thousands, with several URLs each."""
    return max(1, min(MOST_HOSTS, urls // 10))


class Throughput(msgspec.Struct, frozen=True):
    """URLs per second of one process for each step."""

    put_new: float
    put_known: float
    claim: float
    finish: float
    claim_and_finish: float


@dataclass(frozen=True, slots=True)
class Latency:
    """The time of one claim of the usual batch at a size of the backlog, and the memory of this process."""

    rows: int
    p50_ms: float
    p99_ms: float
    resident_mb: float


async def measure_throughput(server: str, folder: Path, steps: Steps, urls: int) -> Throughput:
    """Put new URLs, put them again, and claim and finish half of them. No host has a delay."""
    now = datetime.now(UTC)
    given = list(make_urls(urls, hosts_for(urls)))
    async with new_database(server, "bench_throughput") as dsn, open_queue(dsn, folder, now, delay_ms=0) as queue:
        with steps.step("put new URLs", urls) as advance:
            put_new = await _put(queue, given, now, advance)
        with steps.step("put known URLs", urls) as advance:
            put_known = await _put(queue, given, now, advance)
        async with connect(dsn) as connection:
            await settle(connection)
        with steps.step("claim and finish", urls // 2) as advance:
            claiming, finishing = await _claim_and_finish(queue, urls // 2, now, advance)
    return Throughput(
        put_new=urls / put_new,
        put_known=urls / put_known,
        claim=urls // 2 / claiming,
        finish=urls // 2 / finishing,
        claim_and_finish=urls // 2 / (claiming + finishing),
    )


async def _put(queue: Queue, urls: list[str], now: datetime, advance: Callable[[int], None]) -> float:
    """Put two batches at once: while the database has one, the next is prepared."""
    waiting = iter(batches(urls, PUT_BATCH))

    async def put_some() -> None:
        for batch in waiting:
            await queue.put(batch, now)
            advance(len(batch))

    watch = Stopwatch()
    await watch.time(asyncio.gather(put_some(), put_some()))
    return watch.seconds


async def _claim_and_finish(
    queue: Queue, urls: int, now: datetime, advance: Callable[[int], None]
) -> tuple[float, float]:
    claiming, finishing, left = Stopwatch(), Stopwatch(), urls
    while left:
        claims = await claiming.time(queue.claim(min(BIG_CLAIM_BATCH, left), now))
        assert claims, "there is more to claim"
        assert await finishing.time(queue.finish(claims, now)) == len(claims), "no claim was lost"
        left -= len(claims)
        advance(len(claims))
    return claiming.seconds, finishing.seconds


async def measure_latency(server: str, folder: Path, steps: Steps, sizes: list[int], claims: int) -> list[Latency]:
    """Time claims while one host has most of a growing backlog. Finishing and putting URLs in between is not timed."""
    clock, hosts, measured = _Clock(), hosts_for(sizes[0]), []
    async with (
        new_database(server, "bench_latency") as dsn,
        open_queue(dsn, folder, clock.now, delay_ms=DELAY_MS) as queue,
    ):
        backlog = Backlog(dsn, queue.source_id, hosts, clock.now)
        for size in sizes:
            with steps.step(f"load {size:,} URLs", size - backlog.size) as advance:
                await backlog.grow(size, advance)
            fresh = list(make_urls(claims // PUT_EVERY * PUT_SOME, hosts, seed=size))
            await _time_claims(queue, clock, claims // 10, [], lambda _: None)  # warms up the caches after the load
            with steps.step(f"claim at {size:,}", claims) as advance:
                watch = await _time_claims(queue, clock, claims, fresh, advance)
            measured.append(Latency(size, watch.percentile_ms(50), watch.percentile_ms(99), resident_mb()))
    return measured


class _Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def tick(self) -> datetime:
        self.now += TICK
        return self.now


async def _time_claims(
    queue: Queue, clock: _Clock, claims: int, fresh: list[str], advance: Callable[[int], None]
) -> Stopwatch:
    watch, more = Stopwatch(), batches(fresh, PUT_SOME)
    for number in range(1, claims + 1):
        now = clock.tick()
        claimed = await watch.time(queue.claim(CLAIM_BATCH, now))
        assert len(claimed) == CLAIM_BATCH, "hosts are ready"
        await queue.finish(claimed, now)
        if number % PUT_EVERY == 0:
            await queue.put(next(more, []), now)
        advance(1)
    return watch


async def measure_beside_hot_host(server: str, folder: Path, steps: Steps, rows: int, claims: int) -> dict[int, float]:
    """Return the claimed URLs per second by batch size, while a closed host has most of the backlog."""
    now, rates = datetime.now(UTC), {}
    async with new_database(server, "bench_hot_host") as dsn, open_queue(dsn, folder, now, delay_ms=0) as queue:
        backlog = Backlog(dsn, queue.source_id, hosts_for(rows), now)
        with steps.step(f"load {rows:,} URLs", rows) as advance:
            await backlog.grow(rows, advance)
        await backlog.cool_down_hot_host(now + timedelta(hours=1))
        for batch in (1, CLAIM_BATCH):
            watch = Stopwatch()
            with steps.step(f"claim by {batch} beside the hot host", claims) as advance:
                for _ in range(claims):
                    claimed = await watch.time(queue.claim(batch, now))
                    assert len(claimed) == batch, "hosts are ready"
                    await queue.finish(claimed, now)
                    advance(1)
            rates[batch] = claims * batch / watch.seconds
    return rates
