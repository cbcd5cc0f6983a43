"""Which blocks of text recur on the pages of a host: notices, appeals, paragraphs about the company (issue 24).

The memory of a host is small: it forgets rare blocks first, and it weighs later pages more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

MAX_BLOCKS = 256  # of a host
MAX_PAGES = 64  # then all counts are halved
_ENOUGH_PAGES = 24
_EVERY = 4
_MIN_COUNT = 3
_MIN_SHARE = 0.2  # of the pages; a paragraph about the background of a story recurs on fewer


@dataclass(frozen=True, slots=True)
class SiteMemory:
    """The number of pages of a host, and on how many of them each block is, by the hash of its text, oldest first."""

    pages: int = 0
    counts: Mapping[int, int] = field(default_factory=dict)

    def learn(self, pages: Iterable[Sequence[int]]) -> "SiteMemory":
        """Return the memory with further pages, each the hashes of its blocks."""
        number, counts = self.pages, dict(self.counts)
        for blocks in pages:
            number += 1
            for block in dict.fromkeys(blocks):
                counts[block] = counts.pop(block, 0) + 1
            if len(counts) > MAX_BLOCKS:
                rarest = sorted(counts, key=counts.__getitem__)[: len(counts) - MAX_BLOCKS]  # of equals, the oldest
                for block in rarest:
                    del counts[block]
            if number > MAX_PAGES:
                number, counts = number // 2, {block: count // 2 for block, count in counts.items() if count > 1}
        return SiteMemory(number, counts)

    def is_taught_by(self, page: int) -> bool:
        """Return whether a page by its number teaches the memory. Once it knows enough pages, every fourth does."""
        return self.pages < _ENOUGH_PAGES or page % _EVERY == 0

    def recurring(self) -> list[int]:
        """Return the hashes of the blocks that belong to the site and not to a page."""
        least = max(_MIN_COUNT, _MIN_SHARE * self.pages)
        return [block for block, count in self.counts.items() if count >= least]
