"""Measure `headwater add` on the home page of each site of the demo's web: python -m bench.add [--json]."""

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.feed_cycle import settings_for
from bench.report import Figure, Target
from bench.running import make_parser, run_bench
from bench.server import new_database
from bench.steps import Steps
from headwater.app.metrics import Metrics
from headwater.app.operations import Operations
from headwater.app.runtime import open_runtime
from headwater.core.errors import HeadwaterError
from headwater.db.context import open_database_context
from headwater.demo.plan import Site
from headwater.demo.sites import SITES
from headwater.demo.web import DemoWeb

_REQUESTS, _SECONDS = Target("<=", 12), Target("<=", 60)


@dataclass(frozen=True, slots=True)
class AddedHost:
    """The cost of adding a site, as the site received it, and what was added."""

    host: str
    requests: int
    seconds: float
    result: str


async def add_sites(dsn: str, folder: Path, sites: Sequence[Site]) -> list[AddedHost]:
    """Add all sites at once: each has a host of its own."""

    async def add(operations: Operations, site: Site) -> tuple[float, str]:
        began = time.monotonic()
        try:
            added = await operations.sources.add(site.home)
            result = f"{added.method}: {added.items} items, {added.new_urls} pages"
        except HeadwaterError as error:
            result = f"refused: {error.reason}"
        return time.monotonic() - began, result

    async with DemoWeb(today=datetime.now(UTC).date(), sites=sites) as web:
        settings = settings_for(dsn, folder, web.port)
        async with open_database_context(settings) as context, open_runtime(context) as runtime:
            operations = Operations(runtime, Metrics())
            results = await asyncio.gather(*(add(operations, site) for site in sites))
        requests = Counter(request.host for request in web.requests)
    return [
        AddedHost(site.host, requests[site.host], seconds, result)
        for site, (seconds, result) in zip(sites, results, strict=True)
    ]


async def measure(server: str, folder: Path, steps: Steps, options: argparse.Namespace) -> list[Figure]:
    """Add each site, and return its requests and seconds."""
    sites = SITES[:3] if options.quick else SITES
    async with new_database(server, "bench_add") as dsn:
        with steps.step("add", None):
            hosts = await add_sites(dsn, folder, sites)
    figures = [
        Figure(one.host, one.host, one.requests, "requests", _REQUESTS, f"{one.seconds:.1f} s; {one.result}")
        for one in hosts
    ]
    total = sum(host.requests for host in hosts)
    longest = max(host.seconds for host in hosts)
    return [
        *figures,
        Figure("requests", "all sites", total, "requests"),
        Figure("longest", "the slowest site", longest, "s", _SECONDS),
    ]


if __name__ == "__main__":
    title = "headwater add, with one second between two requests to a host"
    run_bench(title, measure, make_parser(__doc__).parse_args())
