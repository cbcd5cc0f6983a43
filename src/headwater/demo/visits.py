"""The requests that the demo web received, and the check that their sender was polite.

The kernel knows when a packet came in. A busy machine notices it later, so the kernel's times decide.
"""

import socket
import struct
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from aiohttp import web

_LAST_SENT, _LAST_RECEIVED = 44, 52  # offsets in struct tcp_info of the milliseconds since the event
_TICK = time.clock_getres(6)  # CLOCK_MONOTONIC_COARSE, which has no name in Python: the kernel counts in ticks
_GRAIN = _TICK + 0.001
# The most that two readings can be off together. A real violation is off by a whole delay.
TOLERANCE_SECONDS = max(0.01, 2 * _GRAIN)
_AT_ONCE = 0.001


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """One request, with the monotonic times of its arrival and of the end of its answer."""

    host: str
    path: str
    arrived: float
    ended: float
    status: int  # 0 if the answer was cut off
    pause: float = 0.0  # the seconds that the answer's Retry-After asks for

    @property
    def url(self) -> str:
        """The whole address."""
        return f"http://{self.host}{self.path}"


@dataclass(frozen=True, slots=True)
class Violation:
    """A request that came too soon after an earlier one, or while the earlier one was being answered."""

    earlier: DemoRequest
    later: DemoRequest
    overlapped: bool

    def __str__(self) -> str:
        gap = self.later.arrived - self.earlier.arrived
        how = "while the answer was being sent" if self.overlapped else "too soon"
        return f"{self.later.host}: {self.later.path} came {gap:.3f} s after {self.earlier.path}, {how}"


def find_violations(
    requests: Iterable[DemoRequest],
    delay_seconds: float,
    *,
    crawl_delays: Mapping[str, float] | None = None,
    tolerance_seconds: float = 0.0,
) -> list[Violation]:
    """Return the requests that overlap an earlier one to the same host or follow it too soon.

    A host's crawl delay replaces the common delay. The tolerance covers the delay that a busy machine adds between two
    sends.
    """
    by_host: defaultdict[str, list[DemoRequest]] = defaultdict(list)
    for request in sorted(requests, key=lambda request: request.arrived):
        by_host[request.host].append(request)
    return [
        violation
        for host, visits in by_host.items()
        for violation in _host_violations(visits, (crawl_delays or {}).get(host, delay_seconds), tolerance_seconds)
    ]


def _host_violations(visits: list[DemoRequest], delay: float, tolerance: float) -> Iterable[Violation]:
    longest = visits[0]
    for earlier, later in pairwise(visits):
        longest = max(longest, earlier, key=lambda request: request.ended)
        if later.arrived < longest.ended:
            yield Violation(longest, later, overlapped=True)
        elif later.arrived - earlier.arrived < max(delay, earlier.pause) - tolerance:
            yield Violation(earlier, later, overlapped=False)


def arrival(request: web.BaseRequest) -> float:
    """Return the monotonic time of the request's arrival, rounded up so that a tick makes no violation.

    If the kernel does not report it, this is the present time.
    """
    return _moment(request, _LAST_RECEIVED, grain=-_GRAIN)


def departure(request: web.BaseRequest) -> float:
    """Return the monotonic time at which the last byte of the answer was sent, rounded down."""
    return _moment(request, _LAST_SENT, grain=_GRAIN)


def _moment(request: web.BaseRequest, field: int, *, grain: float) -> float:
    while True:
        now = time.monotonic()
        ago = _kernel_time(request, field)
        if time.monotonic() - now < _AT_ONCE:  # otherwise the process paused in between, and the two do not match
            return now - max(0.0, ago + grain)


def _kernel_time(request: web.BaseRequest, field: int) -> float:
    if request.transport is None or not hasattr(socket, "TCP_INFO"):
        return 0.0
    info: bytes = request.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    (milliseconds,) = struct.unpack_from("I", info, field)
    return float(milliseconds) / 1000
