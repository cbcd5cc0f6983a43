"""A small web of our own, on loopback (spec 9.2): what `headwater demo`, tests and benches visit.

All host names share one port and are told apart by the Host header, so the program under test sends
`*.demo.test` to `127.0.0.1:port` and addresses carry no port: `http://gazette.demo.test/news/...` on every run.
"""

import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from html import escape
from itertools import repeat
from types import TracebackType
from typing import Self

from aiohttp import web

from headwater.demo.answers import Answer
from headwater.demo.build import build_host
from headwater.demo.plan import Site
from headwater.demo.sites import SITES
from headwater.demo.visits import DemoRequest, Violation, arrival, departure, find_violations

Listen = Callable[[tuple[str, int]], socket.socket]

_KEPT_REQUESTS = 20_000  # a web that is left running must not grow
_PLAIN_NAMES = ("127.0.0.1", "localhost")  # what one comes to without saying which host


_INDEX = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>The small web</title>
<h1>The small web</h1>
<p>Its hosts share this address and are told apart by the Host header, which a browser does not let you choose:</p>
<table>
{rows}
</table>
</html>
"""


class DemoWeb:
    """The web of one day: the same sites, day and seed give the same bytes at every address."""

    def __init__(
        self,
        *,
        today: date,
        seed: int = 1,
        sites: Sequence[Site] = SITES,
        ip: str = "127.0.0.1",
        listen: Listen = socket.create_server,
    ) -> None:
        self.today = today
        self.sites = sites
        self.ip = ip
        self.requests: deque[DemoRequest] = deque(maxlen=_KEPT_REQUESTS)
        self._listen = listen
        self._last_port = 0
        self._faults: dict[str, Iterator[Answer]] = {}
        self._runner: web.ServerRunner | None = None
        self.rewrite(seed)

    def rewrite(self, seed: int) -> None:
        """Write every page for that seed: after the first time, whoever comes again finds other texts."""
        self.seed = seed
        self._hosts = {site.host: build_host(site, today=self.today, seed=seed) for site in self.sites}

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
        """Where it listens, whatever host is asked for."""
        return f"http://{self.ip}:{self.port}"

    def break_host(self, host: str, fault: Answer, *, times: int | None = None) -> None:
        """Let every address of a host answer with a fault: for so many requests, or until the host is mended."""
        if host not in self._hosts:
            raise ValueError(f"there is no host {host}")
        self._faults[host] = repeat(fault) if times is None else repeat(fault, times)

    def mend(self, host: str) -> None:
        """Let a host answer again as its table says."""
        self._faults.pop(host, None)

    def politeness(self, delay_seconds: float, *, tolerance_seconds: float = 0.0) -> list[Violation]:
        """List what broke the rule of one request at a time to a host and none sooner than it wishes.

        That is its Crawl-delay where it has one, else the delay; and as long as an answer asked for, if that is longer.
        An API is for programs, which ask it at a rate of their own.
        """
        with_api = {site.host for site in self.sites if site.api is not None}
        visits = [visit for visit in self.requests if visit.host not in with_api or not visit.path.startswith("/api/")]
        crawl_delays = {site.host: site.crawl_delay for site in self.sites if site.crawl_delay is not None}
        return find_violations(visits, delay_seconds, crawl_delays=crawl_delays, tolerance_seconds=tolerance_seconds)

    async def start(self) -> None:
        """Listen on a free port, or on that of before."""
        # An answer ends when its visitor leaves, not when the next byte finds nobody there.
        server = web.Server(self._serve, access_log=None, handler_cancellation=True)
        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        await web.SockSite(runner, self._listen((self.ip, self._last_port))).start()
        self._runner = runner
        self._last_port = self.port

    async def stop(self) -> None:
        """Stop listening and close all connections; what was requested stays known."""
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
            with suppress(ConnectionError):  # one of the two left; aiohttp closes the connection
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
        """Write for somebody who looks in by hand which hosts there are, and how they are reached."""
        rows = "\n".join(
            f"<tr><td>{site.host}<td>{escape(site.title)}<td><code>curl -H 'Host: {site.host}' "
            f"{self.address}{site.feed.path if site.feed else '/'}</code>"
            for site in self.sites
        )
        return _INDEX.format(rows=rows)


def _pause(response: web.StreamResponse) -> float:
    """Return how long an answer asks to be left alone; read here, not by the program that is judged."""
    after = response.headers.get("Retry-After", "0")
    if after.isdigit():
        return float(after)
    return max(0.0, (parsedate_to_datetime(after) - datetime.now(UTC)).total_seconds())
