"""A crawl with many kills, restarts and faults, and one table of what it lost: `make soak ARGS="--seconds 30"`.

The crawl is that of the fault tests: three programs, one PostgreSQL server, and a hostile web that notes each request.
Each fault comes after some part of the requests, in a random order.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from headwater.db.clock import SYNC_SECONDS
from tests.database_clock import step_clock
from tests.faults.database import OwnServer, own_server
from tests.faults.harness import LEASE_SECONDS, Harness, open_harness
from tests.faults.invariants import ENDS, no_host_is_asked_too_soon, violations
from tests.fork_server import close_fork_server, fork_server
from tests.scratch import scratch_folder

PROGRAMS = ("up", "worker", "worker")
_REQUESTS_PER_URL = 1.1  # with robots.txt, redirects and retries
_CRAWL_DELAY_CAP = 0.5
_URLS_PER_SECOND = 40  # of two busy cores, for the size of a run of so many seconds


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    urls: int
    kills: int
    restarts: int
    faults: int
    seed: int

    @classmethod
    def lasting(cls, seconds: float, seed: int) -> "Plan":
        """Plan a run of about so many seconds."""
        return cls(
            urls=max(400, int(seconds * _URLS_PER_SECOND)),
            kills=max(5, int(seconds / 2)),
            restarts=max(1, int(seconds / 30)),
            faults=max(4, int(seconds / 20)),
            seed=seed,
        )


@dataclass
class Figures:
    """The figures of a run. Each of `lost`, `twice` and `too_soon` must be 0, and `broken` empty."""

    urls: int = 0
    documents: int = 0
    requests: int = 0
    kills: int = 0
    restarts: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    refusals: int = 0  # programs that ended with a message, because they started without a database
    interrupted: int = 0  # fetches that a kill or an outage cut off
    lost: int = 0
    twice: int = 0
    too_soon: int = 0
    broken: dict[str, list[str]] = field(default_factory=dict)
    memory_mb: float = 0.0  # the most of one program
    descriptors: int = 0  # the most of one program
    wal_mb: float = 0.0  # written in total
    wal_kept_mb: float = 0.0  # the most on the disk
    seconds: float = 0.0


class Soak:
    """One run."""

    def __init__(self, plan: Plan, harness: Harness, server: OwnServer) -> None:
        self.plan = plan
        self.harness = harness
        self.server = server
        self.figures = Figures()
        self._chance = random.Random(plan.seed)

    async def run(self) -> Figures:
        """Crawl, harm the programs on the way, and judge the result."""
        began = time.monotonic()
        self.harness.is_supervised = True
        async with self._measuring():
            steps = self._steps()
            for number, step in enumerate(steps):
                await self._until_requested((number + self._chance.random()) / len(steps))
                await step()
            await self.harness.until_done(300 + self.plan.urls / 5)
            await self.harness.stop()
        await self._judge()
        self.figures.seconds = time.monotonic() - began
        return self.figures

    def _steps(self) -> list[Callable[[], Awaitable[None]]]:
        faults = (self._freeze, self._close_web, self._step_clock, self._cut_connections)
        steps: list[Callable[[], Awaitable[None]]] = [self._kill] * self.plan.kills
        steps += [self._restart_server] * self.plan.restarts
        steps += [faults[number % len(faults)] for number in range(self.plan.faults)]
        self._chance.shuffle(steps)
        return steps

    async def _until_requested(self, part: float) -> None:
        """Wait until the web has answered a part of the requests, or the crawl is at its end."""
        enough = part * self.plan.urls * _REQUESTS_PER_URL * 0.95
        give_up = time.monotonic() + 60
        while len(self.harness.swarm.requests) < enough and time.monotonic() < give_up:
            await self.harness.look_again(0.02)

    async def _kill(self) -> None:
        await self.harness.look_again(0)
        words = await self.harness.kill(self._chance.choice(list(self.harness.programs)))
        self.figures.kills += 1
        await self.harness.start(*words)

    async def _restart_server(self) -> None:
        self.harness.hang_up()
        await self.server.restart(self._chance.choice((signal.SIGKILL, signal.SIGINT)))
        self.figures.restarts += 1

    async def _freeze(self) -> None:
        """Stop a program for longer than its leases last. Others continue its work meanwhile."""
        program = self._chance.choice(list(self.harness.programs))
        program.send_signal(signal.SIGSTOP)
        await asyncio.sleep(LEASE_SECONDS * 1.3)
        program.send_signal(signal.SIGCONT)
        self.figures.faults["frozen"] += 1

    async def _close_web(self) -> None:
        """Close all connections of the web, and refuse new ones for a moment."""
        await self.harness.swarm.stop()
        await asyncio.sleep(0.5)
        await self.harness.swarm.start()
        await self.harness.release_hosts()
        self.figures.faults["web away"] += 1

    async def _step_clock(self) -> None:
        """Step the clock while no program starts: a new one cannot know the old time (docs/reliability.md)."""
        await asyncio.sleep(2 * SYNC_SECONDS)
        await step_clock(self.harness.database_url, self._chance.choice((30, -5)))
        await asyncio.sleep(3 * SYNC_SECONDS + LEASE_SECONDS + _CRAWL_DELAY_CAP)
        self.figures.faults["clock stepped"] += 1

    async def _cut_connections(self) -> None:
        await self.harness.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        self.figures.faults["connections cut"] += 1

    @asynccontextmanager
    async def _measuring(self) -> AsyncIterator[None]:
        ((begin,),) = await self.harness.rows("SELECT pg_current_wal_lsn()")
        measuring = asyncio.create_task(self._measure())
        try:
            yield
        finally:
            measuring.cancel()
        ((written,),) = await self.harness.rows("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1)", begin)
        self.figures.wal_mb = float(written) / 2**20

    async def _measure(self) -> None:
        figures = self.figures
        while True:
            for program in list(self.harness.programs):
                with suppress(OSError, ValueError):
                    pages = _resident_pages(program.pid)
                    figures.memory_mb = max(figures.memory_mb, pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
                    figures.descriptors = max(figures.descriptors, len(os.listdir(f"/proc/{program.pid}/fd")))
            with suppress(OSError):
                kept = sum(file.stat().st_size for file in self.server.folder.glob("postgres/*/cluster/pg_wal/0*"))
                figures.wal_kept_mb = max(figures.wal_kept_mb, kept / 2**20)
            await asyncio.sleep(0.5)

    async def _judge(self) -> None:
        figures, harness = self.figures, self.harness
        figures.requests, figures.refusals = len(harness.swarm.requests), harness.refusals
        figures.too_soon = len(await no_host_is_asked_too_soon(harness))
        ends = await harness.rows(
            "SELECT u.url, u.status, count(*) FILTER (WHERE l.reason = ANY ($1)) FROM url_frontier u "
            "LEFT JOIN fetch_log l ON l.url_id = u.id GROUP BY u.id",
            ENDS,
        )
        documents = dict(
            await harness.rows(
                "SELECT u.url, count(*) FROM documents d JOIN url_frontier u ON u.id = d.url_id GROUP BY u.url"
            )
        )
        ended = {url for url, status, _ in ends if status != "pending"}
        figures.urls, figures.documents = len(ended), len(documents)
        figures.lost = len(harness.swarm.expected.outcomes.keys() - ended)
        figures.lost += len(harness.swarm.openings().keys() - documents.keys())
        figures.twice = sum(count > 1 for *_, count in ends) + sum(count > 1 for count in documents.values())
        ((figures.interrupted,),) = await harness.rows(
            "SELECT count(*) FROM fetch_log WHERE reason IN ('worker_lost', 'shutdown')"
        )
        figures.broken = await violations(harness)


def _resident_pages(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


async def soak(plan: Plan, folder: Path) -> Figures:
    """Run a plan with a server and programs of its own."""
    with own_server(folder / "database") as server:
        async with open_harness(
            folder=folder,
            database_url=server.url,
            fork_server=fork_server(),
            hosts=max(1, plan.urls // 20),
            pages=20,
            feeds=max(4, plan.urls // 1000),
            programs=PROGRAMS,
            crawl_delay_cap_seconds=_CRAWL_DELAY_CAP,
        ) as harness:
            return await Soak(plan, harness, server).run()


def show(figures: Figures) -> Table:
    """Show the figures as a table."""
    table = Table(title=f"Soak of {figures.seconds:.0f} s", show_header=False)
    faults = ", ".join(f"{name} {count}" for name, count in sorted(figures.faults.items()))
    for name, value in (
        ("kills of programs", f"{figures.kills:,}"),
        ("restarts of PostgreSQL", f"{figures.restarts:,}"),
        ("other faults", f"{figures.faults.total():,} ({faults})"),
        ("starts that found no database", f"{figures.refusals:,}"),
        ("fetches that were cut off", f"{figures.interrupted:,}"),
        ("URLs that ended", f"{figures.urls:,}"),
        ("documents", f"{figures.documents:,}"),
        ("requests that the servers heard", f"{figures.requests:,}"),
        ("lost", f"{figures.lost:,}"),
        ("twice", f"{figures.twice:,}"),
        ("too soon, as the servers heard it", f"{figures.too_soon:,}"),
        ("other broken rules", ", ".join(figures.broken) or "0"),
        ("most memory of a program", f"{figures.memory_mb:.0f} MB"),
        ("most descriptors of a program", f"{figures.descriptors}"),
        ("WAL written, most WAL kept", f"{figures.wal_mb:.0f} MB, {figures.wal_kept_mb:.0f} MB"),
    ):
        table.add_row(name, value)
    return table


def main() -> int:
    """Run and show a soak. Returns 1 if it lost, repeated or hurried anything."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="about how long; it gives the sizes below")
    parser.add_argument("--urls", type=int, help="pages of the web, 20 a host")
    parser.add_argument("--kills", type=int, help="SIGKILLs of programs")
    parser.add_argument("--restarts", type=int, help="restarts of PostgreSQL, half of them by SIGKILL")
    parser.add_argument(
        "--faults", type=int, help="frozen programs, outages of the web, steps of the clock, lost connections"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="the order of the faults")
    options = parser.parse_args()
    planned = Plan.lasting(options.seconds, options.seed)
    sizes = {name: getattr(options, name) or getattr(planned, name) for name in ("urls", "kills", "restarts", "faults")}
    with scratch_folder() as folder:
        try:
            figures = asyncio.run(soak(Plan(**sizes, seed=options.seed), folder))
        finally:
            close_fork_server()
    Console(width=None if sys.stdout.isatty() else 100).print(show(figures))
    for rule, examples in figures.broken.items():
        print(rule, *examples, sep="\n  ", file=sys.stderr)  # noqa: T201
    return 1 if figures.lost or figures.twice or figures.too_soon or figures.broken else 0


if __name__ == "__main__":
    sys.exit(main())
