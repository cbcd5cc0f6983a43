"""Measure the pages at size, through a real server: python -m bench.pages [--quick] [--data FOLDER] [--only PART]."""

import argparse
import asyncio
import contextlib
import os
import random
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp
import psutil

from bench.adapter import open_server
from bench.report import Figure, Target
from bench.running import make_parser, run_bench
from bench.server import Connection, connect
from bench.sql import read_queries
from bench.steps import Steps
from bench.timing import percentile

HEADWATER = Path(sys.executable).with_name("headwater")
SLOWEST_MS, LARGEST_BYTES = 100, 150_000
_BATCH = 100_000
_PATIENCE_SECONDS = 120.0
_LARGE_SOURCES = 10  # see make_pages in pages.sql
_QUERIES = read_queries("pages.sql")


@dataclass(frozen=True, slots=True)
class Size:
    """The numbers of rows."""

    documents: int
    urls: int
    sources: int

    @property
    def hosts(self) -> int:
        return 3 * self.sources


FULL = Size(1_000_000, 5_000_000, 2000)
QUICK = Size(20_000, 100_000, 200)


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    for name in ("documents", "urls", "sources"):
        parser.add_argument(f"--{name}", type=int, help=f"how many {name} ({getattr(FULL, name):,} by default)")
    parser.add_argument("--turns", type=int, help="how often each page is requested")
    parser.add_argument("--data", type=Path, help="keep the filled data folder here, and use it again")
    parser.add_argument("--only", default="", help="measure only the pages whose names contain this")
    options = parser.parse_args()
    usual = QUICK if options.quick else FULL
    options.size = Size(*(getattr(options, name) or getattr(usual, name) for name in ("documents", "urls", "sources")))
    options.turns = options.turns or (20 if options.quick else 60)
    return options


async def measure(_server: str, folder: Path, steps: Steps, options: argparse.Namespace) -> list[Figure]:
    """Fill a database, and request each page."""
    data = options.data or folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(open_server(data)) as server:
        async with _started(data) as base:
            pass  # it makes the schema
        async with connect(server.dsn) as connection:
            now = datetime.now(UTC)
            started = time.perf_counter()
            if not await connection.fetchval("SELECT EXISTS (SELECT FROM documents)"):
                await fill(connection, options.size, now, steps)
            filling = time.perf_counter() - started
            sizes = await connection.fetchrow(_QUERIES["sizes"])
            assert sizes
            paths = await choose_paths(connection)
        async with _started(data) as base, _signed_in(base) as session:
            figures = await _measure_pages(session, base, paths, _Meter(server.dsn), steps, options)
    note = f"{sizes['documents']:,} documents, {sizes['urls']:,} URLs, {sizes['sources']:,} sources"
    return [*figures, Figure("fill", "fill the database", filling, "s", note=f"{note}; {sizes['bytes'] / 1e9:.1f} GB")]


async def fill(connection: Connection, size: Size, now: datetime, steps: Steps) -> None:
    """Fill a migrated, empty database. The rows are correct by construction, so no trigger and no foreign key runs."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    await connection.execute(
        "SET session_replication_role = replica; SET synchronous_commit = off; SET work_mem = '128MB'; "
        "SET maintenance_work_mem = '512MB'"
    )
    indexes = await connection.fetch(_QUERIES["indexes"])
    for index in indexes:
        await connection.execute(
            f"ALTER TABLE {index['table_name']} DROP CONSTRAINT {index['constraint_name']}"
            if index["constraint_name"]
            else f"DROP INDEX {index['index_name']}"
        )
    await _run(connection, "add_sources", size.sources, now)
    await _run(connection, "add_polls", now)
    await _run(connection, "add_hosts", size.hosts, now)
    await connection.execute(_QUERIES["make_words"], timeout=_LONG)
    with steps.step("fill", size.urls) as advance:
        for first in range(1, size.urls + 1, _BATCH):
            last = min(first + _BATCH - 1, size.urls)
            counts = (size.documents, size.urls, size.sources, size.hosts)
            await connection.execute(_inline("make_pages", first, last, *counts, now, midnight), timeout=_LONG)
            for name, arguments in _tables_of(size.documents, now):
                await _run(connection, name, *arguments)
            await connection.execute(_QUERIES["drop_pages"])
            advance(last - first + 1)
    with steps.step("index", len(indexes)) as advance:
        for index in indexes:
            await connection.execute(
                f"ALTER TABLE {index['table_name']} ADD CONSTRAINT {index['constraint_name']} "
                f"{index['constraint_definition']}"
                if index["constraint_name"]
                else index["index_definition"],
                timeout=_LONG,
            )
            advance(1)
    with steps.step("finish", None):
        await _run(connection, "add_runs", size.sources, now)
        await _run(connection, "add_days_read", size.sources, now)
        await _run(connection, "add_poll_log", size.sources, now)
        await _run(connection, "add_source_days", size.sources, now)
        await _run(connection, "add_history", now)
        await _run(connection, "add_webhook", now)
        await _run(connection, "add_deliveries", now)
        await connection.execute(_QUERIES["add_counts"], timeout=_LONG)
        await connection.execute("VACUUM (ANALYZE)", timeout=_LONG)
        await connection.execute("CHECKPOINT", timeout=_LONG)


_LONG = 7200


def _tables_of(documents: int, now: datetime) -> Iterator[tuple[str, tuple[object, ...]]]:
    yield "add_urls", (documents,)
    yield "add_queue", (documents, now)
    yield "add_fetches", (documents, now)
    for name in (
        "items",
        "days",
        "texts",
        "documents",
        "revisions",
        "old_texts",
        "search",
        "changes",
        "jobs",
        "handoffs",
    ):
        yield f"add_{name}", (documents,)


async def _run(connection: Connection, name: str, *arguments: object) -> None:
    await connection.execute(_QUERIES[name], *arguments, timeout=_LONG)


def _inline(name: str, *arguments: object) -> str:
    """Write the arguments into a statement that takes none: CREATE TABLE AS."""
    text = _QUERIES[name]
    for number, argument in reversed(list(enumerate(arguments, 1))):
        text = text.replace(f"${number}", str(argument) if isinstance(argument, int) else f"'{argument}'")
    return text


@contextlib.asynccontextmanager
async def _started(data: Path) -> AsyncIterator[str]:
    """Run `headwater up` during the block. Yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "HEADWATER_DATA_DIR": str(data),
        "HEADWATER_LISTEN_PORT": str(port),
        "HEADWATER_API_TOKEN": _TOKEN,
        "HEADWATER_TIMEZONE": "UTC",
        "HEADWATER_LOG_LEVEL": "warning",
    }
    with (data / "up.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            str(HEADWATER), "up", stdout=log, stderr=asyncio.subprocess.STDOUT, env=_plain_environment() | environment
        )
    try:
        base = f"http://127.0.0.1:{port}"
        await _wait_until_it_answers(base, process, data / "up.log")
        yield base
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


_TOKEN = secrets.token_hex(20)


def _plain_environment() -> dict[str, str]:
    """Return the environment without settings of Headwater and names of corpora."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}


async def _wait_until_it_answers(base: str, process: asyncio.subprocess.Process, log: Path) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS), aiohttp.ClientSession() as session:
        while process.returncode is None:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{base}/health"):
                    return
            await asyncio.sleep(0.05)
    raise SystemExit(f"headwater up ended; {log} has its output")


@contextlib.asynccontextmanager
async def _signed_in(base: str) -> AsyncIterator[aiohttp.ClientSession]:
    """Open a session of an administrator, who sees the most on each page."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar, headers={"Accept": "text/html"}) as session:
        async with session.post(f"{base}/ui/sign-in", data={"token": _TOKEN}, headers={"Origin": base}) as response:
            response.raise_for_status()
        yield session


MakePath = Callable[[random.Random], str]


async def choose_paths(connection: Connection) -> dict[str, MakePath]:
    """Return for each page a function that makes an address with other values each time."""
    row = await connection.fetchrow(
        "SELECT (SELECT max(id) FROM documents) AS documents, (SELECT max(id) FROM url_frontier) AS urls, "
        "(SELECT max(id) FROM sources) AS sources, (SELECT max(id) FROM runs) AS runs, "
        "(SELECT max(day) FROM daily_index) AS day, (SELECT count(*) FROM host_state) AS hosts"
    )
    assert row
    documents, sources, day = row["documents"], row["sources"], row["day"]
    rare = await connection.fetchval(
        "SELECT reason FROM frontier_counts WHERE reason IS NOT NULL ORDER BY urls LIMIT 1"
    )
    marks = random.Random(5).sample(range(1, row["urls"]), 300)
    urls = [r["url"] for r in await connection.fetch("SELECT url FROM url_frontier WHERE id = ANY ($1)", marks)]

    def source(chance: random.Random) -> str:
        return f"site-{chance.randint(_LARGE_SOURCES + 1, sources):04}"

    def large(chance: random.Random) -> str:
        return f"site-{chance.randint(1, _LARGE_SOURCES):04}"

    def earlier(chance: random.Random) -> str:
        return str(day - timedelta(days=chance.randint(1, 300)))

    def host(chance: random.Random) -> str:
        return f"www.site-{chance.randint(1, row['hosts'])}.example"

    def words(chance: random.Random, most: int = 20_000) -> str:
        return "+".join(f"w{int(most ** chance.random())}" for _ in range(2))

    def number(chance: random.Random, most: int, of: int = 1) -> int:
        return chance.randint(1, max(1, most // of)) * of

    return {
        f"today, {await _count_day(connection, day):,} items": lambda _: "today",
        "today, one source": lambda c: f"today?source={large(c)}",
        "today, one category": lambda c: f"today?category=sector-{c.randint(0, 11)}",
        "today, one topic": lambda c: f"today?topic=topic-{c.randint(0, 299)}",
        "today, LATEST": lambda _: "today?bucket=LATEST",
        f"a day, {await _count_day(connection, day - timedelta(days=9)):,} items": lambda c: f"days/{earlier(c)}",
        "since I last looked": lambda _: "since",
        "a document": lambda c: f"documents/{number(c, documents)}",
        "a long document": lambda c: f"documents/{min(number(c, documents, 5000) + 7, documents)}",
        "a diff": lambda c: f"documents/{number(c, documents, 10)}/diff",
        "search": lambda c: f"search?q={words(c)}",
        "search, common words": lambda c: f"search?q={words(c, 50)}",
        "search in a source": lambda c: f"search?q={words(c)}&source={source(c)}",
        "why": lambda c: f"why?url={c.choice(urls)}",
        "sources": lambda _: "sources",
        "sources, later page": lambda c: f"sources?after=on_time:{source(c)}",
        "sources that fail": lambda _: "sources?health=failing",
        "sources by name": lambda c: f"sources?name={source(c)[:-1]}",
        "a source": lambda c: f"sources/{source(c)}",
        "a large source": lambda c: f"sources/{large(c)}",
        "edit a source": lambda c: f"sources/{source(c)}/edit",
        "frontier": lambda _: "frontier",
        "URLs": lambda c: f"frontier/urls?after={number(c, row['urls'])}",
        "URLs, dead": lambda _: "frontier/urls?status=dead",
        "URLs, pending": lambda _: "frontier/urls?status=pending",
        "URLs, a rare reason": lambda _: f"frontier/urls?reason={rare}",
        "URLs, a frequent reason": lambda _: "frontier/urls?reason=not_found",
        "URLs of a host": lambda c: f"frontier/urls?host={host(c)}",
        "URLs of a source": lambda c: f"frontier/urls?source={large(c)}",
        "dead URLs of a source": lambda c: f"frontier/urls?source={large(c)}&status=dead",
        "pending URLs of a source": lambda c: f"frontier/urls?source={large(c)}&status=pending",
        "a rare reason of a source": lambda c: f"frontier/urls?source={large(c)}&reason={rare}",
        "hosts": lambda c: f"hosts?after={host(c)}",
        "hosts, blocked": lambda _: "hosts?state=blocked",
        "hosts, in use": lambda _: "hosts?state=in_use",
        "a host": lambda c: f"hosts/{host(c)}",
        "runs": lambda c: f"runs?before={number(c, row['runs'])}",
        "runs of a source": lambda c: f"runs?source={source(c)}",
        "runs that failed": lambda _: "runs?status=failed",
        "runs that run": lambda _: "runs?status=running",
        "runs of a day": lambda c: f"runs?day={day - timedelta(days=c.randint(0, 40))}",
        "a run": lambda c: f"runs/{number(c, row['runs'])}",
        "completeness of today": lambda _: f"completeness/{day}",
        "completeness of today, one source": lambda c: f"completeness/{day}?source={large(c)}",
        "completeness of a day": lambda c: f"completeness/{earlier(c)}",
        "hand-offs": lambda _: "handoffs",
        "hand-offs that failed": lambda _: "handoffs?status=failed",
        "hand-offs that run": lambda _: "handoffs?status=running",
        "hand-offs of a source": lambda c: f"handoffs?source={large(c)}",
        "hand-offs of a run": lambda c: f"handoffs?run={number(c, row['runs'])}",
        "jobs": lambda _: "jobs",
        "jobs that failed": lambda _: "jobs?status=failed",
        "jobs that run": lambda _: "jobs?status=running",
        "jobs by reason": lambda _: "jobs?reason=not_found",
        "jobs by a reason that none has": lambda _: "jobs?reason=timeout",
        "jobs of a source": lambda c: f"jobs?source={large(c)}",
        "webhooks": lambda _: "webhooks",
        "a webhook": lambda _: "webhooks/desk",
        "a webhook, parked": lambda _: "webhooks/desk?status=parked",
        "system": lambda c: f"system?offset={c.randint(0, sources // 25 - 1) * 25}",
        "saved searches": lambda _: "saved-searches",
        "feed addresses": lambda _: "feed-addresses",
        "submit": lambda _: "submit",
        "add a source": lambda _: "add-source",
    }


async def _count_day(connection: Connection, day: object) -> int:
    value: int = await connection.fetchval("SELECT count(*) FROM daily_index WHERE day = $1", day)
    return value


class _Meter:
    """Reads the CPU time of Headwater and of its database. Other programs do not change it as they change the time."""

    def __init__(self, dsn: str) -> None:
        folder = Path(parse_qs(urlsplit(dsn).query)["host"][0])
        leader = next(int(lock.read_text().splitlines()[0]) for lock in folder.glob(".s.PGSQL.*.lock"))
        self._roots = [psutil.Process(leader), psutil.Process()]

    def read(self) -> float:
        """Return the CPU seconds of all processes that run now."""
        seconds = 0.0
        for process in [one for root in self._roots for one in root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                seconds += times.user + times.system
        return seconds


async def _measure_pages(
    session: aiohttp.ClientSession,
    base: str,
    paths: dict[str, MakePath],
    meter: _Meter,
    steps: Steps,
    options: argparse.Namespace,
) -> list[Figure]:
    chosen = {name: make for name, make in paths.items() if options.only in name}
    chance = random.Random(3)
    figures = []
    with steps.step("request", len(chosen) * options.turns) as advance:
        for name, make in chosen.items():
            laps, sizes, errors, spent = list[float](), list[int](), set[int](), 0.0
            for turn in range(options.turns + 2):
                path = make(chance)
                started = time.perf_counter()
                async with session.get(f"{base}/ui/{path}") as response:
                    body = await response.read()
                    if response.status != 200:
                        errors.add(response.status)
                if turn > 1:  # the first two warm the page up
                    laps.append(time.perf_counter() - started)
                    sizes.append(len(body))
                    advance(1)
                else:
                    spent = meter.read()
            cpu = (meter.read() - spent) / options.turns
            note = (
                f"p50 {percentile(laps, 50) * 1000:.0f} ms, CPU {cpu * 1000:.0f} ms, at most {max(sizes) / 1000:.0f} kB"
            )
            if errors:
                note += f", status {', '.join(map(str, sorted(errors)))}"
            if max(sizes) > LARGEST_BYTES:
                note += f": larger than {LARGEST_BYTES / 1000:.0f} kB"
            is_bad = errors or max(sizes) > LARGEST_BYTES
            target = Target("<=", -1 if is_bad else SLOWEST_MS)
            figures.append(Figure(f"page:{name}", name, percentile(laps, 95) * 1000, "ms", target, note))
    return figures


if __name__ == "__main__":
    run_bench("Pages, p95", measure, parse_options(), needs_server=False)
