"""Which URL goes first (spec 2.2)."""

from headwater.core.frontier import Origin

LOWEST, HIGHEST = 1, 10
ORIGIN_BONUS = {Origin.FEED: 2, Origin.SITEMAP: 1, Origin.SPIDER: 0, Origin.MANUAL: 0, Origin.CATEGORY: 0}


def priority(source_base: int, origin: Origin, depth: int = 0) -> int:
    """Return the source's importance plus the origin's bonus minus the depth, from 1 (last) to 10 (first)."""
    return max(LOWEST, min(HIGHEST, source_base + ORIGIN_BONUS[origin] - depth))
