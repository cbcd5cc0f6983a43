"""What a database keeps of values that somebody else wrote."""

import math
from typing import Any

from headwater.core.text import clean

_DEEPEST = 20
_LARGEST = 2**63


def storable(value: Any, depth: int = 0) -> Any:
    """Return a JSON value as PostgreSQL takes it: texts cleaned, None for what is too deep, too large or no number."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(name)): storable(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [storable(inner, depth + 1) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if -_LARGEST <= value < _LARGEST else None
    return value
