"""When a request really came in, on a machine that is too busy to notice at once."""

import socket
import struct

from aiohttp import web

_LAST_DATA_RECEIVED = 52  # where struct tcp_info keeps it, in milliseconds
_GRAIN = 0.005  # the kernel counts in ticks; only what is certain is taken off


def kernel_wait(request: web.BaseRequest) -> float:
    """Ask the kernel how many seconds ago the request came in; 0 where it cannot tell."""
    if request.transport is None or not hasattr(socket, "TCP_INFO"):
        return 0.0
    told: bytes = request.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    (milliseconds,) = struct.unpack_from("I", told, _LAST_DATA_RECEIVED)
    return max(0.0, float(milliseconds) / 1000 - _GRAIN)
