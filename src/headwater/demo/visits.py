"""What visitors did, and whether they were polite."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """One request: the address as it was sent, the monotonic times it came and its answer was out, and the status."""

    host: str
    path: str
    arrived: float
    ended: float
    status: int


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


def find_violations(requests: Iterable[DemoRequest], delay_seconds: float) -> list[Violation]:
    """List, host by host, each request that came sooner than the delay after the one before it, or overlapped one.

    The times are those of arrival: leave a little of the delay for what a busy machine takes away between two sends.
    """
    by_host: defaultdict[str, list[DemoRequest]] = defaultdict(list)
    for request in sorted(requests, key=lambda request: request.arrived):
        by_host[request.host].append(request)
    return [violation for visits in by_host.values() for violation in _host_violations(visits, delay_seconds)]


def _host_violations(visits: list[DemoRequest], delay_seconds: float) -> Iterable[Violation]:
    longest = visits[0]
    for earlier, later in pairwise(visits):
        longest = max(longest, earlier, key=lambda request: request.ended)
        if later.arrived < longest.ended:
            yield Violation(longest, later, overlapped=True)
        elif later.arrived - earlier.arrived < delay_seconds:
            yield Violation(earlier, later, overlapped=False)
