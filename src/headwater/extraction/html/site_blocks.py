"""Leave blocks that recur on the pages of a site out of an article (issue 24)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from zlib import crc32

from headwater.extraction.html.blocks import HEADINGS, Block

_MIN_SIZE = 40
_NO_BLOCKS = HEADINGS | {"pre", "td", "th"}  # headings, code and cells recur in texts
_FIRST, _LAST = 16, 32  # blocks of a long text that are learned, because sites add theirs at its ends


@dataclass(frozen=True, slots=True)
class SiteBlocks:
    """The hashes of the blocks of an article that can be learned, and of those that were left out."""

    learned: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


def remove_site_blocks(blocks: Sequence[Block], known: Collection[int]) -> tuple[Sequence[Block], SiteBlocks]:
    """Return the blocks without the known ones. If no prose would be left, all blocks stay.

    The same blocks with only the removed hashes give the same result.
    """
    own = [block for block in blocks if block.size >= _MIN_SIZE and block.element.tag not in _NO_BLOCKS]
    ends = own if len(own) <= _FIRST + _LAST else own[:_FIRST] + own[-_LAST:]
    learned = tuple(hash_block(block.text) for block in ends)
    if not known:
        return blocks, SiteBlocks(learned)
    hashes = {block: hash_block(block.text) for block in own}
    removed = set(hashes.values()).intersection(known)
    kept = [block for block in blocks if hashes.get(block) not in removed]
    if not removed or not any(block.is_prose for block in kept):
        return blocks, SiteBlocks(learned)
    return kept, SiteBlocks(learned, tuple(sorted(removed)))


def hash_block(text: str) -> int:
    """Return the hash of a text: its length and a checksum in a number of 63 bits. A host has few blocks to compare."""
    return min(len(text), 2**31 - 1) << 32 | crc32(text.encode(errors="replace"))
