"""A small web on loopback (spec 9.2), which `headwater demo`, tests and benches fetch.

All hosts share one port, and the Host header selects one. A setting leads `*.demo.test` to `127.0.0.1:port`, so the
addresses have no port and are the same on every run: `http://gazette.demo.test/news/...`.
"""

import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from html import escape
from itertools import repeat
from types import TracebackType
from typing import Self

from aiohttp import web

from headwater.demo.answers import Answer
from headwater.demo.build import build_host
from headwater.demo.content import template
from headwater.demo.plan import Site
from headwater.demo.sites import SITES
from headwater.demo.visits import DemoRequest, Violation, arrival, departure, find_violations

Listen = Callable[[tuple[str, int]], socket.socket]

_KEPT_REQUESTS = 20_000  # bounds the memory of a web that runs for long
_PLAIN_NAMES = ("127.0.0.1", "localhost")  # the hosts of a request that names no site


@dataclass(eq=False, kw_only=True)
class DemoWeb:
    """The web of one day. The same sites, day and seed give the same bytes at every address."""

    today: date
    begun_at: datetime | None = None
    """No page of today is dated later."""
    seed: int = 1
    sites: Sequence[Site] = SITES
    ip: str = "127.0.0.1"
    listen: Listen = socket.create_server
    requests: deque[DemoRequest] = field(default_factory=lambda: deque(maxlen=_KEPT_REQUESTS), init=False)
    _last_port: int = field(default=0, init=False)
    _faults: dict[str, Iterator[Answer]] = field(default_factory=dict, init=False)
    _runner: web.ServerRunner | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.rewrite(self.seed)

    def rewrite(self, seed: int) -> None:
        """Write every page for a seed. Another seed gives other texts at the same addresses."""
        self.seed = seed
        self._hosts = {
            site.host: build_host(site, today=self.today, seed=seed, begun_at=self.begun_at) for site in self.sites
        }

    @property
    def hosts(self) -> tuple[str, ...]:
        """All host names."""
        return tuple(self._hosts)

    @property
    def port(self) -> int:
        """The port, once started."""
        if self._runner is None:
            raise RuntimeError("the demo web has not been started")
        port: int = self._runner.addresses[0][1]
        return port

    @property
    def address(self) -> str:
        """The address at which it listens."""
        return f"http://{self.ip}:{self.port}"

    def break_host(self, host: str, fault: Answer, *, times: int | None = None) -> None:
        """Answer with a fault at every address of a host, for so many requests or until `restore_host`."""
        if host not in self._hosts:
            raise ValueError(f"there is no host {host}")
        self._faults[host] = repeat(fault) if times is None else repeat(fault, times)

    def restore_host(self, host: str) -> None:
        """End the fault of a host."""
        self._faults.pop(host, None)

    def politeness(self, delay_seconds: float, *, tolerance_seconds: float = 0.0) -> list[Violation]:
        """Return the requests that overlapped another one to their host or came too soon after it.

        A host's Crawl-delay replaces the delay. A longer pause that an answer asked for counts too. Requests to an API
        do not count: it is for programs, at a rate of its own.
        """
        with_api = {site.host for site in self.sites if site.api is not None}
        visits = [visit for visit in self.requests if visit.host not in with_api or not visit.path.startswith("/api/")]
        crawl_delays = {site.host: site.crawl_delay for site in self.sites if site.crawl_delay is not None}
        return find_violations(visits, delay_seconds, crawl_delays=crawl_delays, tolerance_seconds=tolerance_seconds)

    async def start(self) -> None:
        """Listen on a free port, or on the port of the last start."""
        # handler_cancellation ends an answer when its client leaves, not at the next write.
        server = web.Server(self._serve, access_log=None, handler_cancellation=True)
        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        await web.SockSite(runner, self.listen((self.ip, self._last_port))).start()
        self._runner = runner
        self._last_port = self.port

    async def stop(self) -> None:
        """Stop listening and close all connections. The requests are kept."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        arrived = arrival(request)
        host = request.host.partition(":")[0].lower()
        response: web.StreamResponse = web.Response()
        status, pause, ended = 0, 0.0, None
        try:
            with suppress(ConnectionError):  # one side left; aiohttp closes the connection
                response = await self._answer(host, request)
                await response.prepare(request)
                await response.write_eof()
                ended = max(arrived, departure(request))
                status, pause = response.status, _pause(response)
        finally:
            self.requests.append(DemoRequest(host, request.raw_path, arrived, ended or time.monotonic(), status, pause))
        return response

    async def _answer(self, name: str, request: web.BaseRequest) -> web.StreamResponse:
        host = self._hosts.get(name)
        if name in _PLAIN_NAMES and request.path == "/":
            return web.Response(text=self._index(), content_type="text/html")
        if host is None:
            return web.Response(status=421, text=f"No host {name} here.\n")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        fault = next(self._faults.get(name, iter(())), None)
        answer = fault or host.answer_at(request.raw_path.partition("?")[0])
        return await answer(request)

    def _index(self) -> str:
        rows = "\n".join(
            f"<tr><td>{site.host}<td>{escape(site.title)}<td><code>curl -H 'Host: {site.host}' "
            f"{self.address}{site.feed.path if site.feed else '/'}</code>"
            for site in self.sites
        )
        return template("index.html").substitute(rows=rows)


def _pause(response: web.StreamResponse) -> float:
    """Return the seconds of the answer's Retry-After, without the code of the program under test."""
    after = response.headers.get("Retry-After", "0")
    if after.isdigit():
        return float(after)
    return max(0.0, (parsedate_to_datetime(after) - datetime.now(UTC)).total_seconds())
