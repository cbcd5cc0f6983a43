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
    """Collects the times of awaited calls."""

    def __init__(self) -> None:
        self.laps: list[float] = []

    async def time(self, work: Awaitable[T]) -> T:
        """Await a call and record its time."""
        started = time.perf_counter()
        try:
            return await work
        finally:
            self.laps.append(time.perf_counter() - started)

    @property
    def seconds(self) -> float:
        """The sum of all times."""
        return sum(self.laps)

    def percentile_ms(self, percent: float) -> float:
        """Return a percentile of the times."""
        return percentile(self.laps, percent) * 1000


def best(rates: Sequence[S]) -> S:
    """Return the highest value of each rate, and the other fields of the first."""
    names = [field.name for field in structs.fields(rates[0]) if field.type is float]
    return structs.replace(rates[0], **{name: max(getattr(rate, name) for rate in rates) for name in names})


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile of the values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def resident_mb() -> float:
    """Return the resident memory of this process."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(kilobytes) / 1024
