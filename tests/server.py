"""A real HTTP server whose every answer a test decides, reached under any name that ends in `.test`."""

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from aiohttp import web

from headwater.demo.visits import arrival


@dataclass(frozen=True)
class Answer:
    """The answer at a URL."""

    body: bytes | str = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """A request as it came in."""

    url: str
    headers: Mapping[str, str]
    arrived: float  # when the kernel received it
    ended: float


class Site:
    """Answers by full URL. An unknown URL gets 404. A list is used up one by one, and its last answer is repeated."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._address, self._port, self._tls = address, port, tls
        self.answers: dict[str, Answer | list[Answer]] = {}
        self.seen: list[Seen] = []
        self.hanging: set[str] = set()  # never answered
        self.waiting: set[str] = set()  # those of them that were requested
        self.closing: list[str] = []  # for each entry, one request is not answered, and its connection ends
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None), shutdown_timeout=0.5)

    @property
    def connect_to(self) -> tuple[str, ...]:
        """The setting that leads every `.test` name to this server."""
        address, port = self._runner.addresses[0]
        return (f"*.test={address}:{port}",)

    def visits(self, url: str) -> int:
        """Return how often a URL was requested."""
        return sum(seen.url == url for seen in self.seen)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, self._address, self._port, ssl_context=self._tls).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.go_away()

    async def go_away(self) -> None:
        """Close all connections and refuse new ones."""
        await self._runner.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        arrived = arrival(request)
        url = f"{request.scheme}://{request.host}{request.raw_path}"
        if url in self.hanging:
            self.waiting.add(url)
            await asyncio.Event().wait()
        if url in self.closing:
            self.closing.remove(url)
            self.seen.append(Seen(url, dict(request.headers), arrived, time.monotonic()))
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        answer = self._next(url)
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        response = web.Response(body=body, status=answer.status, headers=dict(answer.headers))
        await response.prepare(request)
        await response.write_eof()
        self.seen.append(Seen(url, dict(request.headers), arrived, time.monotonic()))
        return response

    def _next(self, url: str) -> Answer:
        answer = self.answers.get(url, Answer(status=404))
        if isinstance(answer, list):
            return answer.pop(0) if len(answer) > 1 else answer[0]
        return answer


def page(title: str, *, extra: str = "") -> str:
    """Return an article page of a realistic size with its title."""
    sentence = f"The report on {title} was published this morning and sets out what the council intends to do next. "
    paragraphs = "".join(f"<p>{sentence * 3}Paragraph {number} of {title}.</p>" for number in range(8))
    stated = '<meta property="og:title" content="{}">'.format(title.replace('"', "&quot;"))
    return (
        f"<!doctype html><html lang=en><head><title>{title}</title>{stated}</head>"
        f"<body><nav><a href=/>Home</a></nav><article><h1>{title}</h1>{paragraphs}{extra}</article></body></html>"
    )


def rss(*links: str, title: str = "A feed") -> Answer:
    """Return an RSS feed with an entry for each link."""
    entries = "".join(
        f"<item><title>Entry {number}</title><link>{link}</link>"
        f"<pubDate>Thu, 12 Mar 2026 1{number % 10}:00:00 GMT</pubDate></item>"
        for number, link in enumerate(links)
    )
    body = f'<?xml version="1.0"?><rss version="2.0"><channel><title>{title}</title>{entries}</channel></rss>'
    return Answer(body, headers={"Content-Type": "application/rss+xml"})
