"""Crawlee's SQL request queue. Runs in an environment of its own; the database's address comes on standard input.

Prints JSON: URLs a second for put, put of known ones, claim (fetch_next_request) and mark_request_as_handled.
"""

import argparse
import asyncio
import json
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from crawlee import Request, __version__
from crawlee.storage_clients import SqlStorageClient

from bench.urls import batches, make_urls

BATCH = 1_000
HOSTS = 5_000


async def main(dsn: str, count: int) -> dict[str, float | str]:
    """Put as many URLs as into our own queue. Of the later steps, a part is enough for the rate."""
    urls = list(make_urls(count, HOSTS))
    warnings.simplefilter("ignore", UserWarning)  # Crawlee warns that the queue is experimental
    async with SqlStorageClient(connection_string=dsn.replace("postgresql://", "postgresql+asyncpg://", 1)) as storage:
        queue = await storage.create_rq_client(name="bench")
        rates: dict[str, float | str] = {"version": __version__}
        for what, some in (("put_new", urls), ("put_known", urls[: count // 10])):
            started = time.perf_counter()
            for batch in batches(some, BATCH):
                answer = await queue.add_batch_of_requests([Request.from_url(url) for url in batch])
                assert not answer.unprocessed_requests
            rates[what] = len(some) / (time.perf_counter() - started)
        claimed: list[Request] = []
        started = time.perf_counter()
        while len(claimed) < count // 10:
            request = await queue.fetch_next_request()
            assert request
            claimed.append(request)
        rates["claim"] = len(claimed) / (time.perf_counter() - started)
        started = time.perf_counter()
        handled = claimed[: count // 50]
        for request in handled:
            await queue.mark_request_as_handled(request)
        rates["finish"] = len(handled) / (time.perf_counter() - started)
        return rates


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--urls", type=int, required=True)
    print(json.dumps(asyncio.run(main(sys.stdin.readline().strip(), parser.parse_args().urls))))
