"""Runs crawlee_queue.py in an environment of its own."""

import msgspec

from bench.peers import BENCH, make_environment, run
from bench.server import new_database
from bench.steps import Steps


class Rates(msgspec.Struct, frozen=True):
    """URLs per second through Crawlee's queue."""

    version: str
    put_new: float
    put_known: float
    claim: float
    finish: float


async def measure_crawlee(server: str, steps: Steps, urls: int) -> Rates:
    """Run Crawlee's queue on the same server. Raises Unavailable."""
    with steps.step("Crawlee: environment", None):
        python = await make_environment("crawlee")
    with steps.step("Crawlee: put, claim, handle", None):
        async with new_database(server, "bench_crawlee") as dsn:
            output = await run(python, BENCH / "crawlee_queue.py", "--urls", urls, stdin=dsn + "\n")
    return msgspec.json.decode(output.splitlines()[-1], type=Rates)
