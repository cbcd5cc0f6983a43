"""Decides if a failed request is the fault of our own network.

The detector connects again to hosts that answered recently. If none answers, our network is offline.
"""

import asyncio
import contextlib
import errno
import math
import socket
from collections import OrderedDict

_MAX_HOSTS = 4
_CONNECT_SECONDS = 1.0
_RESULT_VALID_SECONDS = 5.0
_AFTERMATH_SECONDS = 30.0  # requests that began while we were offline still fail for a while
_NO_WAY_OUT = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EMFILE, errno.ENFILE})
_NO_ANSWER = frozenset({errno.EHOSTUNREACH, errno.ETIMEDOUT})

Address = tuple[str, int]


def could_be_offline(error: Exception) -> bool:
    """Return whether our own network may have caused an error: no answer came back, not even a refusal."""
    return isinstance(error, TimeoutError) or is_probably_offline(error) or getattr(error, "errno", None) in _NO_ANSWER


def is_probably_offline(error: Exception) -> bool:
    """Return whether an error names our own network: no route, no name server, no free file descriptor."""
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    return isinstance(error, OSError) and error.errno in _NO_WAY_OUT


class OfflineDetector:
    """Keeps the addresses of the hosts that answered last, and tests them after a failure."""

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, Address] = OrderedDict()  # by host
        self._testing = asyncio.Lock()
        self._tested_at = -math.inf
        self._offline_at = -math.inf  # the time of the last test that reached no host

    def add(self, host: str, address: Address) -> None:
        """Record a successful connection to a host."""
        self._addresses[host] = address
        self._addresses.move_to_end(host)
        if len(self._addresses) > _MAX_HOSTS:
            self._addresses.popitem(last=False)

    async def is_offline(self, error: Exception, host: str) -> bool:
        """Return whether our own network caused a host's error: no other recent host answers any more."""
        if not could_be_offline(error):
            return False
        others = [address for known, address in self._addresses.items() if known != host]
        if not others:
            return is_probably_offline(error)
        async with self._testing:
            now = asyncio.get_running_loop().time()
            if now - self._tested_at >= _RESULT_VALID_SECONDS:
                reached = any(await asyncio.gather(*map(_answers, others)))
                self._tested_at = asyncio.get_running_loop().time()
                if not reached:
                    self._offline_at = self._tested_at
            return self._tested_at - self._offline_at < _AFTERMATH_SECONDS


async def _answers(address: Address) -> bool:
    """Connect and close without a request. A refused connection is an answer, too."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(*address)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
