"""What visitors did, and whether they were polite."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

_NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """One request: the address as it was sent, and the monotonic times it came and its answer was out or broken off.

    `status` is 0 where no whole answer went out. `pause` is how long the answer asked to be left alone (Retry-After).
    """

    host: str
    path: str
    arrived: float
    ended: float
    status: int
    pause: float = 0.0

    @property
    def url(self) -> str:
        """The whole address."""
        return f"http://{self.host}{self.path}"


@dataclass(frozen=True, slots=True)
class Violation:
    """`later` came too soon after `earlier`, or while it was still being answered."""

    earlier: DemoRequest
    later: DemoRequest
    overlapped: bool

    def __str__(self) -> str:
        gap = self.later.arrived - self.earlier.arrived
        how = "while the answer was still going out" if self.overlapped else "too soon"
        return f"{self.later.host}: {self.later.path} came {gap:.3f} s after {self.earlier.path}, {how}"


def find_violations(
    requests: Iterable[DemoRequest],
    delay_seconds: float,
    *,
    crawl_delays: Mapping[str, float] = _NONE,
    tolerance_seconds: float = 0.0,
) -> list[Violation]:
    """List, host by host, each request that came sooner than it might after the one before it, or overlapped one.

    A host's crawl delay stands in place of the delay that all others have. The times are those of arrival: the
    tolerance is for what a busy machine takes away between two sends.
    """
    by_host: defaultdict[str, list[DemoRequest]] = defaultdict(list)
    for request in sorted(requests, key=lambda request: request.arrived):
        by_host[request.host].append(request)
    return [
        violation
        for host, visits in by_host.items()
        for violation in _host_violations(visits, crawl_delays.get(host, delay_seconds), tolerance_seconds)
    ]


def _host_violations(visits: list[DemoRequest], delay: float, tolerance: float) -> Iterable[Violation]:
    longest = visits[0]
    for earlier, later in pairwise(visits):
        longest = max(longest, earlier, key=lambda request: request.ended)
        if later.arrived < longest.ended:
            yield Violation(longest, later, overlapped=True)
        elif later.arrived - earlier.arrived < max(delay, earlier.pause) - tolerance:
            yield Violation(earlier, later, overlapped=False)
