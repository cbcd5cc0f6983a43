"""The end of a poll."""

from dataclasses import dataclass, field

from headwater.core.handoff import HandoffCounts
from headwater.core.reasons import Reason
from headwater.core.source import Method, Source


@dataclass(frozen=True, slots=True)
class PollResult:
    """What a poll brought."""

    source: Source
    reason: Reason
    error: str | None = None
    method: Method = Method.FEED
    errors: int = 0  # in a row
    overflowed: bool = False  # the feed had come and gone since it was last read: some entries may have been missed
    deferred: bool = False  # it was given back undone, to be tried again later
    title: str = ""
    items: int = 0
    new_items: int = 0
    new: int | None = None  # of a day that was read: how many are NEW in it now
    latest: int | None = None  # and how many LATEST
    leads: int = 0
    left: int = 0  # is still to be read, by a reading that follows at once
    new_urls: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    run_id: int | None = None  # None: nobody answers for it, it was due
    handoff_ids: tuple[int, ...] | None = None  # of what a run has touched; None: hand-offs are taken back, or no run
    handoffs: HandoffCounts | None = None  # what became of those
