"""When a request really came in and its answer went out, on a machine that is too busy to notice at once."""

import socket
import struct
import time

from aiohttp import web

_LAST_SENT, _LAST_RECEIVED = 44, 52  # where struct tcp_info keeps how long ago that was, in milliseconds
_TICK = time.clock_getres(6)  # CLOCK_MONOTONIC_COARSE, which Python has no name for: the kernel counts in ticks
_GRAIN = _TICK + 0.001
# What two readings may be off by together; a real breach is a whole delay off, not a sliver of one.
TOLERANCE_SECONDS = max(0.01, 2 * _GRAIN)
_AT_ONCE = 0.001


def arrival(request: web.BaseRequest) -> float:
    """Return when the request came in, on the monotonic clock, and never sooner: nobody is blamed by a tick.

    Where the kernel cannot tell, that is now.
    """
    return _moment(request, _LAST_RECEIVED, grain=-_GRAIN)


def departure(request: web.BaseRequest) -> float:
    """Return when the last of its answer went out, in the same way, but never later: the next may come right then."""
    return _moment(request, _LAST_SENT, grain=_GRAIN)


def _moment(request: web.BaseRequest, field: int, *, grain: float) -> float:
    while True:
        now = time.monotonic()
        ago = _kernel_time(request, field)
        if time.monotonic() - now < _AT_ONCE:  # else this process was held up in between, and the two do not fit
            return now - max(0.0, ago + grain)


def _kernel_time(request: web.BaseRequest, field: int) -> float:
    if request.transport is None or not hasattr(socket, "TCP_INFO"):
        return 0.0
    told: bytes = request.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    (milliseconds,) = struct.unpack_from("I", told, field)
    return float(milliseconds) / 1000
