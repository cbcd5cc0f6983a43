"""Measure feeds: parsing, and cycles of polls, also with lemon24's reader: python -m bench.feeds [--quick] [--json]."""

import argparse
from pathlib import Path

from bench.feed_cycle import READER_WORKERS, Cycles, measure_ours, measure_reader, measure_sitemap
from bench.feed_parsing import Parsing, measure_parsing
from bench.feed_web import FeedWeb
from bench.peers import Unavailable
from bench.report import Figure, Target
from bench.running import make_parser, run_bench
from bench.steps import Steps
from bench.timing import best
from headwater.core.settings import Settings


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--feeds", type=int, help="feeds polled in a cycle: 1000")
    parser.add_argument("--addresses", type=int, default=50_000, help="in the sitemap, as in those of papers: 50000")
    options = parser.parse_args()
    options.feeds = options.feeds or (200 if options.quick else 1000)
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


async def measure(server: str, folder: Path, steps: Steps, options: argparse.Namespace) -> list[Figure]:
    """Measure everything in turn."""
    parsing = await measure_parsing(folder, steps, options.rounds, peers=options.peers)
    async with FeedWeb.open(options.feeds, options.addresses) as web:
        ours, reader = await _measure_rounds(server, folder, web, steps, options)
        grown, stall = await measure_sitemap(server, folder, web, steps)
    cycles = _cycle_figures(ours, reader, options.feeds)
    return [*_parsing_figures(parsing), *cycles, *_sitemap_figures(options.addresses, grown, stall)]


async def _measure_rounds(
    server: str, folder: Path, web: FeedWeb, steps: Steps, options: argparse.Namespace
) -> tuple[Cycles, Cycles | str]:
    """Measure ours and reader's in turn, and take the best of each, because the speed of a machine varies."""
    ours, theirs = [], []
    reader: Cycles | str = "left out by --no-peers"
    for _ in range(options.rounds):
        ours.append(await measure_ours(server, folder, web, steps))
        if not options.peers:
            continue
        try:
            theirs.append(await measure_reader(folder, web, steps))
        except Unavailable as error:
            reader = str(error)
    return best(ours), best(theirs) if theirs else reader


def _parsing_figures(parsing: Parsing) -> list[Figure]:
    figures = [
        Figure("parse", "parse", parsing.megabytes_a_second, "MB/s", note=f"{parsing.feeds} {parsing.which} feeds"),
        Figure("parse_ms", "parse, a feed", parsing.seconds / parsing.feeds * 1000, "ms"),
    ]
    for peer, target in (("fastfeedparser", Target("<=", 1.5)), ("feedparser", None)):
        compared = parsing.peers[peer]
        what = f"parse: our time over {peer}'s"
        if isinstance(compared, str):
            figures.append(Figure(f"parse_over_{peer}", what, None, "x", target, compared))
        else:
            figures.append(Figure(f"parse_over_{peer}", what, compared.ratio, "x", target, compared.note))
    return figures


def _cycle_figures(ours: Cycles, reader: Cycles | str, feeds: int) -> list[Figure]:
    at_once = Settings().poll_concurrency
    first, again = Target(">=", 5), Target(">=", 2)
    note = f"{feeds:,} feeds, {at_once} polls at once, every setting as it comes"
    figures = [
        Figure("first_cycle", "first cycle", ours.first, "feeds/s", note=note),
        Figure("unchanged_cycle", "unchanged cycle", ours.again, "feeds/s", note="each answers 304"),
        Figure("too_soon", "requests sooner than a host's pause", ours.too_soon, "", Target("<=", 0)),
    ]
    if isinstance(reader, str):
        return [
            *figures,
            Figure("reader_first_ratio", "first cycle: ours over reader's", None, "x", first, reader),
            Figure("reader_unchanged_ratio", "unchanged cycle: ours over reader's", None, "x", again, reader),
        ]
    version = f"reader {reader.version}, {READER_WORKERS} workers"
    return [
        *figures,
        Figure("reader_first_cycle", "reader: first cycle", reader.first, "feeds/s", note=version),
        Figure("reader_unchanged_cycle", "reader: unchanged cycle", reader.again, "feeds/s"),
        Figure("reader_first_ratio", "first cycle: ours over reader's", ours.first / reader.first, "x", first),
        Figure("reader_unchanged_ratio", "unchanged cycle: ours over reader's", ours.again / reader.again, "x", again),
    ]


def _sitemap_figures(addresses: int, grown: float, stall: float) -> list[Figure]:
    what = f"memory for a sitemap of {addresses:,} URLs"
    return [
        Figure("sitemap_memory", what, grown, "MB", Target("<=", 30), "all of them taken"),
        Figure("sitemap_stall", "longest stall of the loop meanwhile", stall, "ms", Target("<=", 100)),
    ]


if __name__ == "__main__":
    run_bench("Feeds", measure, parse_options())
