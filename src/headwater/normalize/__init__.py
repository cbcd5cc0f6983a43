"""From bytes to articles, by versioned normalizers."""

from headwater.normalize.registry import NORMALIZERS, NormalizedPage, choose, normalize, normalize_as

__all__ = ["NORMALIZERS", "NormalizedPage", "choose", "normalize", "normalize_as"]
