"""Serve many feeds on loopback, in a process of its own: python -m bench.feed_web FEEDS ADDRESSES.

It prints its port. For each line of input it prints the requests since the last line. It ends with its input.
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

# The most by which a busy machine can shorten the time between two arrivals.
TOLERANCE_SECONDS = 0.05


class RequestedDelay(msgspec.Struct, frozen=True):
    """The requests to the web: answers by status, and requests that came too soon after another to the same host."""

    statuses: dict[str, int]
    too_soon: list[str]


class FeedWeb:
    """The process of the web."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, feeds: int, addresses: int) -> None:
        self._process = process
        self.port = port
        self.addresses = addresses  # in its one sitemap
        self.urls = [site.feed_url or "" for site in feed_sites(feeds)]

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, feeds: int, addresses: int) -> AsyncIterator[Self]:
        """Start the process. It ends with the block."""
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
        """Return the requests since the last call, checked with this delay between two to a host."""
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
