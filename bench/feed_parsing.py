"""The speed of our parser and of others, in turn over the same feeds."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.feed_bodies import real_feeds, written_feeds
from bench.peers import BENCH, Unavailable, make_environment, run
from bench.steps import Steps

WRITTEN_FEEDS = 60
PEERS = ("fastfeedparser", "feedparser")
_Times = dict[str, tuple[float, int] | None]


class Compared(NamedTuple):
    """Our time divided by a peer's, for the feeds that both can read."""

    ratio: float
    note: str


@dataclass(frozen=True, slots=True)
class Parsing:
    """The time of parsing, and the comparisons. For a peer that could not be measured there is the cause."""

    which: str
    feeds: int
    seconds: float
    megabytes_a_second: float
    peers: dict[str, Compared | str]


async def measure_parsing(folder: Path, steps: Steps, rounds: int, *, peers: bool) -> Parsing:
    """Parse real feeds, or generated ones if those are missing. The best time of all rounds counts for each feed."""
    feeds, which = real_feeds(), "real"
    if not feeds:
        feeds, which = written_feeds(WRITTEN_FEEDS), "written"
    bodies = folder / "feeds"
    bodies.mkdir(exist_ok=True)
    for number, body in enumerate(feeds):
        (bodies / f"{number:04}").write_bytes(body)
    parsers = {"ours": Path(sys.executable)}
    missing = dict.fromkeys(PEERS, "left out by --no-peers")
    if peers:
        with steps.step("parsers: environment", None):
            try:
                parsers |= dict.fromkeys(PEERS, await make_environment("feeds"))
            except Unavailable as error:
                missing = dict.fromkeys(PEERS, str(error))
    times: dict[str, list[_Times]] = {parser: [] for parser in parsers}
    with steps.step(f"parse {len(feeds)} {which} feeds", rounds * len(parsers)) as advance:
        for _ in range(rounds):
            for parser, python in parsers.items():
                output = await run(python, BENCH / "parse_feeds.py", parser, bodies)
                times[parser].append(msgspec.json.decode(output, type=_Times))
                advance(1)
    fastest = {parser: _fastest(rounds) for parser, rounds in times.items()}
    ours = fastest["ours"]
    seconds = sum(time for time, _ in filter(None, ours.values()))
    return Parsing(
        which,
        len(feeds),
        seconds,
        sum(map(len, feeds)) / 1e6 / seconds,
        {peer: _compare(ours, fastest[peer]) if peer in fastest else missing[peer] for peer in PEERS},
    )


def _fastest(rounds: list[_Times]) -> _Times:
    return {name: min(filter(None, (times[name] for times in rounds)), default=None) for name in rounds[0]}


def _compare(ours: _Times, theirs: _Times) -> Compared:
    both = [(mine, other) for name in ours if (mine := ours[name]) and (other := theirs[name])]
    ratio = sum(mine for (mine, _), _ in both) / sum(other for _, (other, _) in both)
    entries = f"entries: {sum(mine for (_, mine), _ in both):,} ours, {sum(other for _, (_, other) in both):,} theirs"
    return Compared(ratio, f"{len(both)} feeds read by both; {entries}")
