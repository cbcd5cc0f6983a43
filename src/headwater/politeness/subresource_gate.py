"""Admits the requests of a page in the browser as if each were a request of our own (spec 2.3).

The page's own host is leased already. It gets one request at a time, each in its turn, until it throttles us. The gate
leases any other host for its request, if the host is free soon. It obeys robots.txt everywhere.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING

from headwater.core.errors import NotNow
from headwater.core.http import AdmittedRequest
from headwater.core.reasons import Reason
from headwater.core.urls import host_of
from headwater.politeness.host_lease import HostLease

if TYPE_CHECKING:
    from headwater.politeness.gate import Gate

# Enough for a host that several pages load scripts from. Two pages that wait for each other's hosts give up soon.
_PATIENCE = timedelta(seconds=5)


class SubresourceGate:
    """Admits the requests of one page."""

    def __init__(self, gate: "Gate", lease: HostLease) -> None:
        self._gate = gate
        self._lease = lease
        self._page_host = lease.host
        self._turn = asyncio.Lock()  # for requests to hosts that share the turn of the page's own host

    @contextlib.asynccontextmanager
    async def admit(self, url: str) -> AsyncIterator[AdmittedRequest]:
        """Wait until a URL may be requested, and lease its host for the block. Raises the errors of the gate."""
        async with self._leased(host_of(url)) as lease:
            await self._gate.robots.obey(lease, url)
            await self._gate.await_turn(lease)
            if lease.is_throttled and lease.last_sent_at:
                message = f"{lease.host.host} asked for fewer requests."
                raise NotNow(message, until=lease.last_sent_at + lease.delay, reason=Reason.RATE_LIMITED)
            if lease.before_send:
                lease.before_send()
            request = AdmittedRequest(ends_at=lease.until)
            try:
                yield request
            finally:
                lease.last_sent_at = request.sent_at or lease.last_sent_at
                if request.status is not None:
                    lease.read_answer(request.status, request.headers, self._gate.clock.now())

    @contextlib.asynccontextmanager
    async def _leased(self, host: str) -> AsyncIterator[HostLease]:
        own = self._page_host
        known = own if host == own.host else await self._gate.get_or_create_host(host)
        if known.politeness_key != own.politeness_key:
            async with self._gate.lease_host(host, _PATIENCE) as other:
                other.before_send = self._lease.before_send
                yield other
            return
        async with self._turn:
            if host == own.host:
                yield self._lease
                return
            # Another host that shares the turn: it has a robots.txt and a Crawl-delay of its own.
            page_host, self._lease.host = self._lease.host, known
            try:
                yield self._lease
            finally:
                self._lease.host = page_host
