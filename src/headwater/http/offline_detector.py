"""Is it them, or is it us? Who was reached lately is tried again before a failure is blamed on anybody else."""

import asyncio
import contextlib
import errno
import math
import socket
from collections import OrderedDict

_MOST = 4
_SECONDS = 1.0
_VERDICT_SECONDS = 5.0  # a look serves everybody who asks within this time
_AFTERMATH_SECONDS = 30.0  # what was under way while nobody was reached fails for some time after that
_NO_WAY_OUT = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EMFILE, errno.ENFILE})
_NOBODY_THERE = frozenset({errno.EHOSTUNREACH, errno.ETIMEDOUT})

Address = tuple[str, int]


def is_doubtful(error: Exception) -> bool:
    """Tell whether a failure looks the same whoever's it is: nothing came back, not even a refusal."""
    return isinstance(error, TimeoutError) or is_probably_ours(error) or getattr(error, "errno", None) in _NOBODY_THERE


def is_probably_ours(error: Exception) -> bool:
    """Tell whether a failure speaks of our own network: no way out, no name server, no file left to open."""
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    return isinstance(error, OSError) and error.errno in _NO_WAY_OUT


class OfflineDetector:
    """Remembers the hosts that were connected to last."""

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, Address] = OrderedDict()  # by host
        self._looking = asyncio.Lock()
        self._looked_at = -math.inf
        self._cut_at = -math.inf  # when nobody was reached the last time

    def add(self, host: str, address: Address) -> None:
        """Note that a host was connected to."""
        self._addresses[host] = address
        self._addresses.move_to_end(host)
        if len(self._addresses) > _MOST:
            self._addresses.popitem(last=False)

    async def is_ours(self, error: Exception, host: str) -> bool:
        """Tell whether a failure with a host is our own network's: no other that was reached lately can be any more."""
        if not is_doubtful(error):
            return False
        others = [address for known, address in self._addresses.items() if known != host]
        if not others:
            return is_probably_ours(error)
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if now - self._looked_at >= _VERDICT_SECONDS:
                reached = any(await asyncio.gather(*map(_is_there, others)))
                self._looked_at = asyncio.get_running_loop().time()
                if not reached:
                    self._cut_at = self._looked_at
            return self._looked_at - self._cut_at < _AFTERMATH_SECONDS


async def _is_there(address: Address) -> bool:
    """Connect and hang up, asking for nothing; a refusal is an answer too."""
    try:
        async with asyncio.timeout(_SECONDS):
            _, writer = await asyncio.open_connection(*address)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
