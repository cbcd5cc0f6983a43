"""A harness that hurts the real program: real processes, a real PostgreSQL, a real web, and what must hold afterwards.

A test opens a `Harness`, starts programs, does them harm, waits until the crawl is done and asks for `violations()`. A
new fault is a method here or a point in victim.py; a new invariant is a function in invariants.py.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from headwater.app import schema
from headwater.core.settings import Settings
from headwater.db.context import open_database_context
from headwater.frontier.hosts import open_host
from tests.database_clock import make_clock, step_clock
from tests.faults.network import Network
from tests.faults.swarm import TROUBLES, Swarm, Trouble, untroubled
from tests.faults.victim import COMMITTED, HELD_BACK, MAY_COMMIT
from tests.fork_server import ForkServer, Order, Program
from tests.program import environment

LEASE_SECONDS = 5.0
OPERATOR_ERROR = 2  # the exit code


# A host that does not answer waits for ten minutes, and its polls with it. Another reason to wait keeps its time.
_SHORTEN_WAITS = """
WITH failing AS (
    UPDATE host_state SET retry_at = NULL, blocked_reason = NULL, reserved_until = NULL,
        not_before = least(not_before, failed_at + interval '3 s'),
        ready_at = least(ready_at, failed_at + interval '3 s')
    WHERE retry_at > clock_timestamp() AND lease_token IS NULL
)
UPDATE poll_state SET next_poll_at = clock_timestamp()
WHERE last_reason = 'robots_unreachable' AND lease_token IS NULL AND next_poll_at > clock_timestamp() + interval '5 s'
"""

_LEFT = """
SELECT u.url, q.attempts, q.lease_token IS NOT NULL AS is_leased, q.due_at - clock_timestamp() AS due_in,
    k.lease_token IS NOT NULL AS host_is_leased, k.ready_at - clock_timestamp() AS ready_in,
    k.not_before - clock_timestamp() AS free_in, k.retry_at - clock_timestamp() AS retry_in, k.failure,
    k.blocked_reason,
    (SELECT array_agg(l.reason ORDER BY l.id) FROM fetch_log l WHERE l.url_id = u.id) AS attempts_so_far
FROM url_frontier u LEFT JOIN frontier_queue q ON q.url_id = u.id LEFT JOIN host_state k ON k.host = u.host
WHERE u.status = 'pending' LIMIT 5
"""

_LEFT_POLLS = """
SELECT s.name, p.method, p.next_poll_at - clock_timestamp() AS due_in, p.lease_token IS NOT NULL AS is_leased,
    p.last_reason, p.last_error, p.consecutive_errors
FROM poll_state p JOIN sources s ON s.id = p.source_id
WHERE p.last_polled_at IS NULL OR p.consecutive_errors > 0 LIMIT 5
"""


@dataclass
class Harness:
    """One crawl: a folder, a database, a web, and the programs that work on them."""

    folder: Path
    swarm: Swarm
    database_url: str
    fork_server: ForkServer
    delay_ms: int
    overrides: dict[str, object] = field(default_factory=dict)
    namespace: str | None = None  # the programs' network, if not the common one
    programs: dict[Program, tuple[str, ...]] = field(default_factory=dict)
    is_supervised: bool = False  # a program that ends because it finds no database is started again
    kills: int = 0
    refusals: int = 0  # how many such programs there were
    _connection: "asyncpg.Connection[Any] | None" = None

    @property
    def data(self) -> Path:
        """The programs' data folder."""
        return self.folder / "data"

    def settings(self) -> dict[str, object]:
        """The settings every program gets."""
        quick: dict[str, object] = {
            "data_dir": self.data,
            "database_url": self.database_url,
            "connect_to": f"*.test={self.swarm.ip}:{self.swarm.port}",
            "allow_networks": f"{self.swarm.ip}/32",
            "host_delay_ms": self.delay_ms,
            "lease_seconds": LEASE_SECONDS,
            "page_timeout_seconds": 2,
            "poll_check_seconds": 0.2,
            "retry_base_seconds": 0.1,
            "max_retries": 30,
            "listen_port": 0,
            "database_connections": 4,
            "log_level": "error",
            "fetch_processes": 1,  # a test names all of its programs; test_fetch_processes.py has the others
        }
        return quick | self.overrides

    async def start(
        self,
        *words: str,
        point: str | None = None,
        plant: str | None = None,
        namespace: str | None = None,
        **settings: object,
    ) -> Program:
        """Start a program; with a `point` it kills itself there, with a `plant` it has that bug."""
        order = Order(
            (point or "-", plant or "-", *words),
            str(self.folder),
            environment(**self.settings() | settings),
            namespace or self.namespace,
        )
        program = await asyncio.to_thread(self.fork_server.start, order)
        self.programs[program] = words
        return program

    async def until_held_back(self) -> None:
        """Wait until a program with a late commit has something to commit."""
        while not (self.folder / HELD_BACK).exists():
            await self.look_again()

    def let_go(self) -> None:
        """Let go on what is held back."""
        (self.folder / MAY_COMMIT).touch()

    async def let_commit(self) -> None:
        """Let it commit, and wait until it has."""
        self.let_go()
        while not (self.folder / COMMITTED).exists():
            await self.look_again()

    async def run(self, *words: str, point: str | None = None, plant: str | None = None, **settings: object) -> int:
        """Run a program to its end, with some settings of its own; return how it ended."""
        program = await self.start(*words, point=point, plant=plant, **settings)
        del self.programs[program]
        return await asyncio.wait_for(program.wait(), 60)

    async def kill(self, program: Program) -> tuple[str, ...]:
        """SIGKILL one program; return its words, to start another like it."""
        program.send_signal(signal.SIGKILL)
        await program.wait()
        self.kills += 1
        return self.programs.pop(program)

    async def run_until_killed(self, *, point: str | None = None, plant: str | None = None) -> None:
        """Run a program until it kills itself."""
        victim = await self.start("up", point=point, plant=plant)
        try:
            await asyncio.wait_for(victim.wait(), 30)
        except TimeoutError:
            raise AssertionError(f"{point or plant!r} was not reached") from None
        assert victim.returncode == -signal.SIGKILL
        del self.programs[victim]

    async def let_leases_end(self) -> None:
        """Let the database's clock jump past all leases, and pauses of hosts, while nothing runs that goes by it."""
        assert not self.programs
        await step_clock(self.database_url, LEASE_SECONDS)

    async def release_hosts(self) -> None:
        """Release the hosts that did not answer, as an operator does: they would get no request for ten minutes.

        A release also ends the pause that a host asked for, so such a host is released after its pause.
        """
        settings = Settings(database_url=self.database_url, data_dir=self.data)
        failing = "SELECT host FROM host_state WHERE failure IS NOT NULL"
        async with open_database_context(settings) as context:
            while hosts := {host for (host,) in await self.rows(failing)}:
                now = time.monotonic()
                recent = {
                    visit.host for visit in self.swarm.requests if visit.ended + max(visit.pause, 0.5) > now - 0.5
                }
                for host in hosts - recent:
                    await context.database.transact(open_host, host, context.clock.now(), self.delay_ms)
                await self.look_again()

    async def freeze(self, program: Program) -> None:
        """Stop a program in its tracks, as when a laptop's lid is closed, at a moment when it has something claimed."""
        held = "SELECT FROM frontier_queue WHERE lease_holder LIKE $1 FOR UPDATE SKIP LOCKED"
        program.send_signal(signal.SIGSTOP)
        while not await self.rows(held, f"%:{program.pid}:%"):
            program.send_signal(signal.SIGCONT)
            await asyncio.sleep(0.01)
            program.send_signal(signal.SIGSTOP)

    async def stop(self) -> None:
        """SIGTERM every program and wait for it."""
        for program in self.programs:
            program.send_signal(signal.SIGTERM)
        await asyncio.gather(*(asyncio.wait_for(program.wait(), 20) for program in self.programs))
        self.programs.clear()

    async def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Ask the database from outside; while it is away, ask again."""
        give_up = time.monotonic() + 30
        while True:
            try:
                if self._connection is None:
                    self._connection = await asyncpg.connect(self.database_url, timeout=5)
                return [tuple(row) for row in await self._connection.fetch(query, *arguments, timeout=10)]
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                self.hang_up()
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(0.05)

    async def execute(self, statement: str, *arguments: object) -> None:
        """Change the database from outside."""
        await self.rows(statement, *arguments)

    def hang_up(self) -> None:
        """Close the connection to the database, if there is one."""
        if self._connection:
            self._connection.terminate()
        self._connection = None

    async def progress(self) -> tuple[int, int]:
        """How many URLs have ended, and how many are known."""
        ((ended, known),) = await self.rows(
            "SELECT count(*) FILTER (WHERE status <> 'pending'), count(*) FROM url_frontier"
        )
        return ended, known

    async def until_done(self, seconds: float = 120) -> None:
        """Wait until every URL of the swarm has ended. Hosts that did not answer wait for a few seconds only."""
        give_up = time.monotonic() + seconds
        while (done := await self.progress()) != (self.swarm.size, self.swarm.size):
            await self.execute(_SHORTEN_WAITS)
            if time.monotonic() > give_up:
                left = await self.rows(_LEFT) + await self.rows(_LEFT_POLLS)
                raise AssertionError(f"only {done} of {self.swarm.size} URLs ended; left are {left}")
            await self.look_again(0.1)

    async def until_under_way(self, part: float = 0.05) -> None:
        """Wait until some of the URLs have ended."""
        while (await self.progress())[0] < self.swarm.size * part:
            await self.look_again()

    async def until_logged(self, reason: str, times: int = 1) -> None:
        """Wait until so many attempts have ended like that."""
        while len(await self.rows("SELECT FROM fetch_log WHERE reason = $1 LIMIT $2", reason, times)) < times:
            await self.look_again()

    async def until_delivered(self, times: int) -> None:
        """Wait until so many deliveries were taken by their receivers."""
        taken = "SELECT FROM deliveries WHERE status = 'delivered' LIMIT $1"
        while len(await self.rows(taken, times)) < times:
            await self.look_again()

    async def until_handed_off(self, seconds: float = 60) -> None:
        """Wait until no hand-off waits for its job, and no job for its page."""
        left = (
            "SELECT FROM ingestion_handoffs WHERE status IN ('queued', 'running') "
            "UNION ALL SELECT FROM ingestion_jobs WHERE status = 'queued'"
        )
        async with asyncio.timeout(seconds):
            while await self.rows(left):
                await self.look_again()

    async def look_again(self, seconds: float = 0.02) -> None:
        """Wait for a moment. No program may end by itself meanwhile."""
        for program, words in list(self.programs.items()):
            if self.is_supervised and program.returncode == OPERATOR_ERROR:
                del self.programs[program]
                self.refusals += 1
                await self.start(*words)
                continue
            assert program.returncode is None, f"{' '.join(words)} ended by itself ({program.returncode})"
        await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def open_harness(
    *,
    folder: Path,
    database_url: str,
    fork_server: ForkServer,
    hosts: int,
    pages: int,
    feeds: int = 1,
    delay_ms: int = 50,
    plain: bool = False,
    programs: Iterable[str] = (),
    troubles: Sequence[Trouble] = TROUBLES,
    network: Network | None = None,
    **overrides: object,
) -> AsyncIterator[Harness]:
    """Make a web of `hosts` times `pages` URLs and a source for each of its feeds; start `programs`.

    In a plain web nothing is wrong with any page: for a test that counts, or that shows one thing only.
    """
    where: dict[str, Any] = {"ip": network.web_address, "listen": network.listen} if network else {}
    namespace = network.for_programs if network else None
    troubles = [untroubled] if plain else troubles
    async with Swarm(hosts=hosts, pages=pages, feeds=feeds, troubles=troubles, **where) as swarm:
        harness = Harness(folder, swarm, database_url, fork_server, delay_ms, overrides, namespace)
        try:
            await _prepare(harness)
            for words in programs:
                await harness.start(*words.split())
            yield harness
        finally:
            for program in harness.programs:
                program.send_signal(signal.SIGKILL)
                await program.wait()
            harness.hang_up()


async def _prepare(harness: Harness) -> None:
    """Make a clock that can jump, migrate, and add the sources as rows that are due at once."""
    await make_clock(harness.database_url)
    await schema.up(Settings(database_url=harness.database_url, data_dir=harness.data))
    await harness.execute(
        "WITH added AS (INSERT INTO sources (name, kind, settings, created_at) "
        "SELECT 's' || n, 'site', jsonb_build_object('feed_url', url, 'concurrency', 100), now() "
        "FROM unnest($1::text[]) WITH ORDINALITY AS f (url, n) RETURNING id) "
        "INSERT INTO poll_state (source_id, next_poll_at) SELECT id, now() FROM added",
        [feed.url for feed in harness.swarm.expected.feeds.values()],
    )
