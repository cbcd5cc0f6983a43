"""Compare whole crawls, from the address to the stored text: python -m bench.pipeline [--quick] [--json].

A small server has the first core. Each crawler has the second core with all its processes and its database, then both.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qs, urlsplit

import msgspec
import psutil

from bench.peers import BENCH, Unavailable, make_environment
from bench.pipeline_web import list_urls
from bench.report import Figure, Target
from bench.running import make_parser, run_bench
from bench.server import connect, new_database, settle
from bench.sql import read_queries
from bench.steps import Steps
from headwater import __version__

PEERS = {
    "scrapy": "Scrapy, keeps nothing",
    "scrapy-text": "Scrapy + trafilatura fast, text only",
    "scrapy-metadata": "Scrapy + trafilatura fast, metadata too",
    "crawlee": "Crawlee + trafilatura fast, text only",
}
OURS = "Headwater"
CORES = {"one core": [1], "two cores": [0, 1]}
PATIENCE_SECONDS = 900.0
AT_ONCE = 32  # requests, as in pipeline_peer.py
HEADWATER = Path(sys.executable).with_name("headwater")
_QUERIES = read_queries("pipeline.sql")


class Asked(msgspec.Struct, frozen=True):
    """The requests that reached the web."""

    pages: int
    robots: int
    bytes: int
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class Crawl:
    """One crawl of all pages, and the texts by address. A crawler that keeps nothing has none."""

    pages: int
    seconds: float  # from the first request of a page until the crawler had stored all
    cpu_seconds: float  # of all its processes and its database, during the whole run
    version: str
    texts: dict[str, str]

    @property
    def rate(self) -> float:
        """Pages per second."""
        return self.pages / self.seconds

    @property
    def cpu_ms(self) -> float:
        """CPU time per page."""
        return self.cpu_seconds / self.pages * 1000


Outcome: TypeAlias = tuple[float, float, str, dict[str, str]]  # when it ended, CPU seconds, version, texts


class Incomplete(Exception):
    """A crawler did other work than the others."""


class Web:
    """The process of the web."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.port = port

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator["Web"]:
        """Start the process on the first core. It ends with the block."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.pipeline_web", stdin=pipe, stdout=pipe, preexec_fn=_take_first_core
        )
        assert process.stdout
        try:
            yield cls(process, int(await process.stdout.readline()))
        finally:
            process.kill()
            await process.wait()

    async def asked(self) -> Asked:
        """Return the requests since the last call."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(b"\n")
        return msgspec.convert(json.loads(await self._process.stdout.readline()), Asked, strict=False)


def _take_first_core() -> None:
    os.sched_setaffinity(0, [0])


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--pages", type=int, help="pages of a crawl: 1500")
    parser.add_argument("--hosts", type=int, default=300, help="hosts of the pages: 300")
    options = parser.parse_args()
    options.pages = options.pages or (300 if options.quick else 1_500)
    options.rounds = options.rounds or 1
    return options


async def measure(server: str, folder: Path, steps: Steps, options: argparse.Namespace) -> list[Figure]:
    """Measure each crawler in turn, first on one core, then on two."""
    figures, crawls, python = list[Figure](), dict[tuple[str, str], Crawl](), None
    if options.peers:
        with steps.step("peers: environment", None):
            try:
                python = await make_environment("pipeline")
            except Unavailable as error:
                figures.append(Figure("peers", "peers", None, note=str(error)))
    async with Web.open() as web:
        urls = list_urls(web.port, options.pages, options.hosts)
        for where, cores in CORES.items():
            for name in (*PEERS, OURS) if python else (OURS,):
                with steps.step(f"{name}, {where}", options.rounds) as advance:
                    for _ in range(options.rounds):
                        crawl = await _crawl(name, server, folder, web, urls, cores, python)
                        crawls[where, name] = max(crawl, crawls.get((where, name), crawl), key=lambda one: one.rate)
                        advance(1)
    for where in CORES:
        figures += _make_rows(where, {name: crawl for (at, name), crawl in crawls.items() if at == where})
    one, two = crawls["one core", OURS], crawls["two cores", OURS]
    figures.append(Figure("cores_ratio", f"{OURS}: two cores over one", two.rate / one.rate, "x", Target(">=", 1.9)))
    return figures


async def _crawl(
    name: str, server: str, folder: Path, web: Web, urls: Sequence[str], cores: list[int], python: Path | None
) -> Crawl:
    """Run one crawler. Raises Incomplete if it did not fetch each page and each robots.txt once."""
    await web.asked()
    listed = folder / "urls.txt"
    listed.write_text("\n".join(urls) + "\n", encoding="ascii")
    if name == OURS:
        ended, cpu_seconds, version, texts = await _run_ours(server, folder, web.port, listed, cores)
    else:
        assert python
        ended, cpu_seconds, version, texts = await _run_peer(name, folder, listed, cores, python)
    asked, hosts = await web.asked(), len({url.split("/")[2] for url in urls})
    if asked.pages != len(urls) or asked.robots < hosts:
        raise Incomplete(f"{name}: the web has {len(urls)} pages on {hosts} hosts, and was asked {asked}")
    return Crawl(len(urls), ended - asked.first, cpu_seconds, version, texts)


async def _run_peer(name: str, folder: Path, listed: Path, cores: list[int], python: Path) -> Outcome:
    kept = folder / "kept.jsonl"
    async with _started(folder, cores, python, BENCH / "pipeline_peer.py", name, listed, kept) as program:
        await program.process.wait()
        ended = time.time()
    version, _ = json.loads(program.output.splitlines()[-1])
    lines = map(json.loads, kept.read_text(encoding="utf-8").splitlines())
    return ended, program.cpu_seconds, version, {line["url"]: line.get("text") or "" for line in lines}


async def _run_ours(server: str, folder: Path, port: int, listed: Path, cores: list[int]) -> Outcome:
    """Submit all pages, and run `headwater up` until each is stored, or refused because it contains no text."""
    with tempfile.TemporaryDirectory(dir=folder) as data:
        async with new_database(server, "bench_pipeline") as dsn, connect(dsn) as connection:
            environment = {
                "HEADWATER_DATABASE_URL": dsn,
                "HEADWATER_DATA_DIR": data,
                "HEADWATER_LISTEN_PORT": "0",
                "HEADWATER_HOST_DELAY_MS": "0",
                "HEADWATER_FETCH_WORKERS": str(AT_ONCE),
                "HEADWATER_ALLOW_NETWORKS": "127.0.0.0/8",
                "HEADWATER_CONNECT_TO": f"*.demo.test=127.0.0.1:{port}",
            }
            for words in (("migrate", "up"), ("frontier", "submit", "--file", listed)):
                async with _started(folder, cores, HEADWATER, *words, **environment) as program:
                    await program.process.wait()
            await settle(connection)
            database = _pin_database(server, cores)
            before = sum(map(_cpu_seconds, database))
            async with _started(folder, cores, HEADWATER, "up", **environment) as program:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while await connection.fetchval(_QUERIES["count_waiting"]):
                        await asyncio.sleep(0.05)
                ended = time.time()
                program.process.terminate()
                await program.process.wait()
            spent = sum(map(_cpu_seconds, database)) - before
            texts = {row["url"]: row["body"] for row in await connection.fetch(_QUERIES["texts"])}
    return ended, program.cpu_seconds + spent, __version__, texts


class Program:
    """A started program. Its output and its CPU time are known when it has ended."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output = ""
        self.cpu_seconds = 0.0


@contextlib.asynccontextmanager
async def _started(folder: Path, cores: list[int], *command: object, **environment: str) -> AsyncIterator[Program]:
    """Run a program on these cores during the block. Raises Incomplete if it fails."""
    report, output = folder / "cpu.json", folder / "output.txt"
    words = [sys.executable, "-m", "bench.on_cores", ",".join(map(str, cores)), str(report), *map(str, command)]
    with output.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *words, stdout=file, stderr=asyncio.subprocess.STDOUT, env=os.environ | environment
        )
    program = Program(process)
    try:
        yield program
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    program.output = output.read_text(encoding="utf-8", errors="replace")
    if process.returncode:
        raise Incomplete(f"{' '.join(words[5:])} failed: {program.output[-500:]}")
    program.cpu_seconds = float(report.read_text(encoding="ascii"))


def _pin_database(server: str, cores: list[int]) -> list[psutil.Process]:
    """Pin the processes of the database server to these cores, and return them."""
    folder = Path(parse_qs(urlsplit(server).query)["host"][0])
    number = next(int(lock.read_text().splitlines()[0]) for lock in folder.glob(".s.PGSQL.*.lock"))
    leader = psutil.Process(number)
    found = [leader, *leader.children(recursive=True)]
    for process in found:
        process.cpu_affinity(cores)
    return found


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def _make_rows(where: str, crawls: dict[str, Crawl]) -> list[Figure]:
    ours, figures = crawls[OURS], list[Figure]()
    for name, crawl in crawls.items():
        key = f"{name.replace('-', '_').lower()}_{where.split()[0]}"
        note = f"{crawl.version}; {crawl.pages:,} pages"
        if crawl.texts and crawl is not ours:
            note += f"; texts {_compare(ours.texts, crawl.texts):.2f} like ours"
        figures += [
            Figure(f"{key}_rate", f"{PEERS.get(name, name)}: {where}", crawl.rate, "pages/s", note=note),
            Figure(
                f"{key}_cpu",
                f"{PEERS.get(name, name)}: CPU a page",
                crawl.cpu_ms,
                "ms",
                Target("<=", 3.5) if crawl is ours and where == "one core" else None,
            ),
        ]
    for name, least in (("scrapy-metadata", 4), ("scrapy-text", 3), ("scrapy", None), ("crawlee", None)):
        if name in crawls:
            target = Target(">=", least) if least and where == "one core" else None
            what = f"ours over {PEERS[name]}: {where}"
            figures.append(Figure(f"over_{name}_{where.split()[0]}", what, ours.rate / crawls[name].rate, "x", target))
    return figures


def _compare(ours: dict[str, str], theirs: dict[str, str]) -> float:
    """Return the mean F1 of the words of two sets of texts."""
    scores = []
    for url, text in theirs.items():
        left, right = Counter(ours.get(url, "").split()), Counter(text.split())
        shared = (left & right).total()
        scores.append(2 * shared / max(1, left.total() + right.total()))
    return sum(scores) / max(1, len(scores))


if __name__ == "__main__":
    run_bench("Whole crawls", measure, parse_options())
