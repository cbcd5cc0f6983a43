"""lemon24's reader over feeds on loopback. Runs in an environment of its own; a JSON plan comes on standard input.

The plan: the port, the feeds' URLs, the database's file, how many workers. Prints JSON: seconds of the first cycle and
of one in which nothing has changed, and the entries it has.
"""

import json
import socket
import sys
import time
from typing import Any

from reader import __version__, make_reader


def main(plan: dict[str, Any]) -> dict[str, Any]:
    """Add all feeds, update twice."""
    resolve_to_loopback()
    reader = make_reader(plan["database"])
    for url in plan["urls"]:
        reader.add_feed(url.replace(".demo.test/", f".demo.test:{plan['port']}/"))
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        reader.update_feeds(scheduled=False, workers=plan["workers"])
        seconds.append(time.perf_counter() - started)
    failed = sum(feed.last_exception is not None for feed in reader.get_feeds())
    entries = reader.get_entry_counts().total
    return {"version": __version__, "first": seconds[0], "again": seconds[1], "entries": entries, "failed": failed}


def resolve_to_loopback() -> None:
    """Resolve every name of the demo web to its address. A real look-up would take longer."""
    look_up = socket.getaddrinfo

    def looked_up(host: str, *args: Any, **options: Any) -> Any:
        return look_up("127.0.0.1" if host.endswith(".demo.test") else host, *args, **options)

    socket.getaddrinfo = looked_up  # type: ignore[assignment]


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
