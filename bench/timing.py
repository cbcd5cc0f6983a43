"""Times and their summaries."""

import gc
import math
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

T = TypeVar("T")
S = TypeVar("S", bound=Struct)


class Stopwatch:
    """Collects how long awaited things take."""

    def __init__(self) -> None:
        self.laps: list[float] = []

    async def time(self, work: Awaitable[T]) -> T:
        """Await something and keep how long it took."""
        started = time.perf_counter()
        try:
            return await work
        finally:
            self.laps.append(time.perf_counter() - started)

    @property
    def seconds(self) -> float:
        """All laps together."""
        return sum(self.laps)

    def percentile_ms(self, percent: float) -> float:
        """Return the lap that so many percent do not exceed."""
        return percentile(self.laps, percent) * 1000


def best(rates: Sequence[S]) -> S:
    """Return the highest rate of each sort; what is no rate is taken from the first."""
    names = [field.name for field in structs.fields(rates[0]) if field.type is float]
    return structs.replace(rates[0], **{name: max(getattr(rate, name) for rate in rates) for name in names})


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def resident_mb() -> float:
    """Return how much memory this process occupies."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(kilobytes) / 1024
