"""One cycle over many feeds with Headwater's poller and with lemon24's reader."""

import asyncio
import contextlib
import gc
import json
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from datetime import date
from pathlib import Path

import msgspec

from bench.feed_bodies import SITEMAP_HOST, entries_of
from bench.feed_web import FeedWeb
from bench.peers import BENCH, make_environment, run
from bench.server import connect, new_database, settle
from bench.sql import read_queries
from bench.steps import Steps
from headwater.app.metrics import Metrics
from headwater.app.operations import Operations
from headwater.app.polling import PollerRole
from headwater.app.roles import run_roles
from headwater.app.runtime import Runtime, open_runtime
from headwater.core.poll import PollResult
from headwater.core.settings import Settings
from headwater.core.source import Method
from headwater.db.context import open_database_context

READER_WORKERS = 10
PATIENCE_SECONDS = 300.0
_QUERIES = read_queries("feeds.sql")


class Cycles(msgspec.Struct, frozen=True):
    """Feeds per second, all new and all unchanged."""

    first: float
    again: float
    version: str = ""
    too_soon: int = 0


class Incomplete(Exception):
    """A cycle had an unexpected result."""


def settings_for(dsn: str, folder: Path, web_port: int) -> Settings:
    """Return the default settings, led to the web on loopback."""
    return Settings(
        database_url=dsn,
        data_dir=folder,
        allow_networks=("127.0.0.0/8",),
        connect_to=(f"*.demo.test=127.0.0.1:{web_port}",),
    )


async def measure_ours(server: str, folder: Path, web: FeedWeb, steps: Steps) -> Cycles:
    """Poll all feeds as the poller role does, and then again without changes."""
    async with new_database(server, "bench_feeds") as dsn, open_poller(dsn, folder, web) as runtime:
        delay = runtime.context.settings.host_delay_ms / 1000
        await web.asked(delay)
        with steps.step("ours: first cycle", len(web.urls)) as advance:
            first = await poll_all(runtime, len(web.urls), advance)
        await _check_items(dsn, len(web.urls))
        asked = await web.asked(delay)
        async with connect(dsn) as connection:
            await settle(connection)
            await connection.execute(_QUERIES["all_due"])
        await asyncio.sleep(delay)  # the pause of the last host has ended too
        with steps.step("ours: unchanged cycle", len(web.urls)) as advance:
            again = await poll_all(runtime, len(web.urls), advance)
        asked_again = await web.asked(delay)
        if asked_again.statuses != {"304": len(web.urls)}:
            raise Incomplete(f"the unchanged cycle was answered {asked_again.statuses}")
    return Cycles(
        first=len(web.urls) / first,
        again=len(web.urls) / again,
        too_soon=len(asked.too_soon) + len(asked_again.too_soon),
    )


@contextlib.asynccontextmanager
async def open_poller(dsn: str, folder: Path, web: FeedWeb) -> AsyncIterator[Runtime]:
    """Open a runtime on an empty database, with all feeds of the web due now."""
    async with open_database_context(settings_for(dsn, folder, web.port)) as context, open_runtime(context) as runtime:
        operations = Operations(runtime, Metrics())
        for number, url in enumerate(web.urls):
            await operations.sources.create(f"paper-{number}", "site", {"feed_url": url})
        async with connect(dsn) as connection:
            await connection.execute(_QUERIES["all_due"])
        runtime.sandbox.start()
        yield runtime


async def poll_all(runtime: Runtime, feeds: int, advance: Callable[[int], None]) -> float:
    """Run the poller role until every feed is polled. Returns the seconds."""
    stop, polled, failed = asyncio.Event(), set[str](), list[PollResult]()

    def note(poll: PollResult) -> None:
        if poll.error is None:
            polled.add(poll.source.name)
            advance(1)
        else:
            failed.append(poll)
        if failed or len(polled) == feeds:
            stop.set()

    started = time.perf_counter()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await run_roles([PollerRole(runtime, note)], stop)
    if failed:
        raise Incomplete(f"{failed[0].source.name}: {failed[0].error}")
    return time.perf_counter() - started


async def _check_items(dsn: str, feeds: int) -> None:
    async with connect(dsn) as connection:
        items = await connection.fetchval(_QUERIES["count_items"])
    if items != entries_of(feeds):
        raise Incomplete(f"the first cycle brought {items} of {entries_of(feeds)} entries")


async def measure_sitemap(server: str, folder: Path, web: FeedWeb, steps: Steps) -> tuple[float, float]:
    """Read a large sitemap with its whole past. Returns its growth in MB and the longest block of the loop in ms."""
    async with (
        new_database(server, "bench_feeds") as dsn,
        open_database_context(settings_for(dsn, folder, web.port)) as context,
        open_runtime(context) as runtime,
    ):
        operations = Operations(runtime, Metrics())
        await operations.sources.create("maps", "site", {"sitemap_url": f"http://{SITEMAP_HOST}/sitemap.xml"})
        # The first reading starts the children, which stay.
        await operations.sources.sync("maps", Method.SITEMAP)
        gc.collect()
        with steps.step("ours: a sitemap and its past", web.addresses) as advance:
            watching = asyncio.create_task(_watch())
            before = _resident_mb()
            past = date(2000, 1, 1)
            polled = await operations.sources.backfill("maps", past, advance)
            watching.cancel()
            most, stall = await watching
    if polled.urls != web.addresses:
        raise Incomplete(f"the sitemap brought {polled.urls} of {web.addresses} addresses: {polled.error}")
    return most - before, stall


async def _watch() -> tuple[float, float]:
    """Return, when cancelled, the peak of resident MB and the longest block of the event loop in ms."""
    most, stall, last = _resident_mb(), 0.0, time.perf_counter()
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            most, stall, last = max(most, _resident_mb()), max(stall, now - last - 0.001), now
    return most, stall * 1000


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


async def measure_reader(folder: Path, web: FeedWeb, steps: Steps) -> Cycles:
    """Run the same cycle with lemon24's reader and its own database. Raises Unavailable."""
    with steps.step("reader: environment", None):
        python = await make_environment("feeds")
    with steps.step("reader: both cycles", None), tempfile.TemporaryDirectory(dir=folder) as name:
        database = f"{name}/reader.sqlite"
        plan = {"port": web.port, "urls": web.urls, "database": database, "workers": READER_WORKERS}
        result = json.loads(await run(python, BENCH / "reader_cycle.py", stdin=json.dumps(plan)))
    if result["entries"] != entries_of(len(web.urls)) or result["failed"]:
        raise Incomplete(f"reader brought {result['entries']} entries; {result['failed']} feeds failed")
    return Cycles(
        first=len(web.urls) / result["first"], again=len(web.urls) / result["again"], version=result["version"]
    )
