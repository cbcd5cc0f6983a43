"""Times one parser over a folder of feeds, in an environment that has it: parse_feeds.py PARSER FOLDER.

Prints JSON: for each feed, by name, the seconds it took and its entries; null where the parser refused it.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

Parse = Callable[[bytes], int]  # returns the number of entries


def ours() -> Parse:
    from headwater import parse_feed

    return lambda body: len(parse_feed(body, url="https://example.org/feed").entries)


def feedparser() -> Parse:
    import feedparser

    return lambda body: len(feedparser.parse(body).entries)


def fastfeedparser() -> Parse:
    import fastfeedparser

    return lambda body: len(fastfeedparser.parse(body)["entries"])


PARSERS = {"ours": ours, "feedparser": feedparser, "fastfeedparser": fastfeedparser}


def main(parser: str, folder: str) -> dict[str, tuple[float, int] | None]:
    """Parse one feed to warm up, and then each feed once."""
    parse = PARSERS[parser]()
    bodies = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
    timed(parse, next(iter(bodies.values())))
    return {name: timed(parse, body) for name, body in bodies.items()}


def timed(parse: Parse, body: bytes) -> tuple[float, int] | None:
    started = time.perf_counter()
    try:
        entries = parse(body)
    except Exception:  # noqa: BLE001 (each parser has errors of its own)
        return None
    return time.perf_counter() - started, entries


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
