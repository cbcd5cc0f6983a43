"""Serves many feeds on loopback, in a process of its own: python -m bench.feed_web FEEDS ADDRESSES.

Says on which port; then, for each line it is told, what was asked of it since the last one. Ends with its input.
"""

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Self

import msgspec

from bench.feed_bodies import feed_sites, sitemap_site
from headwater.demo.web import DemoWeb

# What a busy machine may take away between two sends, as the arrivals have it.
TOLERANCE_SECONDS = 0.05


class RequestedDelay(msgspec.Struct, frozen=True):
    """What was asked of the web: answers by status, and requests that came too soon after one to the same host."""

    statuses: dict[str, int]
    too_soon: list[str]


class FeedWeb:
    """The web's process, from outside."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, feeds: int, addresses: int) -> None:
        self._process = process
        self.port = port
        self.addresses = addresses  # in its one sitemap
        self.urls = [site.feed_url or "" for site in feed_sites(feeds)]

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, feeds: int, addresses: int) -> AsyncIterator[Self]:
        """Start it; it ends with the block."""
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "bench.feed_web", str(feeds), str(addresses))
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=2**24)
        assert process.stdout
        try:
            yield cls(process, int(await process.stdout.readline()), feeds, addresses)
        finally:
            process.kill()
            await process.wait()

    async def asked(self, delay_seconds: float) -> RequestedDelay:
        """Tell what was asked since the last time, by visitors who should leave a host alone for so long."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{delay_seconds}\n".encode())
        return msgspec.json.decode(await self._process.stdout.readline(), type=RequestedDelay)


async def serve(feeds: int, addresses: int) -> None:
    """Serve until standard input ends."""
    sites = [*feed_sites(feeds), sitemap_site(addresses)]
    async with DemoWeb(today=datetime.now(UTC).date(), sites=sites) as web:
        print(web.port, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            statuses = Counter(str(request.status) for request in web.requests)
            violations = web.politeness(float(line), tolerance_seconds=TOLERANCE_SECONDS)
            print(json.dumps({"statuses": statuses, "too_soon": [str(one) for one in violations]}), flush=True)
            web.requests.clear()


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:])))
