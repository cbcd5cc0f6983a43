"""What a page in the browser asks for, let out as if each were a request of our own (spec 2.3).

The page's own host is held already, and asked for one thing at a time, at its pace, until it asks for fewer requests.
Any other host is held while it is asked, if it can be had soon; robots.txt is obeyed everywhere.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from headwater.core.errors import NotNow
from headwater.core.http import AdmittedRequest
from headwater.core.reasons import Reason
from headwater.core.urls import host_of
from headwater.politeness.host_lease import HostLease

if TYPE_CHECKING:
    from headwater.politeness.gate import Gate

# Long enough for a host that others load scripts from too; pages that wait for each other's hosts do not for long.
_PATIENCE = timedelta(seconds=5)


class SubresourceGate:
    """Leads the requests of one page out."""

    def __init__(self, gate: "Gate", hold: HostLease) -> None:
        self._gate = gate
        self._hold = hold
        self._turn = asyncio.Lock()  # of the page's own host

    @contextlib.asynccontextmanager
    async def lead(self, url: str) -> AsyncIterator[AdmittedRequest]:
        """Wait until a URL may be asked for, and hold its host while the block asks; errors are those of the gate."""
        async with self._held(host_of(url)) as hold:
            await self._gate.obey_robots(hold, url)
            await self._gate.await_turn(hold)
            if hold.troubled and hold.next_turn:
                what = f"{hold.host.host} asked for fewer requests."
                raise NotNow(what, until=hold.next_turn, reason=Reason.RATE_LIMITED)
            passage = AdmittedRequest(ends_at=hold.lease.until)
            try:
                yield passage
            finally:
                hold.last_sent_at = passage.sent_at or hold.last_sent_at
                if passage.status is not None:
                    self._gate.heed(hold, passage.status, passage.headers)

    @contextlib.asynccontextmanager
    async def _held(self, host: str) -> AsyncIterator[HostLease]:
        known = self._hold.host if host == self._hold.host.host else await self._gate.meet(host)
        if known.politeness_key != self._hold.host.politeness_key:
            async with self._gate.hold(host, _PATIENCE) as other:
                yield other
            return
        async with self._turn:
            if host == self._hold.host.host:
                yield self._hold
                return
            # Another host whose turn is the same: it has a robots.txt of its own.
            beside = replace(self._hold, host=known)
            try:
                yield beside
            finally:
                self._hold.share(beside)
