"""Serve pages on loopback, in a process of its own: python -m bench.pipeline_web.

It prints its port. For each line of input it prints the requests since the last line. It ends with its input. The
pages are those of the corpora, or generated ones if the corpora are missing. No two pages have the same text.
"""

import asyncio
import gzip
import json
import random
import sys
import time

from bench.extract_pages import read_pages

NAME = "h{}.demo.test"
_ROBOTS = b"User-agent: *\nAllow: /\n"
_LEAST_BYTES = 60_000  # smaller pages cost less than the usual page of a publisher
_WORDS = ("council", "river", "harbour", "budget", "school", "winter", "bridge", "report", "minister", "station")


def read_bodies() -> list[bytes]:
    """Return the bodies that all pages are made from."""
    bodies = [body for page in read_pages() if len(body := gzip.decompress(page.path.read_bytes())) >= _LEAST_BYTES]
    return bodies or [_write_page(random.Random(seed)) for seed in range(100)]


def _write_page(chance: random.Random) -> bytes:
    menu = "".join(f'<li><a href="/{number}">{chance.choice(_WORDS)}</a></li>' for number in range(400))
    script = "var a=[" + ",".join(str(chance.random()) for _ in range(5_000)) + "];"
    text = "".join(f"<p>{' '.join(chance.choices(_WORDS, k=60)).capitalize()}.</p>" for _ in range(20))
    return (
        f"<html><head><title>A page</title><script>{script}</script></head><body><nav><ul>{menu}</ul></nav>"
        f"<article><h1>A page</h1>{text}</article></body></html>"
    ).encode()


def make_page(bodies: list[bytes], number: int) -> bytes:
    """Return a page. The later uses of a body differ from the first in each paragraph."""
    turn, which = divmod(number, len(bodies))
    body = bodies[which]
    return body.replace(b"</p>", b" No. %d.</p>" % turn) if turn else body


class Answers(asyncio.Protocol):
    """Answers GET requests of one connection."""

    def __init__(self, bodies: list[bytes], asked: dict[str, float]) -> None:
        self._bodies, self._asked, self._read = bodies, asked, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        self._read += data
        while b"\r\n\r\n" in self._read:
            head, _, self._read = self._read.partition(b"\r\n\r\n")
            self._answer(head.split(b" ", 2)[1])

    def _answer(self, path: bytes) -> None:
        now, asked = time.time(), self._asked
        status, kind, body = b"200 OK", b"text/html", b""
        if path == b"/robots.txt":
            asked["robots"] += 1
            kind, body = b"text/plain", _ROBOTS
        elif path.startswith(b"/page/"):
            asked["pages"] += 1
            asked["first"] = asked["first"] or now
            asked["last"] = now
            body = make_page(self._bodies, int(path[6:]))
        else:
            status = b"404 Not Found"
        asked["bytes"] += len(body)
        head = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (status, kind, len(body))
        self._transport.writelines([head, body])


def list_urls(port: int, pages: int, hosts: int) -> list[str]:
    """Return the addresses of all pages."""
    return [f"http://{NAME.format(number % hosts)}:{port}/page/{number}" for number in range(pages)]


async def serve() -> None:
    """Serve until standard input ends."""
    nothing = {"pages": 0.0, "robots": 0.0, "bytes": 0.0, "first": 0.0, "last": 0.0}
    asked, bodies = dict(nothing), read_bodies()
    server = await asyncio.get_running_loop().create_server(lambda: Answers(bodies, asked), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(asked), flush=True)
        asked.update(nothing)


if __name__ == "__main__":
    asyncio.run(serve())
