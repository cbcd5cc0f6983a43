"""From bytes to articles, by versioned normalizers."""

from headwater.normalize.registry import NORMALIZERS, NormalizedPage, normalize, normalize_as
from headwater.normalize.sniffing import choose

__all__ = ["NORMALIZERS", "NormalizedPage", "choose", "normalize", "normalize_as"]
