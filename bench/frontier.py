"""Measure the frontier and its peers on one embedded PostgreSQL: python -m bench.frontier [--quick] [--json]."""

import argparse
from pathlib import Path

from bench.adapter import CLAIM_BATCH
from bench.crawlee_peer import Rates, measure_crawlee
from bench.ours import Latency, Throughput, hosts_for, measure_beside_hot_host, measure_latency, measure_throughput
from bench.peers import Unavailable
from bench.report import Figure, Target
from bench.running import make_parser, run_bench
from bench.seed004 import measure_seed004
from bench.steps import Steps
from bench.timing import best


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=_sizes, help="backlogs to claim from: 100000,1000000,5000000")
    parser.add_argument("--urls", type=int, help="URLs to put, half of which are claimed and finished: 100000")
    parser.add_argument("--hot-rows", type=int, help="backlog next to the hot host, for 004's claim and ours: 250000")
    parser.add_argument("--claims", type=int, help="claims timed at each backlog: 1000")
    options = parser.parse_args()
    usual = (
        {"rows": [100_000, 300_000], "urls": 30_000, "hot_rows": 100_000, "claims": 500, "rounds": 1}
        if options.quick
        else {
            "rows": [100_000, 1_000_000, 5_000_000],
            "urls": 100_000,
            "hot_rows": 250_000,
            "claims": 1_000,
            "rounds": 3,
        }
    )
    for name, value in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def _sizes(text: str) -> list[int]:
    sizes = [int(part) for part in text.split(",")]
    if sizes != sorted(set(sizes)):
        raise argparse.ArgumentTypeError("name sizes in growing order")
    return sizes


async def measure(server: str, folder: Path, steps: Steps, options: argparse.Namespace) -> list[Figure]:
    """Measure everything in turn."""
    throughput, crawlee = await _measure_rounds(server, folder, steps, options)
    beside = await measure_beside_hot_host(server, folder, steps, options.hot_rows, options.claims // 2)
    seed004 = await measure_seed004(server, steps, options.hot_rows, hosts_for(options.hot_rows), options.claims // 10)
    latencies = await measure_latency(server, folder, steps, options.rows, options.claims)
    return [
        *_throughput_figures(throughput),
        *_latency_figures(latencies),
        *_seed004_figures(beside, seed004, options.hot_rows),
        *_crawlee_figures(throughput, crawlee),
        _memory_figure(latencies),
    ]


async def _measure_rounds(
    server: str, folder: Path, steps: Steps, options: argparse.Namespace
) -> tuple[Throughput, Rates | str]:
    """Measure ours and Crawlee's in turn, and take the best of each, because the speed of a machine varies."""
    ours, theirs = [], []
    crawlee: Rates | str = "left out by --no-peers"
    for _ in range(options.rounds):
        ours.append(await measure_throughput(server, folder, steps, options.urls))
        if not options.peers:
            continue
        try:
            theirs.append(await measure_crawlee(server, steps, options.urls))
        except Unavailable as error:
            crawlee = str(error)
    return best(ours), best(theirs) if theirs else crawlee


def _throughput_figures(rates: Throughput) -> list[Figure]:
    return [
        Figure(
            "put_new", "put, new URLs", rates.put_new, "/s", Target(">=", 30_000), "normalized, 1,000 a transaction"
        ),
        Figure("put_known", "put, known URLs", rates.put_known, "/s"),
        Figure("claim", "claim", rates.claim, "/s", note="by 200"),
        Figure("finish", "finish", rates.finish, "/s", note="by 200"),
        Figure("claim_and_finish", "claim and finish", rates.claim_and_finish, "/s", Target(">=", 5_000)),
    ]


def _latency_figures(latencies: list[Latency]) -> list[Figure]:
    figures = []
    for at in latencies:
        note = f"of {CLAIM_BATCH} URLs, one host holds 60%"
        figures.append(Figure(f"claim_p50_{at.rows}", f"claim at {at.rows:,} URLs, p50", at.p50_ms, "ms", note=note))
        figures.append(Figure(f"claim_p99_{at.rows}", f"claim at {at.rows:,} URLs, p99", at.p99_ms, "ms"))
    smallest, largest = latencies[0], latencies[-1]
    what = f"p99 at {largest.rows:,} over p99 at {smallest.rows:,}"
    figures.append(Figure("claim_p99_ratio", what, largest.p99_ms / smallest.p99_ms, "x", Target("<=", 1.5)))
    return figures


def _seed004_figures(beside: dict[int, float], seed004: float, rows: int) -> list[Figure]:
    note = f"{rows:,} URLs, 60% on a host not ready"
    return [
        Figure(
            "hot_host_claim", "claim beside the hot host", beside[CLAIM_BATCH], "/s", note=f"by {CLAIM_BATCH}; {note}"
        ),
        Figure("hot_host_claim_single", "claim beside the hot host, one by one", beside[1], "/s"),
        Figure("seed004_claim", "004: claim beside the hot host", seed004, "/s", note="one by one, as it is written"),
        Figure("seed004_ratio", "ours over 004", beside[CLAIM_BATCH] / seed004, "x", Target(">=", 20)),
        Figure("seed004_ratio_single", "ours over 004, one by one", beside[1] / seed004, "x"),
    ]


def _crawlee_figures(ours: Throughput, crawlee: Rates | str) -> list[Figure]:
    put, claim = Target(">=", 5), Target(">=", 10)
    if isinstance(crawlee, str):
        return [
            Figure("crawlee_put_ratio", "put: ours over Crawlee's", None, "x", put, crawlee),
            Figure("crawlee_claim_ratio", "claim: ours over Crawlee's", None, "x", claim, crawlee),
        ]
    version = f"Crawlee {crawlee.version}"
    both = 1 / (1 / crawlee.claim + 1 / crawlee.finish)
    return [
        Figure("crawlee_put_new", "Crawlee: put, new URLs", crawlee.put_new, "/s", note=f"{version}, by 1,000"),
        Figure("crawlee_put_known", "Crawlee: put, known URLs", crawlee.put_known, "/s"),
        Figure("crawlee_claim", "Crawlee: claim", crawlee.claim, "/s", note="fetch_next_request"),
        Figure("crawlee_finish", "Crawlee: finish", crawlee.finish, "/s", note="mark_request_as_handled"),
        Figure("crawlee_put_ratio", "put: ours over Crawlee's", ours.put_new / crawlee.put_new, "x", put),
        Figure("crawlee_claim_ratio", "claim: ours over Crawlee's", ours.claim / crawlee.claim, "x", claim),
        Figure("crawlee_both_ratio", "claim and finish: ours over Crawlee's", ours.claim_and_finish / both, "x"),
    ]


def _memory_figure(latencies: list[Latency]) -> Figure:
    first, last = latencies[0], latencies[-1]
    note = f"{first.resident_mb:.1f} MB at {first.rows:,} URLs, {last.resident_mb:.1f} MB at {last.rows:,}"
    growth = last.resident_mb - first.resident_mb
    return Figure("memory_growth", "memory growth of this process", growth, "MB", Target("<=", 2), note)


if __name__ == "__main__":
    run_bench("Frontier", measure, parse_options())
