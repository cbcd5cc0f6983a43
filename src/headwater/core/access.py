"""The rules of access: scopes of API tokens, the strength of a token, and the rate of failures."""

import re
from collections import OrderedDict
from enum import StrEnum

SHORTEST_TOKEN = 32
_TOKEN = re.compile(rf"[!-~]{{{SHORTEST_TOKEN},512}}")
_FEWEST_KINDS = 8  # 32 random hexadecimal digits have fewer different ones once in a million times


class Scope(StrEnum):
    """The rights of a token. Each scope includes the one before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def permits(self, needed: "Scope") -> bool:
        """Return whether a token of this scope may do what needs another scope."""
        order = list(Scope)
        return order.index(self) >= order.index(needed)


def check_token(token: str) -> str:
    """Return a token that is long enough and looks random. Raise a ValueError that continues its name if it is not."""
    if not _TOKEN.fullmatch(token) or len(set(token)) < _FEWEST_KINDS:
        raise ValueError(
            f"must have at least {SHORTEST_TOKEN} random characters without spaces, as `openssl rand -hex 32` prints"
        )
    return token


class FailureLimit:
    """Limits the rate of failures of each peer and of all peers. It stores a bounded number of peers."""

    def __init__(self, of_peer: int = 20, of_all: int = 200, per_seconds: float = 60.0, peers: int = 1000) -> None:
        self._of_peer = of_peer
        self._of_all = of_all
        self._per_seconds = per_seconds
        self._most_peers = peers
        self._all: tuple[float, float] = (0.0, 0.0)
        self._peers: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def count(self, peer: str, now: float) -> bool:
        """Count a failure of a peer. Return whether the peer, or all peers together, failed too often of late."""
        self._all = self._add(self._all, now, self._of_all)
        self._peers[peer] = self._add(self._peers.get(peer, (0.0, now)), now, self._of_peer)
        self._peers.move_to_end(peer)
        if len(self._peers) > self._most_peers:
            self._peers.popitem(last=False)
        return self._all[0] > self._of_all or self._peers[peer][0] > self._of_peer

    def _add(self, count: tuple[float, float], now: float, limit: int) -> tuple[float, float]:
        """Add a failure to a count, of which `limit` are forgotten in `per_seconds`."""
        failures, counted_at = count
        remaining = max(0.0, failures - (now - counted_at) * limit / self._per_seconds)
        return min(remaining + 1, limit + 1), now
