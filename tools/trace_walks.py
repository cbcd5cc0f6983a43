"""Count the code that four walks pass, on real parts: python -m tools.trace_walks [--list].

A walk is one feed poll, one page fetch, one GOV.UK run up to its jobs, or one search. Only product code in this
process counts. Comprehensions, lambdas and generated methods are no functions. A folder switch is a change of folder
in the list of functions by their first call: a reader who follows the walk makes it.
"""

import asyncio
import contextlib
import dis
import logging
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import structlog

from headwater.app.metrics import Metrics
from headwater.app.operations import Operations
from headwater.app.roles import make_fetch_pool
from headwater.app.runtime import Runtime, open_runtime
from headwater.core.run import Trigger
from headwater.core.settings import Settings
from headwater.db import sources
from headwater.db.context import open_database_context
from headwater.db.sources import PollClaim
from headwater.demo.plan import Site
from headwater.demo.sites import SITES
from headwater.demo.web import DemoWeb

_HOST = "gazette.demo.test"
_NOT_PRODUCT = ("headwater.demo", "headwater.app.metrics")


class Size(NamedTuple):
    """How much code a walk passes."""

    functions: int
    modules: int
    switches: int


# The limits of the rebuilt house, and the most that each later feature may add to a walk.
HOUSE = {"poll": Size(120, 30, 45), "fetch": Size(80, 22, 35), "run": Size(150, 40, 60), "search": Size(6, 5, 4)}
ADDED = {
    "poll": {
        "concurrency of a source in all processes": Size(9, 2, 8),
        "robots.txt of hosts that did not answer": Size(1, 1, 1),
        "flaws of feeds, and pages that are too old": Size(4, 2, 3),
        "bodies that the sandbox reads from shared memory": Size(9, 1, 2),
    },
    "fetch": {
        "concurrency of a source in all processes": Size(8, 2, 7),
        "robots.txt of hosts that did not answer": Size(1, 1, 2),
        "words of a document for search": Size(4, 1, 5),
        "paragraphs that recur on a site": Size(11, 2, 7),
        "bodies that the sandbox reads from shared memory": Size(9, 1, 2),
        "batches of raw files and documents": Size(7, 0, 3),
    },
    "run": {
        "concurrency of a source in all processes": Size(10, 1, 11),
        "help with a 403": Size(2, 0, 2),
        "flaws of feeds, and pages that are too old": Size(4, 0, 3),
        "bodies that the sandbox reads from shared memory": Size(9, 1, 2),
    },
    "search": {"query language, filters, pages and highlights": Size(36, 4, 10), "stories": Size(1, 1, 1)},
}
LIMITS = {
    walk: Size(*map(sum, zip(limit, *ADDED[walk].values(), strict=True)))  # each count is the sum of all
    for walk, limit in HOUSE.items()
}


class Walk:
    """The functions of one walk, each as its module and its name, in the order of their first calls."""

    def __init__(self) -> None:
        self.functions: dict[tuple[str, str], None] = {}

    @property
    def size(self) -> Size:
        """The counts that have limits."""
        folders = [module.rpartition(".")[0] for module, _ in self.functions]
        switches = sum(one != other for one, other in pairwise(folders))
        return Size(len(self.functions), len({module for module, _ in self.functions}), switches)

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the calls that this thread makes during the block."""
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        module, code = str(frame.f_globals.get("__name__")), frame.f_code
        if event != "call" or not module.startswith("headwater.") or module.startswith(_NOT_PRODUCT):
            return
        if not (
            code.co_qualname.endswith(">") or code.co_filename.startswith("<") or frame.f_lasti > _first_step(code)
        ):
            self.functions[(module, code.co_qualname)] = None


@cache
def _first_step(code: CodeType) -> int:
    """Return the place where a call begins: a coroutine that continues is at a later one."""
    return next(step.offset for step in dis.get_instructions(code) if step.opname == "RESUME")


async def trace_walks() -> dict[str, Walk]:
    """Walk all four ways on an embedded server and a web on loopback."""
    with tempfile.TemporaryDirectory() as folder:
        async with DemoWeb(today=datetime.now(UTC).date(), sites=_without_first_piece(SITES)) as web:
            settings = Settings(
                data_dir=Path(folder),
                allow_networks=("127.0.0.0/8",),
                connect_to=(f"*.demo.test={web.ip}:{web.port}",),
                host_delay_ms=0,
            )
            async with open_database_context(settings) as context, open_runtime(context) as runtime:
                runtime.sandbox.start()
                return await _walk_all(runtime, web)


def _without_first_piece(sites: Iterable[Site]) -> tuple[Site, ...]:
    return tuple(replace(site, pieces=site.pieces[1:]) if site.host == _HOST else site for site in sites)


async def _walk_all(runtime: Runtime, web: DemoWeb) -> dict[str, Walk]:
    """Trace the usual case of each walk: a feed that was read before has a new entry, and its page is fetched."""
    walks = {name: Walk() for name in LIMITS}
    operations = Operations(runtime, Metrics())
    home = f"http://{_HOST}/"
    await operations.sources.create("gazette", "site", {"site_url": home, "feed_url": f"{home}feed.xml"})
    read = await runtime.poller.poll(await _claim(runtime, "gazette"))
    await _fetch_pages(runtime, read.new_urls)
    web.sites = SITES
    web.rewrite(web.seed)
    claim = await _claim(runtime, "gazette")
    with walks["poll"].recorded():
        polled = await runtime.poller.poll(claim)
    assert polled.new_items == 1, polled.error
    with walks["fetch"].recorded():
        await _fetch_pages(runtime, 1)
    govuk = await operations.sources.create("govuk", "govuk", {"site_url": "http://govuk.demo.test"})
    with walks["run"].recorded():
        begun = await runtime.runner.begin(govuk, Trigger.MANUAL, day=web.today - timedelta(days=1))
        assert begun
        ran = await runtime.runner.execute(begun)
    assert ran.handoffs is not None, ran.error
    assert ran.handoffs.completed, ran.error
    with walks["search"].recorded():
        assert await operations.search.find("council")
    return walks


async def _claim(runtime: Runtime, name: str) -> PollClaim:
    now = runtime.context.clock.now()
    async with runtime.context.database.connection() as connection:
        claims = await sources.claim_polls(
            connection, now=now, until=now + timedelta(minutes=1), holder="trace", limit=1, name=name
        )
    return claims[0]


async def _fetch_pages(runtime: Runtime, count: int) -> None:
    stop, metrics = asyncio.Event(), _CountedFetches()
    metrics.on_fetch = lambda: stop.set() if metrics.fetches >= count else None
    await make_fetch_pool(runtime, metrics).run(stop, 1.0)


class _CountedFetches(Metrics):
    fetches = 0
    on_fetch: Callable[[], None]

    def count_fetch(self, done: Any) -> None:
        """Count a fetch that has ended."""
        self.fetches += 1
        self.on_fetch()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    for name, walk in asyncio.run(trace_walks()).items():
        print(f"{name}: functions, modules, folder switches {tuple(walk.size)}, limits {tuple(LIMITS[name])}")
        if "--list" in sys.argv:
            print(*(f"  {module} {function}" for module, function in walk.functions), sep="\n")
