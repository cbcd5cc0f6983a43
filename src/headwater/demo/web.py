"""A small web of our own, on loopback (spec 9.2): what `headwater demo`, tests and benches visit.

All host names share one port and are told apart by the Host header, so the program under test sends
`*.demo.test` to `127.0.0.1:port` and addresses carry no port: `http://gazette.demo.test/news/...` on every run.
"""

import time
from contextlib import suppress
from datetime import date
from types import TracebackType
from typing import Self

from aiohttp import web

from headwater.demo.build import build_host
from headwater.demo.sites import SITES
from headwater.demo.visits import DemoRequest, Violation, find_violations


class DemoWeb:
    """The web of one day: the same day and seed give the same bytes at every address."""

    def __init__(self, *, today: date, seed: int = 1) -> None:
        self.today = today
        self.seed = seed
        self.sites = SITES
        self.requests: list[DemoRequest] = []
        self._hosts = {site.host: build_host(site, today=today, seed=seed) for site in self.sites}
        self._runner: web.ServerRunner | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """All host names."""
        return tuple(self._hosts)

    @property
    def port(self) -> int:
        """The port on 127.0.0.1, once started."""
        if self._runner is None:
            raise RuntimeError("the demo web has not been started")
        port: int = self._runner.addresses[0][1]
        return port

    def politeness(self, delay_seconds: float) -> list[Violation]:
        """List what broke the rule of one request at a time to a host and none sooner than the delay."""
        return find_violations(self.requests, delay_seconds)

    async def start(self) -> None:
        """Listen on a free port of 127.0.0.1."""
        runner = web.ServerRunner(web.Server(self._serve, access_log=None), shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._runner = runner

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
        arrived = time.monotonic()
        host = request.host.partition(":")[0].lower()
        response = await self._answer(host, request)
        try:
            with suppress(ConnectionError):  # the visitor left; aiohttp closes the connection
                await response.prepare(request)
                await response.write_eof()
        finally:
            self.requests.append(DemoRequest(host, request.raw_path, arrived, time.monotonic(), response.status))
        return response

    async def _answer(self, name: str, request: web.BaseRequest) -> web.StreamResponse:
        host = self._hosts.get(name)
        if host is None:
            return web.Response(status=421, text=f"No host {name} here.\n")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        return await host.answers.get(request.path, host.otherwise)(request)
