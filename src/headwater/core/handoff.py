"""The counts of a run's hand-offs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HandoffCounts:
    """The results of the hand-offs of a run; each is counted once."""

    queued: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0


def named_counts(counts: HandoffCounts | None) -> dict[str, int | None]:
    """Return the counts by their JSON names; each is None while hand-offs are rolled back."""
    names = ("queued", "completed", "failed", "skipped")
    return {f"handoff_{name}_count": getattr(counts, name, None) for name in names}
