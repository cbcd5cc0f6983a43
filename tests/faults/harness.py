"""A harness that hurts the real program: real processes, a real PostgreSQL, a real web, and what must hold afterwards.

A test builds a `Harness`, starts programs, does them harm, waits until the crawl is done and calls `check()`. A new
fault is a method here or a point in victim.py; a new invariant is a function in invariants.py.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from headwater.store.embedded import EmbeddedServer, open_server
from tests.faults.network import Network
from tests.faults.swarm import Swarm
from tests.program import PROGRAM, environment

Program = asyncio.subprocess.Process
ROOT = Path(__file__).parents[2]
LEASE_SECONDS = 5.0


@dataclass
class Harness:
    """One crawl: a folder, a database, a web, and the programs that work on them."""

    folder: Path
    swarm: Swarm
    server: EmbeddedServer
    overrides: dict[str, object] = field(default_factory=dict)
    wrapped_by: tuple[str, ...] = ()  # the words that put a program into a network of its own
    programs: dict[asyncio.subprocess.Process, tuple[str, ...]] = field(default_factory=dict)
    kills: int = 0

    @property
    def data(self) -> Path:
        """The programs' data folder."""
        return self.folder / "data"

    def settings(self) -> dict[str, object]:
        """The settings every program gets."""
        quick: dict[str, object] = {
            "data_dir": self.data,
            "database_url": self.server.dsn,
            "connect_to": ",".join(self.swarm.connect_to),
            "allow_networks": f"{self.swarm.address}/32",
            "host_delay_ms": self.swarm.delay_ms,
            "lease_seconds": LEASE_SECONDS,
            "page_seconds": 2,
            "poll_look_seconds": 0.2,
            "retry_base_seconds": 0.1,
            "max_retries": 30,
            "listen_port": 0,
            "database_connections": 4,
            "log_level": "error",
        }
        return quick | self.overrides

    async def start(
        self, *words: str, point: str | None = None, plant: str | None = None
    ) -> asyncio.subprocess.Process:
        """Start a program; with a `point` it kills itself there, with a `plant` it has that bug."""
        command = [*PROGRAM]
        if point or plant:
            command = [sys.executable, "-m", "tests.faults.victim", point or "-", plant or "-"]
        program = await asyncio.create_subprocess_exec(
            *self.wrapped_by,
            *command,
            *words,
            env=environment(**self.settings()) | {"PYTHONPATH": os.pathsep.join([str(ROOT), *_search_path()])},
            cwd=self.folder,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL if not os.environ.get("FAULTS_LOUD") else None,
        )
        self.programs[program] = words
        return program

    async def kill(self, program: Program) -> tuple[str, ...]:
        """SIGKILL one program; return its words, to start another like it."""
        with contextlib.suppress(ProcessLookupError):
            program.kill()
        await program.wait()
        self.kills += 1
        return self.programs.pop(program)

    async def freeze(self, program: Program, seconds: float) -> None:
        """Stop a program in its tracks for a while, as a laptop's lid does."""
        program.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        program.send_signal(signal.SIGCONT)

    async def restart_database(self, *, how: signal.Signals) -> None:
        """End the database server, with SIGKILL or SIGINT, and bring it back at the same address."""
        (pid_file,) = (self.folder / "database").glob("postgres/*/cluster/postmaster.pid")
        pid = int(pid_file.read_text().split()[0])
        os.kill(pid, how)
        while _runs(pid):
            await asyncio.sleep(0.01)
        again = await asyncio.to_thread(open_server, self.folder / "database")
        assert again.dsn == self.server.dsn
        again.close()

    async def stop(self) -> None:
        """SIGTERM every program and wait for it."""
        for program in self.programs:
            with contextlib.suppress(ProcessLookupError):
                program.terminate()
        await asyncio.gather(*(asyncio.wait_for(program.wait(), 20) for program in self.programs))
        self.programs.clear()

    async def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Ask the database from outside; while it is away, ask again."""
        give_up = time.monotonic() + 30
        while True:
            try:
                connection = await asyncpg.connect(self.server.dsn, timeout=5)
                try:
                    return [tuple(row) for row in await connection.fetch(query, *arguments)]
                finally:
                    await connection.close(timeout=2)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(0.05)

    async def progress(self) -> tuple[int, int]:
        """How many URLs have ended, and how many are known."""
        ((ended, known),) = await self.rows(
            "SELECT count(*) FILTER (WHERE status <> 'pending'), count(*) FROM url_frontier"
        )
        return ended, known

    async def until_done(self, seconds: float = 120) -> None:
        """Wait until every URL of the swarm has ended."""
        give_up = time.monotonic() + seconds
        while (done := await self.progress()) != (self.swarm.size, self.swarm.size):
            assert time.monotonic() < give_up, f"only {done} of {self.swarm.size} URLs ended"
            await asyncio.sleep(0.1)

    async def until_claimed(self) -> None:
        """Wait until somebody has claimed something."""
        while not await self.rows("SELECT 1 FROM frontier_queue WHERE lease_token IS NOT NULL LIMIT 1"):
            await asyncio.sleep(0.02)

    async def until_under_way(self, part: float = 0.05) -> None:
        """Wait until some of the URLs have ended."""
        while (await self.progress())[0] < self.swarm.size * part:
            await asyncio.sleep(0.02)


def _search_path() -> list[str]:
    return [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextlib.asynccontextmanager
async def open_harness(
    folder: Path,
    *,
    hosts: int,
    pages: int,
    feeds: int = 1,
    delay_ms: int = 50,
    programs: Iterable[str] = (),
    network: Network | None = None,
    **overrides: object,
) -> AsyncIterator[Harness]:
    """Make a database, a web of `hosts` times `pages` URLs, and a source for each of its feeds; start `programs`."""
    server = await asyncio.to_thread(open_server, folder / "database")
    where: dict[str, Any] = {"address": network.web_address, "listen": network.listen} if network else {}
    async with Swarm(hosts=hosts, pages=pages, feeds=feeds, delay_ms=delay_ms, **where) as swarm:
        harness = Harness(folder, swarm, server, overrides, network.wrapped_by if network else ())
        try:
            await _prepare(harness)
            for words in programs:
                await harness.start(*words.split())
            yield harness
        finally:
            for program in harness.programs:
                with contextlib.suppress(ProcessLookupError):
                    program.kill()
                await program.wait()
            await asyncio.to_thread(server.close)


async def _prepare(harness: Harness) -> None:
    """Migrate, and add the sources as rows that are due at once."""
    migrating = await harness.start("migrate", "up")
    assert await migrating.wait() == 0
    del harness.programs[migrating]
    await harness.rows(
        "WITH added AS (INSERT INTO sources (name, kind, settings, created_at) "
        "SELECT 's' || n, 'feed', jsonb_build_object('feed_url', url), now() "
        "FROM unnest($1::text[]) WITH ORDINALITY AS f (url, n) RETURNING id) "
        "INSERT INTO feed_state (source_id, next_poll_at) SELECT id, now() FROM added",
        harness.swarm.feeds,
    )
